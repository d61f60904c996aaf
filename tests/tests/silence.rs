//! The start that all utterances share: computed once, kept, and gone on from with the bits of computing it again.

use proptest::prelude::*;
use voxtral_core::kernels::{CacheType, Class, Kernels, Serial};
use voxtral_core::layout::{Layout, Memory, Options};
use voxtral_core::model::{LogitHash, Model};
use voxtral_core::session::{Session, SilenceError, Step};
use voxtral_tests::engine::{Engine, Plan};
use voxtral_tests::goldens::{self, Case};

/// Steps without audio.
fn settle(session: &mut Session, model: &Model, memory: &mut Memory) {
    while session.step(model, memory, &Serial).unwrap() != Step::NeedAudio {}
}

/// A silence as it is kept.
fn saved(engine: &Engine, options: &Options, kernels: Kernels) -> Vec<u8> {
    let layout = Layout::new(&engine.params, options).unwrap();
    let (mut state, mut scratch) = (vec![f32::NAN; layout.state_len()], vec![f32::NAN; layout.scratch_len()]);
    let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
    let model = engine.model().with_kernels(kernels);
    let mut session = Session::new(&layout);
    session.prime();
    settle(&mut session, &model, &mut memory);
    let mut bytes = vec![0; Session::silence_len(&layout)];
    session.save_silence(&model, &mut memory, &mut bytes).unwrap();
    bytes
}

/// The hash of all logits of a run that starts with what was kept, if it is taken.
fn run_from(engine: &Engine, options: &Options, samples: &[f32], silence: &[u8]) -> (Result<(), SilenceError>, u64) {
    let layout = Layout::new(&engine.params, options).unwrap();
    let (mut state, mut scratch) = (vec![f32::NAN; layout.state_len()], vec![f32::NAN; layout.scratch_len()]);
    let mut session = Session::new(&layout);
    let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
    let restored = session.restore_silence(&engine.model(), &mut memory, silence);
    let run = Plan::default().run_in(engine, &layout, &mut session, &mut state, &mut scratch, samples);
    (restored, run.unwrap().hash)
}

fn assert_equal(engine: &Engine, options: &Options, samples: &[f32], what: &str) {
    let expected = engine.run(options, samples);
    let silence = saved(engine, options, Kernels::detect());
    for chunk in [options.chunk, 1, 40] {
        let run = run_from(engine, &Options { chunk, ..*options }, samples, &silence);
        assert_eq!(run, (Ok(()), expected.hash), "{what}, chunk {chunk}");
    }
}

#[test]
fn goldens_are_equal() {
    for case in Case::all() {
        let engine = Engine::of(&case.spec());
        for cache in [CacheType::F32, CacheType::Bf16, CacheType::Q8] {
            let options = Options {
                cache,
                chunk: 7,
                ..engine.options(case.delay_tokens)
            };
            let what = format!("{}/{}, {cache:?}", case.variant, case.case);
            assert_equal(&engine, &options, &case.samples(), &what);
        }
    }
}

#[test]
fn clips_are_equal_and_most_of_the_start_is_done() {
    let engine = Engine::nano();
    for delay in [1, 2, 6, 30] {
        let options = engine.options(delay);
        assert_equal(
            &engine,
            &options,
            &goldens::clips()[0].samples,
            &format!("delay {delay}"),
        );
    }
    // 32 positions of padding, the last of which looks 40 samples ahead: mel frames 0 to 247 are silent, and the prompt
    // has 39 positions.
    let layout = Layout::new(&engine.params, &engine.options(6)).unwrap();
    assert_eq!(Session::silent_positions(&layout), 31);
    for (left_pad_tokens, silent) in [(0, 0), (1, 0), (2, 1), (32, 31)] {
        let options = Options {
            left_pad_tokens,
            ..engine.options(6)
        };
        assert_eq!(
            Session::silent_positions(&Layout::new(&engine.params, &options).unwrap()),
            silent
        );
        assert_equal(
            &engine,
            &options,
            &goldens::clips()[0].samples,
            &format!("left pad {left_pad_tokens}"),
        );
    }
}

/// Priming while nobody speaks is no flush: nothing is inserted, whenever it is asked for.
#[test]
fn priming_changes_no_bit() {
    let engine = Engine::nano();
    let (options, clip) = (engine.options(6), &goldens::clips()[0]);
    let expected = engine.run(&options, &clip.samples);
    let layout = Layout::new(&engine.params, &options).unwrap();
    let (mut state, mut scratch) = (vec![0.0; layout.state_len()], vec![0.0; layout.scratch_len()]);
    let mut session = Session::new(&layout);
    let mut silence = vec![0; Session::silence_len(&layout)];
    for turn in 0..3 {
        let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
        if turn == 2 {
            session.restore_silence(&engine.model(), &mut memory, &silence).unwrap();
        } else {
            session.prime();
            settle(&mut session, &engine.model(), &mut memory);
            session
                .save_silence(&engine.model(), &mut memory, &mut silence)
                .unwrap();
        }
        assert_eq!((session.positions_encoded(), session.positions_decoded()), (31, 31));
        let run = Plan::default().run_in(&engine, &layout, &mut session, &mut state, &mut scratch, &clip.samples);
        assert_eq!(run.unwrap().hash, expected.hash, "{turn}");
        session.prime();
        session.reset();
    }
}

#[test]
fn what_is_not_its_own_is_refused_and_nothing_changes() {
    let engine = Engine::nano();
    let (options, clip) = (engine.options(6), &goldens::clips()[1]);
    let expected = engine.run(&options, &clip.samples).hash;
    let silence = saved(&engine, &options, Kernels::detect());
    let refused = |bytes: &[u8], error: SilenceError| {
        assert_eq!(
            run_from(&engine, &options, &clip.samples, bytes),
            (Err(error), expected)
        );
        assert!(error.to_string().len() > 20 && !error.to_string().contains('\n'));
    };
    let other = |options: Options| saved(&engine, &options, Kernels::detect());
    refused(&other(engine.options(7)), SilenceError::Other);
    refused(
        &other(Options {
            cache: CacheType::Bf16,
            ..options
        }),
        SilenceError::Other,
    );
    refused(
        &other(Options {
            decoder_window: Some(9),
            ..options
        }),
        SilenceError::Other,
    );
    let class = match Kernels::detect().class() {
        Class::Fused => Class::Separate,
        Class::Separate => Class::Fused,
    };
    refused(&saved(&engine, &options, Kernels::scalar(class)), SilenceError::Other);
    let stranger = Engine::of(&Case::read('A', "speech_a4").spec());
    refused(
        &saved(&stranger, &stranger.options(6), Kernels::detect()),
        SilenceError::Other,
    );

    let mut wrong = silence.clone();
    wrong[8] = 9;
    refused(&wrong, SilenceError::Version { expected: 1, found: 9 });
    let (expected_len, found) = (silence.len(), silence.len() - 1);
    refused(
        &silence[..found],
        SilenceError::Length {
            expected: expected_len,
            found,
        },
    );
    refused(&[], SilenceError::NoSilence);
    refused(&silence[..39], SilenceError::NoSilence);
    for at in [40, silence.len() / 2, silence.len() - 1, 33] {
        let mut wrong = silence.clone();
        wrong[at] ^= 1;
        refused(&wrong, SilenceError::Damaged);
    }
}

#[test]
fn only_at_its_place() {
    let engine = Engine::nano();
    let options = engine.options(6);
    let silence = saved(&engine, &options, Kernels::detect());
    let layout = Layout::new(&engine.params, &options).unwrap();
    let (mut state, mut scratch) = (vec![0.0; layout.state_len()], vec![0.0; layout.scratch_len()]);
    let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
    let model = engine.model();
    let mut bytes = silence.clone();
    let mut session = Session::new(&layout);
    let place = Err(SilenceError::Place);
    assert_eq!(session.save_silence(&model, &mut memory, &mut bytes), place);
    settle(&mut session, &model, &mut memory);
    assert_eq!(session.feed(&mut memory, &[0.0]), Ok(1));
    assert_eq!(session.restore_silence(&model, &mut memory, &silence), place);
    session.prime();
    settle(&mut session, &model, &mut memory);
    assert_eq!(session.positions_encoded(), 25);
    session.reset();
    session.finish();
    assert_eq!(session.restore_silence(&model, &mut memory, &silence), place);
    let mut far = Session::starting_at(&layout, 1).unwrap();
    assert_eq!(far.restore_silence(&model, &mut memory, &silence), place);
    session.reset();
    session.prime();
    settle(&mut session, &model, &mut memory);
    assert_eq!(session.restore_silence(&model, &mut memory, &silence), place);
    let short = session.save_silence(&model, &mut memory, &mut bytes[1..]);
    assert!(matches!(short, Err(SilenceError::Length { .. })));

    let other = Layout::new(&engine.params, &Options { chunk: 3, ..options }).unwrap();
    let (mut state, mut scratch) = (vec![0.0; other.state_len()], vec![0.0; other.scratch_len()]);
    let mut memory = Memory::carve(&other, &mut state, &mut scratch).unwrap();
    let mut session = Session::new(&layout);
    let refused = session.restore_silence(&model, &mut memory, &silence);
    assert_eq!(refused, Err(SilenceError::OtherMemory));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any bytes, also behind a right beginning, end in an error or are what was saved.
    #[test]
    fn any_bytes_are_refused(from in 0usize..60, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let engine = Engine::of(&Case::read('A', "speech_a4").spec());
        let options = engine.options(6);
        let mut silence = saved(&engine, &options, Kernels::detect());
        let whole = silence.clone();
        for (to, byte) in silence.iter_mut().skip(from).zip(&bytes) {
            *to = *byte;
        }
        let layout = Layout::new(&engine.params, &options).unwrap();
        let (mut state, mut scratch) = (vec![0.0; layout.state_len()], vec![0.0; layout.scratch_len()]);
        let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
        let mut session = Session::new(&layout);
        let restored = session.restore_silence(&engine.model(), &mut memory, &silence);
        prop_assert_eq!(restored.is_ok(), silence == whole);
        prop_assert!(session.restore_silence(&engine.model(), &mut memory, &bytes).is_err());
        let mut hash = LogitHash::default();
        prop_assert!(session.step_probed(&engine.model(), &mut memory, &Serial, &mut hash).is_ok());
    }
}
