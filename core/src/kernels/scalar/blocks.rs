//! The linear map with weights in blocks.

use super::super::activations::{Activations, group_start, parts};
use super::super::blocks::{BLOCKS, GROUP, Levels, STEP, groups, scale};
use super::super::linear::Linear;
use super::super::split::Band;
use super::{Mac, reduce};

/// Columns that share the decoding of a row.
const TOGETHER: usize = 8;

/// [`super::super::set::Set::linear`] for weights in blocks.
///
/// Lane `l` takes block `l` of every group, in rising order: the sum of the products of levels, which is exact, times
/// the product of the two scales, by one multiply-accumulate of the class.
pub(super) fn linear<L: Levels, M: Mac>(job: &Linear, band: &mut Band) {
    let w = job.weights();
    let n = band.height();
    let (start, width) = (band.start(), band.width());
    let Some(x) = job.quantised() else {
        // A row of no columns.
        for i in 0..n {
            for (r, y) in band.row(i).iter_mut().enumerate() {
                job.finish(job.bias(start + r), 0.0, y);
            }
        }
        return;
    };
    for r in 0..width {
        let row = &w.bytes()[(start + r) * w.stride()..(start + r + 1) * w.stride()];
        let bias = job.bias(start + r);
        for i in (0..n).step_by(TOGETHER) {
            let count = TOGETHER.min(n - i);
            let dots = dots::<L, M>(row, w.cols(), x, i, count);
            for (c, dot) in dots.into_iter().enumerate().take(count) {
                job.finish(bias, dot, &mut band.row(i + c)[r]);
            }
        }
    }
}

/// The dot products of a row with inputs `first..first + count`.
fn dots<L: Levels, M: Mac>(row: &[u8], cols: usize, x: Activations, first: usize, count: usize) -> [f32; TOGETHER] {
    let mut lanes = [[0.0f32; BLOCKS]; TOGETHER];
    for (g, (scales, bytes, width)) in groups::<L>(row, cols).enumerate() {
        let mut levels = [[0; STEP]; GROUP / STEP];
        for (step, levels) in levels.iter_mut().enumerate().take(width / STEP) {
            L::read(bytes, width, step, levels);
        }
        let scales: [f32; BLOCKS] = core::array::from_fn(|l| scale(scales, l));
        for (c, lanes) in lanes.iter_mut().enumerate().take(count) {
            let (x_scales, _, x_levels) = parts(&x.rows(first + c, 1)[group_start(g)..]);
            let mut sums = [0i32; STEP];
            for (levels, x) in levels.iter().zip(x_levels.chunks_exact(STEP)).take(width / STEP) {
                for ((sum, level), x) in sums.iter_mut().zip(levels).zip(x) {
                    *sum += i32::from(*level) * i32::from(*x as i8);
                }
            }
            for (l, x_scale) in x_scales.chunks_exact(4).enumerate() {
                let sum = sums[4 * l..4 * l + 4].iter().sum::<i32>();
                let x_scale = f32::from_ne_bytes([x_scale[0], x_scale[1], x_scale[2], x_scale[3]]);
                lanes[l] = M::mac(sum as f32, scales[l] * x_scale, lanes[l]);
            }
        }
    }
    lanes.map(|lanes| reduce(&lanes))
}
