//! Scores and weighted sums of a few queries over the same keys and values.

use super::super::attention::Scores;
use super::super::matrix::Native;
use super::super::set::Rows;
use super::super::split::Band;
use super::Vector;
use super::tile::{Strided, reduced, tile};

/// [`super::super::set::Set::scores`]: 8 dot products at a time, of 4 keys and 2 queries or of 8 keys and one.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(in super::super) unsafe fn scores<V: Vector>(q: Rows, keys: &[f32], at: usize, scores: &mut [Scores]) {
    let width = q.width;
    let count = keys.len() / width;
    let key = |j: usize, rows: usize| Strided {
        start: keys[j * width..(j + rows) * width].as_ptr(),
        stride: width,
    };
    let query = |c: usize, rows: usize| Strided {
        start: q.values[c * q.stride..][..(rows - 1) * q.stride + width].as_ptr(),
        stride: q.stride,
    };
    let mut c = 0;
    // SAFETY: the slices in `key` and `query` hold the rows that the tiles read.
    unsafe {
        let zero = V::zero();
        for pair in scores.chunks_mut(2) {
            let mut j = 0;
            if let [first, second] = pair {
                while count - j >= 4 {
                    let mut lanes = [[zero; 4]; 2];
                    tile::<V, Native, 4, 2>(key(j, 4), query(c, 2), width, &mut lanes);
                    let [[a, b, c, d], [e, f, g, h]] = lanes;
                    let dots = reduced([a, b, c, d, e, f, g, h]);
                    first[at + j..at + j + 4].copy_from_slice(&dots[..4]);
                    second[at + j..at + j + 4].copy_from_slice(&dots[4..]);
                    j += 4;
                }
            }
            for (i, scores) in pair.iter_mut().enumerate() {
                let mut j = j;
                while count - j >= 8 {
                    let mut lanes = [[zero; 8]];
                    tile::<V, Native, 8, 1>(key(j, 8), query(c + i, 1), width, &mut lanes);
                    scores[at + j..at + j + 8].copy_from_slice(&reduced(lanes[0]));
                    j += 8;
                }
                while j < count {
                    scores[at + j] = super::dot::<V>(&keys[j * width..(j + 1) * width], q.row(c + i));
                    j += 1;
                }
            }
            c += pair.len();
        }
    }
}

/// [`super::super::set::Set::accumulate`]: some vectors of outputs stay in registers while all values pass.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(in super::super) unsafe fn accumulate<V: Vector>(p: &[Scores], at: usize, values: &[f32], y: &mut Band) {
    let width = y.width();
    let count = values.len() / width;
    let mut c = 0;
    while c < y.height() {
        let pair = y.height() - c >= 2;
        // The rows are disjoint, so the second borrow leaves the first pointer as it is.
        let first = (&p[c][at..at + count], y.row(c).as_mut_ptr());
        let second = if pair {
            (&p[c + 1][at..at + count], y.row(c + 1).as_mut_ptr())
        } else {
            first
        };
        let mut d = 0;
        // SAFETY: `d + 8 * (vectors of the tile) <= width`, for the outputs as for the rows of `values`.
        unsafe {
            if pair {
                while width - d >= 32 {
                    weighted_sums::<V, 2, 4>([first, second], &values[d..], width, d);
                    d += 32;
                }
            } else {
                while width - d >= 64 {
                    weighted_sums::<V, 1, 8>([first], &values[d..], width, d);
                    d += 64;
                }
            }
            while width - d >= 8 {
                if pair {
                    weighted_sums::<V, 2, 1>([first, second], &values[d..], width, d);
                } else {
                    weighted_sums::<V, 1, 1>([first], &values[d..], width, d);
                }
                d += 8;
            }
        }
        let rows = if pair { 2 } else { 1 };
        if d < width {
            for c in c..c + rows {
                let y = &mut y.row(c)[d..];
                let tail = y.len();
                let (mut sums, mut v) = ([0.0f32; 8], [0.0f32; 8]);
                sums[..tail].copy_from_slice(y);
                for (p, row) in p[c][at..].iter().zip(values.chunks_exact(width)) {
                    v[..tail].copy_from_slice(&row[d..]);
                    // SAFETY: both arrays have 8 values.
                    unsafe {
                        V::splat(*p)
                            .mul_add(V::load(v.as_ptr()), V::load(sums.as_ptr()))
                            .store(sums.as_mut_ptr());
                    }
                }
                y.copy_from_slice(&sums[..tail]);
            }
        }
        c += rows;
    }
}

/// `y[c][d..d + 8 N] += p[c][j] * values[j][..8 N]` over `j`, for `C` queries of which `(p, y)` are given.
///
/// # Safety
/// All `p` have the same length. `8 * N` values can be read at `values + j * stride` for each `j` below that length,
/// and read and written at each `y + d`; the machine has the set.
#[inline(always)]
unsafe fn weighted_sums<V: Vector, const C: usize, const N: usize>(
    queries: [(&[f32], *mut f32); C],
    values: &[f32],
    stride: usize,
    d: usize,
) {
    let count = queries[0].0.len();
    // SAFETY: by the caller.
    unsafe {
        let mut sums = [[V::zero(); N]; C];
        for c in 0..C {
            for i in 0..N {
                sums[c][i] = V::load(queries[c].1.add(d + 8 * i));
            }
        }
        for j in 0..count {
            let row = values.as_ptr().add(j * stride);
            let mut v = [V::zero(); N];
            for i in 0..N {
                v[i] = V::load(row.add(8 * i));
            }
            for c in 0..C {
                let p = V::splat(*queries[c].0.as_ptr().add(j));
                for i in 0..N {
                    sums[c][i] = p.mul_add(v[i], sums[c][i]);
                }
            }
        }
        for c in 0..C {
            for i in 0..N {
                sums[c][i].store(queries[c].1.add(d + 8 * i));
            }
        }
    }
}
