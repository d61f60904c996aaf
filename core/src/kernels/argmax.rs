//! The largest of some values, and of the outputs of a linear map that nobody else wants to see.

use core::ops::Range;

use super::linear::{Linear, panel};
use super::split::{Band, split};
use super::{Matrix, Ops};

/// Most pieces of a linear map whose largest outputs are looked for side by side.
const PIECES: usize = 64;
/// Most outputs of an input that exist at once, in each piece.
const CHUNK: usize = 6 * panel(1);
/// Most inputs that are looked at together.
const TOGETHER: usize = 8;

impl Ops<'_> {
    /// Index of the largest value, the lowest of equals; `None` if any is NaN or infinite, or if there are none.
    pub fn argmax(&self, x: &[f32]) -> Option<usize> {
        let mut best = 0;
        let mut largest = *x.first()?;
        for (i, &value) in x.iter().enumerate() {
            if !value.is_finite() {
                return None;
            }
            if value > largest {
                (best, largest) = (i, value);
            }
        }
        Some(best)
    }

    /// What [`Ops::argmax`] says of the outputs of [`Ops::linear`] for every row of `x` (`[n][cols]`), which are nowhere
    /// stored as a whole, into `found` (`[n]`).
    pub fn linear_argmax(&self, w: &Matrix, x: &[f32], scratch: &mut [f32], found: &mut [Option<usize>]) {
        require!(
            w.rows() > 0 && w.cols().checked_mul(found.len()) == Some(x.len()),
            "linear_argmax: shapes disagree"
        );
        let inputs = x.chunks(TOGETHER.saturating_mul(w.cols()).max(1));
        for (x, found) in inputs.zip(found.chunks_mut(TOGETHER)) {
            self.few_argmax(w, x, scratch, found);
        }
    }

    /// [`Ops::linear_argmax`] of at most [`TOGETHER`] inputs.
    fn few_argmax(&self, w: &Matrix, x: &[f32], scratch: &mut [f32], found: &mut [Option<usize>]) {
        let (rows, n) = (w.rows(), found.len());
        let job = Linear::new(w, None, x, n, false).and_then(|job| self.prepared(job, n, scratch));
        let Some(job) = job else { return };
        let Some(piece) = rows.div_ceil(PIECES).checked_next_multiple_of(panel(n)) else {
            return;
        };
        // The largest output of each piece and input, and its index in the piece.
        let width = 2 * n;
        let mut largest = [0.0; 2 * TOGETHER * PIECES];
        let largest = &mut largest[..width * rows.div_ceil(piece)];
        let cost = piece.saturating_mul(w.cols()).saturating_mul(n);
        split(self.executor, largest, 1, width, cost, &|mut band| {
            let first = band.start() / width;
            for (i, largest) in band.row(0).chunks_exact_mut(width).enumerate() {
                let start = (first + i) * piece;
                self.largest(&job, start..rows.min(start + piece), largest);
            }
        });
        for (c, found) in found.iter_mut().enumerate() {
            let (mut best, mut index) = (f32::NEG_INFINITY, Some(0));
            for (i, largest) in largest.chunks_exact(width).enumerate() {
                if largest[2 * c].is_nan() {
                    index = None;
                    break;
                }
                if largest[2 * c] > best {
                    best = largest[2 * c];
                    index = Some(i * piece + largest[2 * c + 1].to_bits() as usize);
                }
            }
            *found = index;
        }
    }

    /// Pairs of the largest output of some rows for each input, NaN if one of them is not finite, and its index among them as the
    /// bits of a value: any bits are one, and this one is only copied.
    fn largest(&self, job: &Linear, rows: Range<usize>, pairs: &mut [f32]) {
        let n = pairs.len() / 2;
        for pair in pairs.chunks_exact_mut(2) {
            pair.copy_from_slice(&[f32::NEG_INFINITY, f32::from_bits(0)]);
        }
        let mut chunk = [0.0; TOGETHER * CHUNK];
        for start in rows.clone().step_by(CHUNK) {
            let count = CHUNK.min(rows.end - start);
            let outputs = &mut chunk[..n * count];
            let Some(w) = job.weights().part(start..start + count) else {
                break;
            };
            self.kernels.linear(&job.of_rows(&w), &mut Band::whole(outputs, n));
            for (pair, outputs) in pairs.chunks_exact_mut(2).zip(outputs.chunks_exact(count)) {
                let Some(index) = self.argmax(outputs) else {
                    pair[0] = f32::NAN;
                    continue;
                };
                // Nothing is larger than NaN, which so stays.
                if outputs[index] > pair[0] {
                    pair.copy_from_slice(&[outputs[index], f32::from_bits((start - rows.start + index) as u32)]);
                }
            }
        }
    }
}
