//! The schedule's laws: equal bits however the audio comes, and typed refusals that change nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use proptest::prelude::*;
use voxtral_core::kernels::{Class, Executor, Kernels, Serial};
use voxtral_core::layout::{Layout, LayoutError, Memory, Options};
use voxtral_core::model::LogitHash;
use voxtral_core::session::{Schedule, Session, SessionError, Step};
use voxtral_tests::engine::{Engine, Plan, Run};
use voxtral_tests::generator::Spec;
use voxtral_tests::goldens::{self, Case};
use voxtral_tests::random;
use voxtral_tests::reference::Reference;

/// An executor whose threads are as many as it says, and which calls the closure more often than it has to.
struct Threads {
    threads: usize,
    calls: usize,
}

impl Executor for Threads {
    fn run(&self, work: &(dyn Fn() + Sync)) {
        thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| (0..self.calls).for_each(|_| work()));
            }
        });
    }
}

/// Calls the closure a different number of times at every section, from none to three, sometimes from within itself.
#[derive(Default)]
struct Malicious(AtomicUsize);

impl Executor for Malicious {
    fn run(&self, work: &(dyn Fn() + Sync)) {
        let turn = self.0.fetch_add(1, Ordering::Relaxed);
        match turn % 5 {
            0 => {}
            1 => work(),
            2 => thread::scope(|scope| {
                scope.spawn(work);
                scope.spawn(work);
                work();
            }),
            3 => self.run(work),
            _ => Threads { threads: 3, calls: 2 }.run(work),
        }
    }
}

/// The golden model with the smallest windows and its speech: every ring wraps several times.
fn wrapping() -> (Engine, Options, Vec<f32>) {
    let case = Case::read('A', "speech_a4");
    let engine = Engine::of(&case.spec());
    let options = engine.options(case.delay_tokens);
    (engine, options, case.samples())
}

fn assert_same(run: &Run, expected: &Run, what: &str) {
    assert_eq!(run.tokens, expected.tokens, "tokens over {what}");
    assert_eq!(run.hash, expected.hash, "logit hash over {what}");
}

/// D1: audio fed in pieces of 1, 7, 159, 161, 1279, 1280, 1281, 4096 samples, or all at once: identical tokens, and
/// identical bits of every logit.
#[test]
fn d1_pieces_of_any_length_give_the_same_bits() {
    let (engine, options, samples) = wrapping();
    let expected = engine.run(&options, &samples);
    for cut in [1, 7, 159, 161, 1279, 1280, 1281, 4096] {
        let run = Plan {
            cuts: &[cut],
            ..Plan::default()
        }
        .run(&engine, &options, &samples);
        assert_same(&run, &expected, &format!("pieces of {cut}"));
    }
}

#[test]
fn chunks_of_any_length_give_the_same_bits() {
    let (engine, options, samples) = wrapping();
    let expected = engine.run(&options, &samples);
    for chunk in [1, 2, 3, 4, 7, 8, 31, 38, 39, 40, 64, 200] {
        let run = engine.run(&Options { chunk, ..options }, &samples);
        assert_same(&run, &expected, &format!("chunks of {chunk}"));
    }
}

/// Threads that help, threads that do not, and executors that break every habit.
#[test]
fn executors_of_any_kind_give_the_same_bits() {
    // Wide enough that products and attention are split.
    let mut spec = Spec::variant('D');
    spec.encoder.hidden_dim = 1024;
    spec.decoder.hidden_dim = 1024;
    let engine = Engine::of(&spec);
    let options = engine.options(6);
    let samples = &goldens::audio("speech_b")[..30_000];
    let expected = engine.run(&options, samples);
    let malicious = Malicious::default();
    let executors: [(&str, &dyn Executor); 5] = [
        ("one thread", &Threads { threads: 1, calls: 1 }),
        ("two threads", &Threads { threads: 2, calls: 1 }),
        ("five threads, three calls each", &Threads { threads: 5, calls: 3 }),
        ("no call at all", &Threads { threads: 0, calls: 0 }),
        ("malice", &malicious),
    ];
    for (what, executor) in executors {
        let run = Plan {
            executor,
            ..Plan::default()
        }
        .run(&engine, &options, samples);
        assert_same(&run, &expected, what);
    }
    assert!(malicious.0.load(Ordering::Relaxed) > 100, "the work was split");
}

/// The class decides the bits, not the instruction set.
#[test]
fn kernels_of_one_class_give_the_same_bits() {
    let (engine, options, samples) = wrapping();
    let run = |kernels| {
        Plan {
            kernels: Some(kernels),
            ..Plan::default()
        }
        .run(&engine, &options, &samples)
    };
    let best = Kernels::detect();
    assert_same(&run(best), &run(Kernels::scalar(best.class())), best.name());
    let [fused, separate] = [Class::Fused, Class::Separate].map(|class| run(Kernels::scalar(class)));
    assert_ne!(fused.hash, separate.hash, "the classes round differently");
    assert_eq!(fused.tokens, separate.tokens);
}

#[test]
fn reset_gives_the_same_bits_without_new_memory() {
    let (engine, options, samples) = wrapping();
    let expected = engine.run(&options, &samples);
    let layout = Layout::new(&engine.params, &options).unwrap();
    let (mut state, mut scratch) = (vec![f32::NAN; layout.state_len()], vec![f32::NAN; layout.scratch_len()]);
    let mut session = Session::new(&layout);
    let plan = Plan::default();
    for utterance in [&samples[..], &samples[..5000], &[], &samples[..]] {
        let run = plan
            .run_in(&engine, &layout, &mut session, &mut state, &mut scratch, utterance)
            .unwrap();
        if utterance.len() == samples.len() {
            assert_same(&run, &expected, "reset");
        }
        session.reset();
    }
    // In the middle of an utterance, too.
    let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
    session.feed(&mut memory, &samples[..3000]).unwrap();
    session.step(&engine.model(), &mut memory, &Serial).unwrap();
    session.reset();
    let run = plan
        .run_in(&engine, &layout, &mut session, &mut state, &mut scratch, &samples)
        .unwrap();
    assert_same(&run, &expected, "reset in the middle");
}

/// A copy of state and session, taken at any step and put into other memory, goes on with the same bits.
#[test]
fn snapshot_and_restore_give_the_same_bits() {
    let (engine, options, samples) = wrapping();
    let options = Options { chunk: 8, ..options };
    let layout = Layout::new(&engine.params, &options).unwrap();
    let expected = engine.run(&options, &samples);
    let model = engine.model();

    for taken_at in [0, 1, 5, 17, 60, 90] {
        let (mut state, mut scratch) = (vec![0.0; layout.state_len()], vec![0.0; layout.scratch_len()]);
        let mut session = Session::new(&layout);
        let mut tokens = Vec::new();
        let mut hash = LogitHash::default();
        let mut rest = &samples[..];
        let mut steps = 0;
        loop {
            if steps == taken_at {
                // Scratch carries nothing over; a fresh one proves it.
                let (snapshot, copy) = (state.clone(), session);
                state.fill(f32::NAN);
                state = snapshot;
                scratch.fill(f32::NAN);
                session = copy;
            }
            steps += 1;
            let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
            if !rest.is_empty() {
                rest = &rest[session.feed(&mut memory, rest).unwrap()..];
            }
            match session.step_probed(&model, &mut memory, &Serial, &mut hash).unwrap() {
                Step::Token(token) => tokens.push(token.id),
                Step::NeedAudio if rest.is_empty() => session.finish(),
                Step::Worked | Step::NeedAudio => {}
                Step::Done => break,
            }
        }
        assert_eq!(tokens, expected.tokens, "snapshot before step {taken_at}");
        assert_eq!(hash.value(), expected.hash, "snapshot before step {taken_at}");
    }
}

/// D2: more than two encoder windows and two decoder windows of audio, five wraps of every ring.
#[test]
fn d2_rings_that_wrapped_five_times_equal_a_full_history() {
    let case = Case::read('A', "long66");
    let engine = Engine::of(&case.spec());
    let options = Options {
        chunk: 3,
        ..engine.options(case.delay_tokens)
    };
    let layout = Layout::new(&engine.params, &options).unwrap();
    assert!(case.audio_tokens > 5 * layout.decoder_capacity());
    assert!(4 * case.audio_tokens > 5 * layout.encoder_capacity());
    // The stored tokens come from a computation over the full history.
    assert_eq!(engine.run(&options, &case.samples()).tokens, case.tokens);
}

/// A window smaller than the model's gives the bits of the same model with that window, in as small a cache.
#[test]
fn a_smaller_decoder_window_is_that_of_a_model_with_it() {
    let case = Case::read('A', "speech_a4");
    let (spec, samples) = (case.spec(), case.samples());
    let engine = Engine::of(&spec);
    let options = engine.options(case.delay_tokens);
    let whole = engine.run(&options, &samples);
    let model = spec.decoder.sliding_window;
    for window in [1, 3, model - 1, model] {
        let smaller = Options {
            decoder_window: Some(window),
            ..options
        };
        let run = engine.run(&smaller, &samples);
        let mut other = spec.clone();
        other.decoder.sliding_window = window;
        let expected = Engine::of(&other).run(&options, &samples);
        assert_same(&run, &expected, &format!("a window of {window}"));
        assert_eq!(run.hash == whole.hash, window == model);
        let layout = Layout::new(&engine.params, &smaller).unwrap();
        assert_eq!(layout.decoder_window(), window);
        assert_eq!(layout.decoder_capacity(), window - 1 + options.chunk);
    }
    for asked in [0, model + 1, usize::MAX] {
        let options = Options {
            decoder_window: Some(asked),
            ..options
        };
        assert_eq!(
            Layout::new(&engine.params, &options).unwrap_err(),
            LayoutError::Window { asked, model }
        );
    }
}

/// D5: the model says end-of-text in the middle: a file ends there, a live stream goes on to its last position.
#[test]
fn d5_end_of_text_ends_a_file_but_not_a_live_stream() {
    let case = Case::read('E', "speech_b");
    let engine = Engine::of(&case.spec());
    let options = engine.options(case.delay_tokens);
    let file = engine.run(&options, &case.samples());
    assert_eq!(file.tokens, case.tokens);
    assert_eq!(file.tokens.last(), Some(&engine.vocabulary.eos));

    let live = engine.run(
        &Options {
            stop_at_end_of_text: false,
            ..options
        },
        &case.samples(),
    );
    let positions = Schedule::new(&options).positions(case.samples().len() as u64);
    let prompt = Schedule::new(&options).prompt_len();
    assert_eq!(live.tokens.len() as u64, positions - prompt + 1);
    assert!(live.tokens.starts_with(&file.tokens), "the same up to there");
    assert_eq!(live.positions.last(), Some(&(positions - 1)));
}

/// D5: a model that never says it: the stream ends at the last audio position.
#[test]
fn d5_without_end_of_text_the_last_position_is_the_last() {
    let engine = Engine::nano();
    let clip = &goldens::clips()[9];
    let options = engine.options(6);
    let run = engine.run(&options, &clip.samples);
    let positions = Schedule::new(&options).positions(clip.samples.len() as u64);
    assert_eq!(run.positions.last(), Some(&(positions - 1)));
}

/// D6: the last syllable at the very last sample: its word is there after finish, decided in the right pad.
#[test]
fn d6_a_word_that_ends_with_the_audio_is_written() {
    let engine = Engine::nano();
    let reference = nano_reference();
    let options = engine.options(6);
    let mut late = 0;
    for clip in goldens::clips().iter().filter(|clip| !clip.delays[0].text.is_empty()) {
        // Cut right behind the last loud sample.
        let peak = clip.samples.iter().fold(0.0f32, |peak, x| peak.max(x.abs()));
        let end = clip.samples.iter().rposition(|x| x.abs() > 0.1 * peak).unwrap() + 1;
        let run = engine.run(&options, &clip.samples[..end]);
        assert_eq!(
            run.tokens,
            reference.run(&clip.samples[..end], 6).tokens,
            "{}",
            clip.file
        );

        // The last word comes at a position that has no audio any more.
        let audio_end = options.left_pad_tokens as u64 + (end as u64).div_ceil(1280);
        let mut words = run
            .tokens
            .iter()
            .zip(&run.positions)
            .filter(|(id, _)| **id >= engine.vocabulary.n_special);
        late += usize::from(words.next_back().is_some_and(|(_, &position)| position >= audio_end));
    }
    assert!(late >= 7, "only {late} clips have their last word behind the audio");
}

fn nano_reference() -> Reference {
    let file = |name: &str| std::fs::read(goldens::nano_dir().join(name)).unwrap();
    Reference::from_files(&file("params.json"), &file("consolidated.safetensors"))
}

/// D7: feed after finish, finish twice, step without audio: a typed error or nothing, never corruption.
#[test]
fn d7_calls_out_of_order_change_nothing() {
    let (engine, options, samples) = wrapping();
    let expected = engine.run(&options, &samples);
    let layout = Layout::new(&engine.params, &options).unwrap();
    let (mut state, mut scratch) = (vec![0.0; layout.state_len()], vec![0.0; layout.scratch_len()]);
    let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
    let model = engine.model();
    let mut session = Session::new(&layout);
    let mut tokens = Vec::new();
    let mut drain = |session: &mut Session, memory: &mut Memory| {
        loop {
            match session.step(&model, memory, &Serial).unwrap() {
                Step::Token(token) => tokens.push(token.id),
                Step::Worked => {}
                last => return last,
            }
        }
    };
    assert_eq!(
        drain(&mut session, &mut memory),
        Step::NeedAudio,
        "the left pad is worked off, then audio is wanted"
    );
    assert_eq!(session.step(&model, &mut memory, &Serial), Ok(Step::NeedAudio));
    assert_eq!(session.feed(&mut memory, &[]), Ok(0));

    let mut rest = &samples[..];
    while !rest.is_empty() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 64.5] {
            let refused = session.feed(&mut memory, &[0.25, bad]);
            match refused {
                // No room at the moment, so it was not looked at.
                Ok(0) => {}
                Err(SessionError::BadSample { index: 1, value }) => assert!(value == bad || bad.is_nan()),
                other => panic!("{other:?}"),
            }
        }
        rest = &rest[session.feed(&mut memory, rest).unwrap()..];
        drain(&mut session, &mut memory);
    }
    session.finish();
    session.finish();
    assert_eq!(session.feed(&mut memory, &[0.0]), Err(SessionError::Finished));
    assert_eq!(drain(&mut session, &mut memory), Step::Done);
    session.finish();
    assert_eq!(session.step(&model, &mut memory, &Serial), Ok(Step::Done));
    assert_eq!(session.feed(&mut memory, &[0.0]), Err(SessionError::Finished));
    assert_eq!(tokens, expected.tokens);
}

#[test]
fn another_model_and_other_memory_are_refused() {
    let (engine, options, _) = wrapping();
    let layout = Layout::new(&engine.params, &options).unwrap();
    let (mut state, mut scratch) = (vec![0.0; layout.state_len()], vec![0.0; layout.scratch_len()]);
    let mut session = Session::new(&layout);
    let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
    session.step(&engine.model(), &mut memory, &Serial).unwrap();

    // Other sizes, and the same sizes with other weights.
    let other_sizes = Engine::of(&Spec::variant('B'));
    let other_weights = Engine::of(&Spec {
        seed: 99,
        ..Spec::variant('A')
    });
    for other in [&other_sizes, &other_weights] {
        let refused = session.step(&other.model(), &mut memory, &Serial);
        assert_eq!(refused, Err(SessionError::OtherModel));
    }
    assert!(session.step(&engine.model(), &mut memory, &Serial).is_ok());

    let other_layout = Layout::new(
        &engine.params,
        &Options {
            chunk: options.chunk + 1,
            ..options
        },
    )
    .unwrap();
    let (mut state, mut scratch) = (
        vec![0.0; other_layout.state_len()],
        vec![0.0; other_layout.scratch_len()],
    );
    let mut other_memory = Memory::carve(&other_layout, &mut state, &mut scratch).unwrap();
    assert_eq!(session.feed(&mut other_memory, &[0.0]), Err(SessionError::OtherMemory));
    assert_eq!(
        session.step(&engine.model(), &mut other_memory, &Serial),
        Err(SessionError::OtherMemory)
    );

    for (name, state, scratch) in [("state", 1, 0), ("scratch", 0, 1)] {
        let (needed, given) = match name {
            "state" => (layout.state_len(), layout.state_len() - state),
            _ => (layout.scratch_len(), layout.scratch_len() - scratch),
        };
        let (mut state, mut scratch) = (
            vec![0.0; layout.state_len() - state],
            vec![0.0; layout.scratch_len() - scratch],
        );
        let refused = Memory::carve(&layout, &mut state, &mut scratch).err();
        assert_eq!(refused, Some(LayoutError::BufferTooSmall { name, needed, given }));
    }
}

/// D11: 80 … 1200 ms in steps of 80, and 2400, are delays; all others are refused, and the message has the list.
#[test]
fn d11_delays() {
    let engine = Engine::nano();
    let options = Options::from(&engine.vocabulary);
    for ms in (80..=1200).step_by(80).chain([2400]) {
        let options = options.with_delay_ms(ms).unwrap();
        assert_eq!(options.delay_tokens, ms / 80);
        Layout::new(&engine.params, &options).unwrap();
    }
    for ms in [0, 1, 79, 81, 100, 1201, 1280, 2320, 2401, 2480, 5000, usize::MAX] {
        let refused = options.with_delay_ms(ms).unwrap_err();
        assert_eq!(refused, LayoutError::Delay { ms });
        assert!(refused.to_string().contains("80, 160, …, 1200") && refused.to_string().contains("2400"));
    }
    for delay_tokens in [0, 16, 29, 31, usize::MAX] {
        assert!(
            Layout::new(
                &engine.params,
                &Options {
                    delay_tokens,
                    ..options
                }
            )
            .is_err()
        );
    }
}

/// D12: NaN from damaged weights is an error that names the stage, not a token; the session stays refused until it
/// is reset.
#[test]
fn d12_damaged_weights_are_an_error_not_a_token() {
    use voxtral_core::model::Stage;
    let spec = Spec::variant('A');
    for (tensor, stage) in [
        ("whisper_encoder.transformer.norm.weight", Stage::Adapter),
        ("layers.1.feed_forward.w2.weight", Stage::Logits),
    ] {
        let mut engine = Engine::of(&spec);
        // The last of that name: encoder layers have a w2, too.
        let header = String::from_utf8_lossy(&engine.weights).into_owned();
        let entry = header.rfind(&format!("{tensor}\"")).unwrap();
        let offsets = &header[entry..][header[entry..].find("data_offsets").unwrap() + 15..];
        let begin: usize = offsets[..offsets.find(',').unwrap()].parse().unwrap();
        let data = 8 + u64::from_le_bytes(engine.weights[..8].try_into().unwrap()) as usize;
        engine.weights[data + begin..][..2].copy_from_slice(&0x7FC0u16.to_le_bytes());

        for logits in [true, false] {
            let layout = Layout::new(
                &engine.params,
                &Options {
                    logits,
                    ..engine.options(6)
                },
            )
            .unwrap();
            let (mut state, mut scratch) = (vec![0.0; layout.state_len()], vec![0.0; layout.scratch_len()]);
            let mut session = Session::new(&layout);
            let samples = random::audio(1, 20_000);
            let error = Plan::default()
                .run_in(&engine, &layout, &mut session, &mut state, &mut scratch, &samples)
                .unwrap_err();
            let SessionError::NotANumber { stage: found, .. } = error else {
                panic!("{error:?}")
            };
            assert_eq!(found, stage, "{tensor}");
            assert!(error.to_string().contains(&format!("{stage:?}")));
            let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
            assert_eq!(session.step(&engine.model(), &mut memory, &Serial), Err(error));
            session.reset();
            let whole = Engine::of(&spec);
            assert_eq!(session.step(&whole.model(), &mut memory, &Serial), Ok(Step::Worked));
        }
    }
}

/// D12: ties go to the lowest id; all equal, to id 0.
#[test]
fn d12_ties_go_to_the_lowest_id() {
    let mut spec = Spec::variant('A');
    spec.encoder.n_layers = 1;
    spec.decoder.n_layers = 1;
    let mut engine = Engine::of(&spec);
    // A final norm of zeros makes every logit 0.
    let len = engine.weights.len();
    engine.weights[len - 2 * spec.decoder.dim..].fill(0);
    for logits in [true, false] {
        let options = Options {
            logits,
            ..engine.options(1)
        };
        let run = engine.run(&options, &random::audio(2, 4000));
        assert!(!run.tokens.is_empty() && run.tokens.iter().all(|&id| id == 0));
    }
}

/// The padding and prompt rules, against the reference's own numbers.
#[test]
fn schedule_equals_streaming_padding() {
    let table = goldens::json(goldens::dir().join("streaming_padding.json"));
    let rows = table["offline"].as_array().unwrap();
    assert_eq!(rows.len(), 119);
    let engine = Engine::nano();
    for row in rows {
        let number = |key: &str| row[key].as_u64().unwrap();
        let options = Options::from(&engine.vocabulary)
            .with_delay_ms(number("delay_ms") as usize)
            .unwrap();
        assert_eq!(options.delay_tokens as u64, number("delay_tokens"));
        let schedule = Schedule::new(&options);
        let samples = number("samples");
        assert_eq!(schedule.left_pad_samples(), number("left_pad"));
        assert_eq!(schedule.right_pad_samples(samples), number("right_pad"));
        assert_eq!(schedule.positions(samples), number("audio_tokens"));
        assert_eq!(schedule.positions(samples) * 1280, number("padded"));
        assert_eq!(schedule.positions(samples) * 8, number("mel_frames"));
        assert_eq!(schedule.prompt_len(), number("prompt_len"));
    }
    let prompt: Vec<u64> = table["encode_transcription"]["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap())
        .collect();
    let schedule = Schedule::new(&engine.options(6));
    let ours = (0..).map_while(|position| schedule.prompt_id(position)).map(u64::from);
    assert!(ours.eq(prompt));
}

/// W11: empty, one sample, 100 ms, silence, clipping, quiet speech, DC offset: the reference's tokens.
#[test]
fn w11_extreme_audio_gives_the_reference_tokens() {
    let engine = Engine::nano();
    let reference = nano_reference();
    let speech = goldens::clips()[2].samples.clone();
    let cases: [(&str, Vec<f32>); 8] = [
        ("empty", vec![]),
        ("one sample", vec![0.5]),
        ("100 ms", speech[4000..5600].to_vec()),
        ("silence", vec![0.0; 16_000]),
        (
            "full-scale clipping",
            speech.iter().map(|x| (x * 50.0).clamp(-1.0, 1.0)).collect(),
        ),
        ("-40 dBFS", speech.iter().map(|x| x * 0.01).collect()),
        ("DC offset", speech.iter().map(|x| x * 0.5 + 0.25).collect()),
        ("all at full scale", vec![1.0; 8000]),
    ];
    for (what, samples) in cases {
        let expected = reference.run(&samples, 6);
        let close = expected
            .margins
            .iter()
            .position(|&margin| margin < 1e-3)
            .unwrap_or(expected.tokens.len());
        let run = engine.run(&engine.options(6), &samples);
        assert_eq!(run.tokens.len(), expected.tokens.len(), "{what}");
        assert_eq!(run.tokens[..close], expected.tokens[..close], "{what}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Random cuts, a random chunk and random threads at once.
    #[test]
    fn any_cuts_chunk_and_threads_give_the_same_bits(
        cuts in prop::collection::vec(1usize..5000, 1..12),
        chunk in 1usize..60,
        threads in 0usize..4,
    ) {
        let (engine, options, samples) = wrapping();
        let samples = &samples[..24_000];
        let expected = engine.run(&options, samples);
        let executor = &Threads { threads, calls: 1 };
        let plan = Plan { cuts: &cuts, executor, ..Plan::default() };
        let run = plan.run(&engine, &Options { chunk, ..options }, samples);
        prop_assert_eq!(run.tokens, expected.tokens);
        prop_assert_eq!(run.hash, expected.hash);
    }
}

/// A session for measuring begins where it is told, sees what lies in its caches, and a reset leads to the start.
#[test]
fn a_session_amid_its_audio_sees_what_the_memory_holds() {
    let (engine, options, samples) = wrapping();
    let options = Options {
        stop_at_end_of_text: false,
        ..options
    };
    let layout = Layout::new(&engine.params, &options).unwrap();
    let model = engine.model();
    let begin = 1000;
    let run = |filling: f32| {
        let (mut state, mut scratch) = (vec![filling; layout.state_len()], vec![0.0; layout.scratch_len()]);
        let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
        let mut session = Session::amid(&layout, begin);
        assert_eq!(
            (session.positions_encoded(), session.positions_decoded()),
            (begin, begin)
        );
        let (mut hash, mut positions, mut fed) = (LogitHash::default(), vec![], 0);
        loop {
            fed += session.feed(&mut memory, &samples[fed..]).unwrap();
            match session.step_probed(&model, &mut memory, &Serial, &mut hash).unwrap() {
                Step::Token(token) => positions.push(token.position),
                Step::Worked => {}
                Step::NeedAudio | Step::Done => break,
            }
        }
        assert!(positions.len() > 5);
        assert_eq!(positions[0], begin, "the prompt is behind it");
        assert!(positions.windows(2).all(|pair| pair[1] == pair[0] + 1));

        session.reset();
        let (mut fed, mut first) = (0, None);
        while first.is_none() {
            fed += session.feed(&mut memory, &samples[fed..]).unwrap();
            if let Step::Token(token) = session.step(&model, &mut memory, &Serial).unwrap() {
                first = Some(token.position);
            }
        }
        assert_eq!(first, Some(session.schedule().prompt_len() - 1));
        hash.value()
    };
    assert_eq!(run(0.01), run(0.01));
    assert_ne!(run(0.01), run(0.5), "nothing of the caches was seen");
}
