//! Flushing: pending words come out, the stream goes on, and times are those of the audio.

use proptest::prelude::*;
use voxtral_core::kernels::Serial;
use voxtral_core::layout::{Layout, Memory, Options};
use voxtral_core::model::LogitHash;
use voxtral_core::session::{Session, Step, Token};
use voxtral_tests::engine::Engine;
use voxtral_tests::goldens;

/// Feeds `samples` in pieces of `cut`, flushing behind each of the given sample numbers.
struct Stream<'a> {
    engine: &'a Engine,
    options: Options,
    samples: &'a [f32],
    flushes: &'a [usize],
    cut: usize,
}

struct Heard {
    tokens: Vec<Token>,
    /// Where in the audio each token was spoken.
    spoken: Vec<u64>,
    /// How many tokens were there after each flush.
    after_flush: Vec<usize>,
    hash: u64,
}

impl Stream<'_> {
    fn run(&self) -> Heard {
        let layout = Layout::new(&self.engine.params, &self.options).unwrap();
        let (mut state, mut scratch) = (vec![f32::NAN; layout.state_len()], vec![f32::NAN; layout.scratch_len()]);
        let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
        let mut session = Session::new(&layout);
        let mut hash = LogitHash::default();
        let mut heard = Heard {
            tokens: vec![],
            spoken: vec![],
            after_flush: vec![],
            hash: 0,
        };
        let model = self.engine.model();
        let mut drain = |session: &mut Session, memory: &mut Memory, heard: &mut Heard| {
            loop {
                match session.step_probed(&model, memory, &Serial, &mut hash).unwrap() {
                    Step::Token(token) => {
                        let logits = session.logits(memory).expect("right after a token");
                        let best = logits.iter().copied().fold(f32::MIN, f32::max);
                        assert_eq!(logits[token.id as usize], best);
                        heard.tokens.push(token);
                        heard.spoken.push(session.audio_sample(token.position));
                    }
                    Step::Worked => assert!(session.logits(memory).is_none()),
                    Step::NeedAudio | Step::Done => break,
                }
            }
        };
        let mut from = 0;
        for &to in self.flushes.iter().chain([&self.samples.len()]) {
            for mut piece in self.samples[from..to].chunks(self.cut) {
                while !piece.is_empty() {
                    piece = &piece[session.feed(&mut memory, piece).unwrap()..];
                    drain(&mut session, &mut memory, &mut heard);
                }
            }
            if to < self.samples.len() {
                session.flush();
                drain(&mut session, &mut memory, &mut heard);
                heard.after_flush.push(heard.tokens.len());
            }
            from = to;
        }
        session.finish();
        session.flush();
        drain(&mut session, &mut memory, &mut heard);
        heard.hash = hash.value();
        heard
    }
}

/// Two clips with a flush between them.
fn two_clips() -> (Engine, Vec<f32>, usize, [String; 2]) {
    let clips = goldens::clips();
    let (first, second) = (&clips[0], &clips[6]);
    let text = |clip: &goldens::Clip| {
        clip.delays
            .iter()
            .find(|result| result.delay_tokens == 6)
            .unwrap()
            .text
            .clone()
    };
    let samples = [&first.samples[..], &second.samples[..]].concat();
    (
        Engine::nano(),
        samples,
        first.samples.len(),
        [text(first), text(second)],
    )
}

fn text(engine: &Engine, tokens: &[Token]) -> String {
    let mut offsets = vec![0; engine.vocabulary.index_len()];
    engine.vocabulary.index(&engine.tekken, &mut offsets).unwrap();
    let bytes = tokens
        .iter()
        .flat_map(|token| engine.vocabulary.piece(&engine.tekken, &offsets, token.id).unwrap());
    String::from_utf8(bytes.collect()).unwrap().trim().to_string()
}

#[test]
fn a_flush_brings_out_what_is_pending_and_the_stream_goes_on() {
    let (engine, samples, at, [first, second]) = two_clips();
    let options = Options {
        stop_at_end_of_text: false,
        ..engine.options(6)
    };
    let heard = Stream {
        engine: &engine,
        options,
        samples: &samples,
        flushes: &[at],
        cut: 1600,
    }
    .run();
    let (before, behind) = heard.tokens.split_at(heard.after_flush[0]);
    assert_eq!(text(&engine, before), first);
    assert_eq!(text(&engine, behind), second);
}

/// Times are those of the audio, silence of flushes not counted: a word of the second clip is spoken in it, as late
/// as when the clip is heard alone.
#[test]
fn times_do_not_count_what_flushes_insert() {
    let (engine, samples, at, _) = two_clips();
    let options = Options {
        stop_at_end_of_text: false,
        ..engine.options(6)
    };
    let words = |flushes: &[usize], samples: &[f32]| {
        let heard = Stream {
            engine: &engine,
            options,
            samples,
            flushes,
            cut: 1280,
        }
        .run();
        let words = heard.tokens.iter().zip(&heard.spoken);
        words
            .filter(|(token, _)| token.id == engine.vocabulary.streaming_word)
            .map(|(_, &spoken)| spoken)
            .collect::<Vec<_>>()
    };
    let whole = words(&[at], &samples);
    let (first, second) = (words(&[], &samples[..at]), words(&[], &samples[at..]));
    assert_eq!(whole[..first.len()], first);
    assert_eq!(whole.len(), first.len() + second.len());
    for (whole, alone) in whole[first.len()..].iter().zip(second) {
        // The grid of 80 ms begins elsewhere, and the model is allowed one position of doubt.
        assert!(
            whole.abs_diff(at as u64 + alone) <= 2 * 1280,
            "{whole} for {}",
            at as u64 + alone
        );
    }
    // Flushing again and again in silence moves no time.
    let silence = vec![0.0; 16_000];
    let many = [&silence[..], &samples[..at]].concat();
    let flushes: Vec<usize> = (1..=10).map(|i| i * 1600).collect();
    let flushed = words(&flushes, &many);
    for (flushed, alone) in flushed.iter().zip(first) {
        assert!(flushed.abs_diff(16_000 + alone) <= 2 * 1280);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// D1 with flushes: equal flush points, equal bits, whatever the cut and the chunk.
    #[test]
    fn equal_flush_points_give_the_same_bits(
        mut flushes in prop::collection::vec(0usize..30_000, 0..6),
        cut in 1usize..3000,
        chunk in 1usize..40,
    ) {
        flushes.sort_unstable();
        let (engine, samples, ..) = two_clips();
        let samples = &samples[..30_000];
        let options = Options { stop_at_end_of_text: false, ..engine.options(6) };
        let expected = Stream { engine: &engine, options, samples, flushes: &flushes, cut: 30_000 }.run();
        let options = Options { chunk, ..options };
        let heard = Stream { engine: &engine, options, samples, flushes: &flushes, cut }.run();
        prop_assert_eq!(&heard.tokens, &expected.tokens);
        prop_assert_eq!(&heard.spoken, &expected.spoken);
        prop_assert_eq!(&heard.after_flush, &expected.after_flush);
        prop_assert_eq!(heard.hash, expected.hash);
    }
}
