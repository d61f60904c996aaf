//! The comfortable interface: where its time goes, and how it is interrupted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use voxtral::{Error, Model, Pool, Transcriber};
use voxtral_core::layout::Options;
use voxtral_core::model::{Probe, Stage};
use voxtral_tests::goldens;

fn text(clip: &goldens::Clip) -> &str {
    let mut delays = clip.delays.iter();
    &delays.find(|result| result.delay_tokens == 6).unwrap().text
}

/// Every position is counted once, under its kind, and all kinds together take no longer than the clock says.
#[test]
fn timings_count_every_position_under_its_kind() {
    let model = Model::embedded().unwrap();
    let pool = Pool::new(1);
    for (chunk, batch) in [(1, 1), (7, 1), (25, 1), (25, 8)] {
        let options = Options {
            chunk,
            batch,
            ..Options::from(model.vocabulary())
        };
        let mut transcriber = Transcriber::new(&model, &options, &pool).unwrap();
        for (index, clip) in goldens::clips().iter().take(3).enumerate() {
            transcriber.reset();
            let start = Instant::now();
            transcriber.push(&clip.samples, &mut Vec::new()).unwrap();
            transcriber.finish(&mut Vec::new()).unwrap();
            let wall = start.elapsed();
            let (session, timings) = (transcriber.session(), transcriber.timings());
            // The model and its delay are the same over a reset.
            assert_eq!(timings.conditioning.passes, u64::from(index == 0));
            assert_eq!(timings.encoder.positions, session.positions_encoded());
            assert_eq!(
                timings.encoder.passes,
                session.positions_encoded().div_ceil(chunk as u64)
            );
            assert_eq!(timings.prefill.positions, session.schedule().prompt_len());
            assert_eq!(
                timings.prefill.positions + timings.decoder.positions,
                session.positions_decoded()
            );
            assert!(timings.decoder.passes <= timings.decoder.positions);
            assert!(batch > 1 || timings.guessed == 0);
            assert!(timings.guessed_right() <= timings.guessed);
            assert!(timings.total() <= wall, "{timings:?} in {wall:?}");
            for spent in [&timings.encoder, &timings.prefill, &timings.decoder] {
                assert!(spent.longest <= spent.time && spent.longest * (spent.passes as u32) >= spent.time);
            }
        }
    }
}

/// Sets the flag when the given logits are computed.
struct SetAt<'a> {
    flag: &'a AtomicBool,
    token: usize,
}

impl Probe for SetAt<'_> {
    fn stage(&mut self, stage: Stage, _first: u64, _values: &[f32]) {
        if stage == Stage::Logits {
            // A pass that has begun goes on to its end.
            if let Some(left) = self.token.checked_sub(1) {
                self.token = left;
                self.flag.store(left == 0, Ordering::Relaxed);
            }
        }
    }
}

/// The step that runs is the last; the text so far is there, and the next utterance is as if nothing had been.
#[test]
fn an_interrupted_utterance_ends_after_its_step() {
    let model = Model::embedded().unwrap();
    let pool = Pool::new(1);
    let clip = &goldens::clips()[0];
    let flag = AtomicBool::new(false);
    let options = Options::from(model.vocabulary());
    let mut transcriber = Transcriber::new(&model, &options, &pool).unwrap();
    transcriber.set_interrupt(&flag);
    for token in [1, 10, 20, 25] {
        let mut out = Vec::new();
        let mut probe = SetAt { flag: &flag, token };
        let ended = transcriber
            .push_probed(&clip.samples, &mut out, &mut probe)
            .and_then(|()| transcriber.finish_probed(&mut out, &mut probe));
        assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
        // One token came with the prompt; a pass that has begun may decide more than the one that was waited for.
        let decided = transcriber.timings().decoder.positions + 1;
        assert!((token as u64..token as u64 + 8).contains(&decided), "{decided}");
        transcriber.abandon(&mut out).unwrap();
        assert_eq!(transcriber.session().samples_fed(), 0);
        assert!(text(clip).as_bytes().starts_with(&out) && out.len() < text(clip).len());

        flag.store(false, Ordering::Relaxed);
        let mut out = Vec::new();
        transcriber.push(&clip.samples, &mut out).unwrap();
        transcriber.finish(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), text(clip));
        transcriber.reset();
    }
}
