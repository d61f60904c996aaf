//! KV caches of bfloat16 and of 8 bits under the same laws as those of f32, and beside them.

use voxtral::Pool;
use voxtral_core::kernels::{Kernels, Serial};
use voxtral_core::layout::{CacheType, Layout, Memory, Options, Region};
use voxtral_core::model::LogitHash;
use voxtral_core::session::{Session, Step};
use voxtral_tests::engine::{Engine, Plan};
use voxtral_tests::generator::Spec;
use voxtral_tests::goldens::{self, Case};

/// Caches that round. No logit of a clip may move by more; the largest changes over all clips are 0.30 and 1.04.
const ROUNDING: [(CacheType, f32); 2] = [(CacheType::Bf16, 0.5), (CacheType::Q8, 1.5)];

fn with(cache: CacheType, options: Options) -> Options {
    Options { cache, ..options }
}

/// The same bits over cuts of the audio, chunks, threads and instruction sets; other bits than with caches of f32.
#[test]
fn rounding_caches_give_the_same_bits_in_every_run() {
    for (cache, _) in ROUNDING {
        same_bits_in_every_run(cache);
    }
}

fn same_bits_in_every_run(cache: CacheType) {
    // The smallest windows, so that rings wrap; wide enough besides that products are split over threads.
    let case = Case::read('A', "speech_a4");
    let mut spec = case.spec();
    spec.encoder.hidden_dim = 1024;
    spec.decoder.hidden_dim = 1024;
    let engine = Engine::of(&spec);
    let wide = engine.options(case.delay_tokens);
    let options = with(cache, wide);
    let samples = case.samples();
    let expected = engine.run(&options, &samples);
    assert!(!expected.tokens.is_empty());
    assert_ne!(expected.hash, engine.run(&wide, &samples).hash, "{cache:?} rounds");

    let pool = Pool::new(3);
    let scalar = Kernels::scalar(Kernels::detect().class());
    let plain = Plan::default;
    for (what, chunk, plan) in [
        (
            "pieces of 161",
            25,
            Plan {
                cuts: &[161],
                ..plain()
            },
        ),
        (
            "pieces of 1 to 4096",
            25,
            Plan {
                cuts: &[1, 1279, 4096],
                ..plain()
            },
        ),
        ("chunks of 1", 1, plain()),
        ("chunks of 7", 7, plain()),
        ("chunks of 200", 200, plain()),
        (
            "three threads",
            40,
            Plan {
                executor: &pool,
                ..plain()
            },
        ),
        (
            "the scalar twin",
            25,
            Plan {
                kernels: Some(scalar),
                ..plain()
            },
        ),
    ] {
        let run = plan.run(&engine, &Options { chunk, ..options }, &samples);
        assert_eq!(
            (run.tokens, run.hash),
            (expected.tokens.clone(), expected.hash),
            "{what}"
        );
    }

    // A copy of state and session, put into other memory after every step.
    let layout = Layout::new(&engine.params, &options).unwrap();
    let (mut state, mut session) = (vec![f32::NAN; layout.state_len()], Session::new(&layout));
    let (mut tokens, mut hash, mut rest) = (Vec::new(), LogitHash::default(), &samples[..]);
    loop {
        let (mut copy, mut scratch) = (state.clone(), vec![f32::NAN; layout.scratch_len()]);
        let mut memory = Memory::carve(&layout, &mut copy, &mut scratch).unwrap();
        rest = &rest[session.feed(&mut memory, rest).unwrap_or(0)..];
        let step = session.step_probed(&engine.model(), &mut memory, &Serial, &mut hash);
        state = copy;
        match step.unwrap() {
            Step::Token(token) => tokens.push(token.id),
            Step::Worked => {}
            Step::NeedAudio if rest.is_empty() => session.finish(),
            Step::NeedAudio => {}
            Step::Done => break,
        }
    }
    assert_eq!((tokens, hash.value()), (expected.tokens, expected.hash), "snapshots");
}

/// The small model says the same of every clip, and no logit is far from what caches of f32 give.
#[test]
fn rounding_caches_leave_the_text_as_it_is() {
    let engine = Engine::nano();
    let recording = Plan {
        record: true,
        ..Plan::default()
    };
    let mut farthest = ROUNDING.map(|_| 0.0f32);
    for clip in goldens::clips() {
        for expected in &clip.delays {
            let options = engine.options(expected.delay_tokens);
            let wide = recording.run(&engine, &options, &clip.samples);
            for ((cache, _), farthest) in ROUNDING.into_iter().zip(&mut farthest) {
                let narrow = recording.run(&engine, &with(cache, options), &clip.samples);
                assert_eq!(narrow.tokens, expected.tokens, "{} {cache:?}", clip.file);
                for (wide, narrow) in wide.stages["logits"].iter().zip(&narrow.stages["logits"]) {
                    *farthest = farthest.max((wide - narrow).abs());
                }
            }
        }
    }
    for ((cache, limit), farthest) in ROUNDING.into_iter().zip(farthest) {
        println!("farthest from the logits of f32: {farthest} with {cache:?}");
        assert!(farthest > 0.0 && farthest < limit, "{cache:?}: {farthest}");
    }
}

/// Of 8 bits, 4 to a value, and one value for each position and head.
#[test]
fn caches_of_8_bits_take_little_more_than_a_quarter_of_the_memory() {
    let engine = Engine::of(&Spec::variant('B'));
    let held = |cache| {
        let (mut caches, layout) = (
            Vec::new(),
            Layout::new(&engine.params, &with(cache, engine.options(1))).unwrap(),
        );
        layout.items(|item| {
            if item.name.contains("KV cache") {
                caches.push(item);
            }
        });
        caches
    };
    let (e, d) = (&engine.params.encoder, &engine.params.decoder);
    for ((wide, narrow), head_dim) in held(CacheType::F32)
        .iter()
        .zip(held(CacheType::Q8))
        .zip([e.head_dim, d.head_dim])
    {
        assert_eq!(narrow.name, format!("{}, q8", wide.name));
        assert_eq!(narrow.values, wide.values / 4 + wide.values / head_dim);
    }
}

/// bfloat16 halves the caches and nothing else.
#[test]
fn bf16_caches_take_half_the_memory() {
    for (window, spec) in ['A', 'B', 'D'].map(Spec::variant).into_iter().enumerate() {
        let engine = Engine::of(&spec);
        let wide = Options {
            decoder_window: Some(window + 1),
            ..engine.options(1)
        };
        let [wide, narrow] = [wide, with(CacheType::Bf16, wide)].map(|options| {
            let mut items = Vec::new();
            let layout = Layout::new(&engine.params, &options).unwrap();
            layout.items(|item| items.push(item));
            (layout, items)
        });
        let mut saved = 0;
        for (wide, narrow) in wide.1.iter().zip(&narrow.1) {
            if wide.region == Region::State && wide.name.ends_with("KV cache") {
                assert_eq!(narrow.name, format!("{}, bf16", wide.name));
                assert_eq!(narrow.values, wide.values / 2);
                saved += wide.values - narrow.values;
            } else {
                assert_eq!(narrow, wide);
            }
        }
        assert!(saved > 0);
        assert_eq!(narrow.0.state_len(), wide.0.state_len() - saved);
        assert_eq!(narrow.0.scratch_len(), wide.0.scratch_len());
    }
}
