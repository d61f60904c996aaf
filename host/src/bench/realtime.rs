//! Whether the model keeps up with speech: time per second of audio, by the transcriber that transcribes.
//!
//! What is decoded decides how many positions a pass brings, and generated weights decide nonsense. So the tokens of a
//! recorded run are taken for decided, whatever the model says: it computes all the same.

use std::hint::black_box;
use std::time::{Duration, Instant};

use voxtral_core::audio::{HOP, LogMel, MEL_BINS, SAMPLE_RATE, WINDOW};
use voxtral_core::layout::{MS_PER_POSITION, Options, SAMPLES_PER_POSITION};
use voxtral_core::model::{Probe, Stage};

use crate::error::Error;
use crate::interrupt;
use crate::model::Model;
use crate::pool::Pool;
use crate::timings::Spent;
use crate::transcriber::{Nobody, Transcriber};

/// Tokens of clips 00 to 03 of `tests/nano/clips` by the small model at 480 ms, from `expected.json` there.
const RECORDED: [u32; 160] = [
    32, 32, 32, 32, 33, 1258, 32, 32, 32, 32, 33, 1262, 32, 32, 32, 32, 32, 33, 1265, 32, 32, 32, 32, 32, 33, 1265, 32,
    32, 32, 32, 32, 33, 1282, 1283, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 33, 1265,
    32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 33, 1266, 1267, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32,
    32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 33, 1258, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32,
    32, 32, 32, 32, 32, 33, 1271, 32, 32, 32, 32, 32, 33, 1265, 32, 32, 32, 32, 32, 32, 33, 1259, 32, 32, 32, 32, 32,
    32, 33, 1277, 1278, 1110, 32, 32, 33, 1260, 1261, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32,
];
/// How much audio that was. Less of it would be over before the width of passes has settled.
pub(crate) const RECORDED_SECONDS: f64 = RECORDED.len() as f64 * MS_PER_POSITION as f64 * 1e-3;
/// The padding token in that.
const RECORDED_PADDING: u32 = 32;

/// Positions per second.
const POSITIONS: f64 = 1e3 / MS_PER_POSITION as f64;

/// Time per second of audio, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Realtime {
    /// Threads that computed.
    pub(crate) threads: usize,
    /// Most positions of a decoder pass.
    pub(crate) batch: usize,
    /// Log-mel frames, on one thread.
    pub(crate) mel: f64,
    /// Encoder and adapter, without mel.
    pub(crate) encoder: f64,
    /// Decoder.
    pub(crate) decoder: f64,
    /// Positions that a decoder pass brought.
    pub(crate) each: f64,
}

impl Realtime {
    /// Of everything; below 1 it keeps up.
    pub(crate) fn factor(&self) -> f64 {
        self.mel + self.encoder + self.decoder
    }
}

/// Takes the recorded tokens for decided.
struct Replay {
    padding: u32,
    first: Option<u64>,
}

impl Probe for Replay {
    fn stage(&mut self, _stage: Stage, _first: u64, _values: &[f32]) {}

    fn decide(&mut self, position: u64, _id: u32) -> u32 {
        let first = *self.first.get_or_insert(position);
        let token = RECORDED[((position - first) % RECORDED.len() as u64) as usize];
        if token == RECORDED_PADDING { self.padding } else { token }
    }
}

/// Hears `seconds` of audio with `threads`, at most `batch` positions in a pass.
pub(crate) fn measure(model: &Model, threads: usize, batch: usize, seconds: f64) -> Result<Realtime, Error> {
    let pool = Pool::new(threads);
    let options = Options {
        batch,
        logits: false,
        stop_at_end_of_text: false,
        ..Options::from(model.vocabulary())
    };
    let mut transcriber = Transcriber::new(model, &options, &pool)?;
    transcriber.set_interrupt(interrupt::flag());
    let mut replay = Replay {
        padding: options.streaming_pad,
        first: None,
    };
    let positions = (seconds * POSITIONS).ceil() as usize;
    let audio = tone(positions * SAMPLES_PER_POSITION);
    transcriber.push_to(&audio, &mut Nobody, &mut replay)?;
    transcriber.finish_to(&mut Nobody, &mut replay)?;
    let timings = transcriber.timings();
    let per_second = |spent: &Spent| spent.time.as_secs_f64() / spent.positions.max(1) as f64 * POSITIONS;
    let mel = mel(model);
    Ok(Realtime {
        threads,
        batch,
        mel,
        encoder: (per_second(&timings.encoder) - mel).max(0.0),
        decoder: per_second(&timings.decoder),
        each: timings.decoder.positions as f64 / timings.decoder.passes.max(1) as f64,
    })
}

/// Something to hear.
pub(super) fn tone(samples: usize) -> Vec<f32> {
    (0..samples)
        .map(|i| 0.1 * (i as f32 * 0.05).sin() * (i as f32 * 1.3e-4).sin())
        .collect()
}

/// Seconds for the log-mel frames of a second.
fn mel(model: &Model) -> f64 {
    let transform = LogMel::new(model.params().global_log_mel_max);
    let samples = tone(SAMPLE_RATE + WINDOW);
    let mut frame = [0.0; MEL_BINS];
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        for window in samples.windows(WINDOW).step_by(HOP).take(SAMPLE_RATE / HOP) {
            if let Some(window) = window.first_chunk() {
                transform.frame(window, &mut frame);
                black_box(&frame);
            }
        }
        best = best.min(start.elapsed());
    }
    best.as_secs_f64()
}
