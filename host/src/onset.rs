//! Where in the audio something began to be loud.

use std::collections::VecDeque;

use voxtral_core::audio::SAMPLE_RATE;

/// Samples whose energy is measured together: 10 ms.
const FRAME: usize = SAMPLE_RATE / 100;
/// Frames that are remembered: 82 s, which is more than text ever lags behind.
const REMEMBERED: usize = 8192;

/// How far below the loudest frame of a word its others are: 25 dB.
const RANGE: f32 = 3.2e-3;
/// Frames of silence that a word may have inside: before a plosive for example.
const GAP: u64 = 9;
/// Frames behind the end that was told which may belong to the word, since that is not exact.
const BEHIND: u64 = 4;

/// The energy of the last audio.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    frames: VecDeque<f32>,
    /// Index of the first of them.
    first: u64,
    /// Sum of squares of the frame that has begun, and its samples.
    sum: f32,
    samples: usize,
}

impl Levels {
    /// Takes the next audio.
    pub(crate) fn push(&mut self, samples: &[f32]) {
        let mut rest = samples;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(FRAME - self.samples));
            rest = behind;
            self.sum += piece.iter().map(|sample| sample * sample).sum::<f32>();
            self.samples += piece.len();
            if self.samples == FRAME {
                if self.frames.len() == REMEMBERED {
                    self.frames.pop_front();
                    self.first += 1;
                }
                self.frames.push_back(self.sum);
                (self.sum, self.samples) = (0.0, 0);
            }
        }
    }

    /// The sample at which a word began that lies between two others and ends about at the last: where the audio got
    /// loud. None if it is loud all the way, or not known any more.
    pub(crate) fn onset(&self, from: u64, to: u64) -> Option<u64> {
        let (from, to) = (from.div_ceil(FRAME as u64), to / FRAME as u64 + BEHIND);
        let level = |frame: u64| -> Option<f32> {
            self.frames
                .get(usize::try_from(frame.checked_sub(self.first)?).ok()?)
                .copied()
        };
        let loudest = (from..to).filter_map(level).fold(0.0, f32::max);
        let is_loud = |frame: u64| level(frame).is_some_and(|level| level > 0.0 && level >= loudest * RANGE);
        let mut onset = (from..to).rev().find(|&frame| is_loud(frame))?;
        for frame in (from..onset).rev() {
            if is_loud(frame) {
                onset = frame;
            } else if onset - frame > GAP {
                return Some(onset * FRAME as u64);
            }
        }
        None
    }
}
