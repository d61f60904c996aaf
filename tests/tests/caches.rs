//! KV caches of bfloat16 under the same laws as those of f32, and beside them.

use voxtral::Pool;
use voxtral_core::kernels::{Kernels, Serial};
use voxtral_core::layout::{CacheType, Layout, Memory, Options, Region};
use voxtral_core::model::LogitHash;
use voxtral_core::session::{Session, Step};
use voxtral_tests::engine::{Engine, Plan};
use voxtral_tests::generator::Spec;
use voxtral_tests::goldens::{self, Case};

/// No logit of a clip may move by more; the largest change over all clips is 0.30.
const FARTHEST: f32 = 0.5;

fn in_bf16(options: Options) -> Options {
    Options {
        cache: CacheType::Bf16,
        ..options
    }
}

/// The same bits over cuts of the audio, chunks, threads and instruction sets; other bits than with caches of f32.
#[test]
fn bf16_caches_give_the_same_bits_in_every_run() {
    // The smallest windows, so that rings wrap; wide enough besides that products are split over threads.
    let case = Case::read('A', "speech_a4");
    let mut spec = case.spec();
    spec.encoder.hidden_dim = 1024;
    spec.decoder.hidden_dim = 1024;
    let engine = Engine::of(&spec);
    let wide = engine.options(case.delay_tokens);
    let options = in_bf16(wide);
    let samples = case.samples();
    let expected = engine.run(&options, &samples);
    assert!(!expected.tokens.is_empty());
    assert_ne!(expected.hash, engine.run(&wide, &samples).hash, "bfloat16 rounds");

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
fn bf16_caches_leave_the_text_as_it_is() {
    let engine = Engine::nano();
    let recording = Plan {
        record: true,
        ..Plan::default()
    };
    let mut farthest = 0.0f32;
    for clip in goldens::clips() {
        for expected in &clip.delays {
            let options = engine.options(expected.delay_tokens);
            let wide = recording.run(&engine, &options, &clip.samples);
            let narrow = recording.run(&engine, &in_bf16(options), &clip.samples);
            assert_eq!(narrow.tokens, expected.tokens, "{}", clip.file);
            for (wide, narrow) in wide.stages["logits"].iter().zip(&narrow.stages["logits"]) {
                farthest = farthest.max((wide - narrow).abs());
            }
        }
    }
    println!("farthest from the logits of f32: {farthest}");
    assert!(farthest > 0.0 && farthest < FARTHEST, "{farthest}");
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
        let [wide, narrow] = [wide, in_bf16(wide)].map(|options| {
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
