//! Streams that have gone on for so long that 32 bits, or the whole numbers of an f32, do not count them any more.

use voxtral_core::kernels::{CacheType, Serial};
use voxtral_core::layout::{Layout, Memory, Options, SAMPLES_PER_POSITION};
use voxtral_core::session::{MAX_ORIGIN, Session, SessionError, Step};
use voxtral_tests::engine::{Engine, Plan, Run};
use voxtral_tests::goldens::{self, Case};

/// Mel frames of a position.
const FRAMES: u64 = 8;
/// What logits may differ by from those of a stream from 0: angles of other positions are rounded otherwise.
const TOLERANCE: f32 = 1e-3;

/// Starts from which a counter passes a power of two after 20 positions, and the farthest start there is.
fn origins() -> [(&'static str, u64); 5] {
    let samples = |count: u64| count / SAMPLES_PER_POSITION as u64 - 20;
    [
        ("2^24 mel frames", (1 << 24) / FRAMES - 20),
        ("2^31 samples", samples(1 << 31)),
        ("2^32 samples", samples(1 << 32)),
        ("2^32 mel frames", (1 << 32) / FRAMES - 20),
        ("the farthest start", MAX_ORIGIN),
    ]
}

fn run_from(engine: &Engine, options: &Options, samples: &[f32], origin: u64) -> Run {
    let layout = Layout::new(&engine.params, options).unwrap();
    let mut session = Session::starting_at(&layout, origin).unwrap();
    let (mut state, mut scratch) = (vec![f32::NAN; layout.state_len()], vec![f32::NAN; layout.scratch_len()]);
    let plan = Plan {
        record: true,
        ..Plan::default()
    };
    let run = plan.run_in(engine, &layout, &mut session, &mut state, &mut scratch, samples);
    let run = run.unwrap();
    assert_eq!(
        session.samples_fed(),
        origin * SAMPLES_PER_POSITION as u64 + samples.len() as u64
    );
    assert_eq!(Some(session.positions_decoded()), session.positions_in_all());
    run
}

fn compare(engine: &Engine, options: &Options, samples: &[f32], name: &str) {
    let expected = run_from(engine, options, samples, 0);
    for (what, origin) in origins() {
        let run = run_from(engine, options, samples, origin);
        assert_eq!(run.tokens, expected.tokens, "{name} at {what}");
        let positions: Vec<u64> = expected.positions.iter().map(|position| position + origin).collect();
        assert_eq!(run.positions, positions, "{name} at {what}");
        let (logits, wanted) = (&run.stages["logits"], &expected.stages["logits"]);
        assert_eq!(logits.len(), wanted.len());
        let off = logits
            .iter()
            .zip(wanted)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(off < TOLERANCE, "{name} at {what}: logits differ by {off}");
    }
}

#[test]
fn counters_beyond_24_31_and_32_bits_change_nothing() {
    let nano = Engine::nano();
    for clip in [0, 7] {
        let samples = &goldens::clips()[clip].samples;
        for options in [
            nano.options(6),
            Options {
                chunk: 1,
                ..nano.options(2)
            },
        ] {
            compare(&nano, &options, samples, &format!("clip {clip}"));
        }
    }
    // Small windows: every ring wraps many times on both sides of where a counter passes.
    let case = Case::read('A', "speech_a4");
    let engine = Engine::of(&case.spec());
    let options = engine.options(case.delay_tokens);
    compare(&engine, &options, &case.samples(), "speech_a4");
}

/// However the audio is cut, also there; a cache of bfloat16 may round an element to its other neighbour.
#[test]
fn beyond_32_bits_the_bits_depend_on_neither_cuts_nor_chunks() {
    let nano = Engine::nano();
    let samples = &goldens::clips()[0].samples;
    for cache in [CacheType::F32, CacheType::Bf16] {
        for (what, origin) in origins() {
            let runs = [1, 25].map(|chunk| {
                let options = Options {
                    chunk,
                    cache,
                    ..nano.options(6)
                };
                run_from(&nano, &options, samples, origin)
            });
            assert_eq!(runs[0].hash, runs[1].hash, "{cache:?} at {what}");
        }
    }
}

/// Times are counted on, flushes included, and a reset leads back to the start.
#[test]
fn times_are_counted_on() {
    let nano = Engine::nano();
    let layout = Layout::new(&nano.params, &nano.options(6)).unwrap();
    let samples = &goldens::clips()[0].samples;
    let times = |origin: u64| {
        let (mut state, mut scratch) = (vec![0.0; layout.state_len()], vec![0.0; layout.scratch_len()]);
        let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
        let mut session = Session::starting_at(&layout, origin).unwrap();
        let model = nano.model();
        let mut all = Vec::new();
        for turn in 0..2 {
            for half in samples.chunks(samples.len() / 2 + 1) {
                let mut rest = half;
                loop {
                    rest = &rest[session.feed(&mut memory, rest).unwrap()..];
                    match session.step(&model, &mut memory, &Serial).unwrap() {
                        Step::Token(token) => all.push((turn, token.id, session.audio_sample(token.position))),
                        Step::NeedAudio if rest.is_empty() => break,
                        _ => {}
                    }
                }
                session.flush();
            }
            session.reset();
        }
        all
    };
    let expected = times(0);
    for (what, origin) in origins() {
        let shift = origin * SAMPLES_PER_POSITION as u64;
        let shifted: Vec<_> = expected.iter().map(|&(turn, id, at)| (turn, id, at + shift)).collect();
        assert_eq!(times(origin), shifted, "at {what}");
    }
}

#[test]
fn a_start_beyond_all_streams_is_refused() {
    let nano = Engine::nano();
    let layout = Layout::new(&nano.params, &nano.options(6)).unwrap();
    assert!(Session::starting_at(&layout, MAX_ORIGIN).is_ok());
    for position in [MAX_ORIGIN + 1, u64::MAX] {
        let error = Session::starting_at(&layout, position).unwrap_err();
        assert_eq!(error, SessionError::Origin { position });
        assert!(error.to_string().contains(&position.to_string()));
    }
}
