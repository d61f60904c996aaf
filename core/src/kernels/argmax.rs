//! The largest of some values, and of the outputs of a linear map that nobody else wants to see.

use core::ops::Range;

use super::linear::{Linear, panel};
use super::split::{Band, split};
use super::{Matrix, Ops};

/// Most pieces of a linear map whose largest outputs are looked for side by side.
const PIECES: usize = 64;
/// Most outputs that exist at once, in each piece.
const CHUNK: usize = 6 * panel(1);

impl Ops<'_> {
    /// Index of the largest value, the lowest of equals; `None` if any is NaN, or if there are none.
    pub fn argmax(&self, x: &[f32]) -> Option<usize> {
        let mut best = 0;
        let mut largest = *x.first()?;
        for (i, &value) in x.iter().enumerate() {
            if value.is_nan() {
                return None;
            }
            if value > largest {
                (best, largest) = (i, value);
            }
        }
        Some(best)
    }

    /// What [`Ops::argmax`] says of the outputs of [`Ops::linear`] for one input `x` (`[cols]`), which are nowhere
    /// stored as a whole.
    pub fn linear_argmax(&self, w: &Matrix, x: &[f32]) -> Option<usize> {
        let rows = w.rows();
        let job = Linear::new(w, None, x, 1, false);
        debug_assert!(job.is_some(), "linear_argmax: shapes disagree");
        let job = job.filter(|_| rows > 0)?;
        let piece = rows.div_ceil(PIECES).checked_next_multiple_of(panel(1))?;
        // The largest output of each piece, and its index in the piece.
        let mut found = [0.0; 2 * PIECES];
        let found = &mut found[..2 * rows.div_ceil(piece)];
        split(
            self.executor,
            found,
            1,
            2,
            piece.saturating_mul(w.cols()),
            &|mut band| {
                let first = band.start() / 2;
                for (i, found) in band.row(0).chunks_exact_mut(2).enumerate() {
                    let start = (first + i) * piece;
                    let (largest, index) = self.largest(&job, start..rows.min(start + piece));
                    // Any bits are a value, and this one is only copied.
                    found.copy_from_slice(&[largest, f32::from_bits(index)]);
                }
            },
        );
        let (mut largest, mut best) = (f32::NEG_INFINITY, 0);
        for (i, found) in found.chunks_exact(2).enumerate() {
            if found[0].is_nan() {
                return None;
            }
            if found[0] > largest {
                (largest, best) = (found[0], i * piece + found[1].to_bits() as usize);
            }
        }
        Some(best)
    }

    /// The largest output of some rows and its index among them, or NaN if one of them is.
    fn largest(&self, job: &Linear, rows: Range<usize>) -> (f32, u32) {
        let (mut largest, mut best) = (f32::NEG_INFINITY, 0);
        let mut chunk = [0.0; CHUNK];
        for start in rows.clone().step_by(CHUNK) {
            let outputs = &mut chunk[..CHUNK.min(rows.end - start)];
            let Some(w) = job.weights().part(start..start + outputs.len()) else {
                break;
            };
            self.kernels.linear(&job.of_rows(&w), &mut Band::whole(outputs, 1));
            let Some(index) = self.argmax(outputs) else {
                return (f32::NAN, 0);
            };
            if outputs[index] > largest {
                (largest, best) = (outputs[index], (start - rows.start + index) as u32);
            }
        }
        (largest, best)
    }
}
