//! Equal bits on every machine: the logit hash of a run, written down once for each class. Those of the small model's
//! clips are in `tests/nano/clips/logits.json`, by which other machines are judged as well (`ci/same.py`).

use voxtral_core::kernels::{Class, Kernels, Storage};
use voxtral_core::layout::{CacheType, Options};
use voxtral_tests::engine::{Engine, Plan};
use voxtral_tests::goldens::{self, Case};
use voxtral_tests::quantised::Model;

/// The hash of all logits of the golden model A over its speech, in a storage, by kernels of the class.
///
/// Whoever changes the canonical order, exp or erf changes it, and finds the new one in the message of the failure; so
/// does who changes blocks or their encoders.
fn expected(storage: Storage, class: Class) -> u64 {
    match (storage, class) {
        (Storage::Q8, Class::Fused) => 0x741f_ba05_d953_2e18,
        (Storage::Q8, Class::Separate) => 0x59a1_7398_f756_8c1a,
        (Storage::Q4, Class::Fused) => 0x527b_40f4_ee34_0bf4,
        (Storage::Q4, Class::Separate) => 0xd005_fc2c_3e65_2fa0,
        (_, Class::Fused) => 0x4087_89a1_02ad_1904,
        (_, Class::Separate) => 0x32fb_13fb_9704_43dc,
    }
}

/// Blocks go with caches of 8 bits, bfloat16 with caches of f32.
fn check(storage: Storage) {
    let case = Case::read('A', "speech_a4");
    let spec = case.spec();
    let plain = Engine::of(&spec);
    let (engine, cache) = if storage.is_blocks() {
        let model = Model::new(&plain.weights, &plain.params, storage);
        let engine = Engine::new(model.file(), &spec.params_json(), spec.tekken_json());
        (engine, CacheType::Q8)
    } else {
        (plain, CacheType::F32)
    };
    let options = Options {
        cache,
        ..engine.options(case.delay_tokens)
    };
    for kernels in [
        Kernels::detect(),
        voxtral::kernels::choose(),
        Kernels::baseline(),
        Kernels::scalar(Class::Fused),
        Kernels::scalar(Class::Separate),
    ] {
        let run = Plan {
            kernels: Some(kernels),
            ..Plan::default()
        }
        .run(&engine, &options, &case.samples());
        let expected = expected(storage, kernels.class());
        assert_eq!(
            run.hash, expected,
            "{storage:?} {kernels:?}: {:#018x} is not {expected:#018x}",
            run.hash
        );
    }
}

#[test]
fn logits_have_the_same_bits_on_every_machine() {
    check(Storage::Bf16);
}

#[test]
fn logits_of_weights_in_8_bits_have_the_same_bits_on_every_machine() {
    check(Storage::Q8);
}

#[test]
fn logits_of_weights_in_4_bits_have_the_same_bits_on_every_machine() {
    check(Storage::Q4);
}

#[test]
fn clips_have_the_same_tokens_and_bits_on_every_machine() {
    let path = goldens::clips_dir().join("logits.json");
    let written: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let written = written["clips"].as_object().unwrap();
    assert!(written.len() >= 3);
    let engine = Engine::nano();
    for clip in goldens::clips() {
        let Some(expected) = written.get(&clip.file) else {
            continue;
        };
        let result = clip.delays.iter().find(|result| result.delay_tokens == 6).unwrap();
        // On x86-64 one of each class.
        for kernels in [Kernels::detect(), Kernels::baseline()] {
            let run = Plan {
                kernels: Some(kernels),
                ..Plan::default()
            }
            .run(&engine, &engine.options(6), &clip.samples);
            assert_eq!(run.tokens, result.tokens, "{}: {kernels:?}", clip.file);
            let class = match kernels.class() {
                Class::Fused => "fused",
                Class::Separate => "separate",
            };
            let hash = format!("{:016x}", run.hash);
            assert_eq!(expected[class], hash, "{}: {kernels:?}", clip.file);
        }
    }
    let files: Vec<_> = goldens::clips().into_iter().map(|clip| clip.file).collect();
    assert!(written.keys().all(|name| files.contains(name)), "{written:?}");
}
