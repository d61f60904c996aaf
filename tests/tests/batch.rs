//! Several positions in one pass of the decoder: whatever is guessed, the result is that of one by one, bit for bit.

use std::collections::HashMap;

use proptest::prelude::*;
use voxtral_core::kernels::CacheType;
use voxtral_core::layout::{Layout, LayoutError, MAX_BATCH, Memory, Options};
use voxtral_core::model::{LogitHash, Probe, Stage};
use voxtral_core::session::{Session, Step};
use voxtral_tests::engine::{Engine, Plan, Run};
use voxtral_tests::generator::Spec;
use voxtral_tests::goldens::{self, Case};
use voxtral_tests::random;

/// A way to guess the token at a position, where the session's guess is given.
type Guess<'a> = &'a dyn Fn(u64, u32) -> u32;

fn one_by_one(engine: &Engine, options: &Options, samples: &[f32]) -> Run {
    engine.run(&Options { batch: 1, ..*options }, samples)
}

/// Every width, with the session's own guesses and with those of an enemy.
fn assert_equal(engine: &Engine, options: &Options, samples: &[f32], what: &str) {
    let expected = one_by_one(engine, options, samples);
    let decided: HashMap<u64, u32> = expected
        .positions
        .iter()
        .copied()
        .zip(expected.tokens.clone())
        .collect();
    let right = |position: u64, id: u32| decided.get(&position).copied().unwrap_or(id);
    let wrong = |position: u64, id: u32| right(position, id) ^ 1;
    let half = |position: u64, id: u32| {
        if position % 3 == 0 {
            wrong(position, id)
        } else {
            right(position, id)
        }
    };
    let mixed = |position: u64, id: u32| {
        let dice = (position.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60) as u32;
        if dice < 11 { right(position, id) } else { dice * 7 }
    };
    let absurd = |_: u64, _: u32| u32::MAX;
    let guesses: [(&str, Option<Guess>); 6] = [
        ("its own", None),
        ("right", Some(&right)),
        ("wrong", Some(&wrong)),
        ("often wrong", Some(&half)),
        ("random", Some(&mixed)),
        ("absurd", Some(&absurd)),
    ];
    for batch in 2..=MAX_BATCH {
        for (name, guess) in guesses {
            let plan = Plan {
                guess,
                ..Plan::default()
            };
            let run = plan.run(engine, &Options { batch, ..*options }, samples);
            let what = format!("{what}: {batch} in a pass, guesses {name}");
            assert_eq!(run.tokens, expected.tokens, "{what}");
            assert_eq!(run.positions, expected.positions, "{what}");
            assert_eq!(run.hash, expected.hash, "{what}");
        }
    }
}

/// Variant A has the smallest windows: rings wrap inside of passes that are refused.
#[test]
fn goldens_are_equal() {
    for case in Case::all() {
        let engine = Engine::of(&case.spec());
        let what = format!("{}/{}", case.variant, case.case);
        assert_equal(&engine, &engine.options(case.delay_tokens), &case.samples(), &what);
    }
}

#[test]
fn caches_of_other_types_are_equal() {
    let case = Case::read('A', "speech_a4");
    let engine = Engine::of(&case.spec());
    for cache in [CacheType::Bf16, CacheType::Q8] {
        let options = Options {
            cache,
            ..engine.options(case.delay_tokens)
        };
        assert_equal(&engine, &options, &case.samples(), &format!("{cache:?}"));
    }
}

#[test]
fn clips_are_equal() {
    let engine = Engine::nano();
    for (i, clip) in goldens::clips().iter().enumerate() {
        let options = engine.options(if i % 2 == 0 { 6 } else { 2 });
        assert_equal(&engine, &options, &clip.samples, &clip.file);
    }
}

/// 200 models of random sizes, each with a width, a chunk and a rate of right guesses of its own.
#[test]
fn random_models_are_equal() {
    for seed in 0..200u64 {
        let engine = Engine::of(&Spec::random(seed));
        let samples = random::audio(seed, 3000 + 61 * seed as usize);
        let options = Options {
            chunk: 1 + seed as usize % 40,
            stop_at_end_of_text: seed % 3 == 0,
            ..engine.options(1 + seed as usize % 9)
        };
        let expected = one_by_one(&engine, &options, &samples);
        let decided: HashMap<u64, u32> = expected
            .positions
            .iter()
            .copied()
            .zip(expected.tokens.clone())
            .collect();
        let guess = |position: u64, id: u32| match decided.get(&position) {
            Some(&right) if (position ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) % 8 > seed % 8 => right,
            _ => id,
        };
        let batch = 2 + seed as usize % (MAX_BATCH - 1);
        let plan = Plan {
            guess: Some(&guess),
            cuts: &[1 + 97 * (seed as usize % 50)],
            ..Plan::default()
        };
        let run = plan.run(&engine, &Options { batch, ..options }, &samples);
        assert_eq!(run.tokens, expected.tokens, "{seed}");
        assert_eq!(run.hash, expected.hash, "{seed}");
    }
}

/// What a run shows its caller, step by step: tokens, positions, sums of the logits' bits.
struct Steps {
    tokens: Vec<(u32, u64, Option<u64>)>,
    /// Decoder passes behind the prompt.
    passes: usize,
}

/// Counts passes, and decides tokens if it is told to.
#[derive(Default)]
struct Watch {
    hash: LogitHash,
    forced: Option<Vec<u32>>,
    decided: usize,
}

impl Probe for Watch {
    fn stage(&mut self, stage: Stage, first: u64, values: &[f32]) {
        self.hash.stage(stage, first, values);
    }
    fn decide(&mut self, _position: u64, id: u32) -> u32 {
        self.decided += 1;
        self.forced.as_ref().map_or(id, |forced| forced[self.decided - 1])
    }
}

fn bits(logits: &[f32]) -> u64 {
    let mut hash = LogitHash::default();
    hash.stage(Stage::Logits, 0, logits);
    hash.value()
}

/// Drives a session by hand; `between` is called before every step.
fn drive(
    engine: &Engine,
    options: &Options,
    samples: &[f32],
    watch: &mut Watch,
    mut between: impl FnMut(usize, &mut Session, &mut [f32], &mut [f32]),
) -> Steps {
    let layout = Layout::new(&engine.params, options).unwrap();
    let (mut state, mut scratch) = (vec![f32::NAN; layout.state_len()], vec![f32::NAN; layout.scratch_len()]);
    let mut session = Session::new(&layout);
    let model = engine.model();
    let mut rest = samples;
    let mut steps = Steps {
        tokens: vec![],
        passes: 0,
    };
    for step in 0.. {
        between(step, &mut session, &mut state, &mut scratch);
        let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
        let before = session.positions_decoded();
        match session
            .step_probed(&model, &mut memory, &voxtral_core::kernels::Serial, watch)
            .unwrap()
        {
            Step::Token(token) => {
                steps.passes += usize::from(session.positions_decoded() > before);
                steps
                    .tokens
                    .push((token.id, token.position, session.logits(&memory).map(bits)));
            }
            Step::Worked => {}
            Step::NeedAudio if rest.is_empty() => session.finish(),
            Step::NeedAudio => rest = &rest[session.feed(&mut memory, rest).unwrap()..],
            Step::Done => break,
        }
    }
    steps
}

/// The logits are those of each token when it is given out, and passes are fewer than tokens.
#[test]
fn logits_are_there_for_each_token() {
    let engine = Engine::nano();
    let samples = &goldens::clips()[0].samples;
    let expected = drive(
        &engine,
        &Options {
            batch: 1,
            ..engine.options(6)
        },
        samples,
        &mut Watch::default(),
        |_, _, _, _| {},
    );
    assert_eq!(expected.passes, expected.tokens.len());
    let run = drive(
        &engine,
        &engine.options(6),
        samples,
        &mut Watch::default(),
        |_, _, _, _| {},
    );
    assert!(run.tokens.iter().all(|token| token.2.is_some()));
    assert_eq!(run.tokens, expected.tokens);
    assert!(2 * run.passes < run.tokens.len(), "{} passes", run.passes);
}

/// How many positions a pass of at most 8 brings: all clips one after the other, and a minute of near silence.
#[test]
fn passes_bring_several_positions() {
    let engine = Engine::nano();
    let speech: Vec<f32> = goldens::clips().iter().flat_map(|clip| clip.samples.clone()).collect();
    let noise: Vec<f32> = (0..60 * 16_000u64)
        .map(|i| 1e-4 * ((i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f32 / (1 << 23) as f32 - 1.0))
        .collect();
    for (what, samples, least) in [("speech", speech, 2.2), ("pauses", noise, 6.0)] {
        let options = Options {
            stop_at_end_of_text: false,
            ..engine.options(6)
        };
        let run = drive(&engine, &options, &samples, &mut Watch::default(), |_, _, _, _| {});
        let each = run.tokens.len() as f64 / run.passes as f64;
        println!(
            "{what}: {} positions in {} passes, {each:.2} each",
            run.tokens.len(),
            run.passes
        );
        assert!(each >= least, "{what}: {each}");
    }
}

/// The width may change at any time, and so may the memory between two steps: a snapshot is the state and the session.
/// Logits are not told then if they are gone.
#[test]
fn widths_and_memory_may_change_between_steps() {
    let engine = Engine::nano();
    let samples = &goldens::clips()[7].samples;
    let expected = one_by_one(&engine, &engine.options(6), samples);
    let mut watch = Watch::default();
    let run = drive(
        &engine,
        &engine.options(6),
        samples,
        &mut watch,
        |step, session, state, scratch| {
            session.set_batch(step * 7 % 11);
            if step % 3 == 0 {
                scratch.fill(f32::NAN);
            }
            if step % 5 == 0 {
                let (kept, copy) = (*session, state.to_vec());
                state.fill(f32::NAN);
                session.reset();
                *session = kept;
                state.copy_from_slice(&copy);
            }
        },
    );
    assert_eq!(
        run.tokens.iter().map(|token| token.0).collect::<Vec<_>>(),
        expected.tokens
    );
    assert_eq!(watch.hash.value(), expected.hash);
    assert!(run.tokens.iter().any(|token| token.2.is_none()));
    assert!(run.tokens.iter().any(|token| token.2.is_some()));
}

/// A probe that decides is followed, one by one as in wide passes.
#[test]
fn forced_tokens_are_followed() {
    let engine = Engine::nano();
    let samples = &goldens::clips()[0].samples;
    let own = one_by_one(&engine, &engine.options(6), samples);
    let mut forced = own.tokens.clone();
    for token in forced.iter_mut().skip(3).step_by(9) {
        *token = 1262;
    }
    let runs = [1, 2, 5, 8].map(|batch| {
        let mut watch = Watch {
            forced: Some(forced.clone()),
            ..Watch::default()
        };
        let options = Options {
            batch,
            ..engine.options(6)
        };
        let run = drive(&engine, &options, samples, &mut watch, |_, _, _, _| {});
        (run.tokens, watch.hash)
    });
    let told: Vec<u32> = runs[0].0.iter().map(|token| token.0).collect();
    assert_eq!(told, forced);
    assert_ne!(runs[0].1.value(), own.hash);
    assert!(runs.iter().all(|run| *run == runs[0]));
}

/// An encoder pass waits for what is gathered and takes what is there: fewer passes, the same bits.
#[test]
fn gathering_changes_no_bit() {
    let engine = Engine::nano();
    let samples = &goldens::clips()[0].samples;
    let expected = one_by_one(&engine, &engine.options(6), samples);
    for gather in [0, 1, 3, 24, 25, 1000] {
        let mut watch = Watch::default();
        drive(
            &engine,
            &engine.options(6),
            samples,
            &mut watch,
            |step, session, _, _| {
                session.set_gather(gather + step % 2);
                assert!((1..=25).contains(&session.gather()));
            },
        );
        assert_eq!(watch.hash.value(), expected.hash, "{gather}");
    }
}

#[test]
fn impossible_widths_are_refused() {
    let engine = Engine::nano();
    for batch in [0, MAX_BATCH + 1, usize::MAX] {
        let options = Options {
            batch,
            ..engine.options(6)
        };
        let error = Layout::new(&engine.params, &options).unwrap_err();
        assert_eq!(error, LayoutError::Batch { asked: batch });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any cut, chunk, width and window.
    #[test]
    fn any_width_gives_the_same_bits(
        cut in 1usize..5000,
        chunk in 1usize..40,
        batch in 2usize..=MAX_BATCH,
        window in 1usize..12,
    ) {
        let case = Case::read('A', "speech_a4");
        let engine = Engine::of(&case.spec());
        let options = Options { chunk, decoder_window: Some(window), ..engine.options(case.delay_tokens) };
        let samples = case.samples();
        let expected = one_by_one(&engine, &options, &samples);
        let plan = Plan { cuts: &[cut], ..Plan::default() };
        let run = plan.run(&engine, &Options { batch, ..options }, &samples);
        prop_assert_eq!(run.tokens, expected.tokens);
        prop_assert_eq!(run.hash, expected.hash);
    }
}
