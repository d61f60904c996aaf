//! Scores and weighted sums of a few queries over the same keys and values.

use super::super::attention::Scores;
use super::super::matrix::{Bf16, I8, Native};
use super::super::ring::Stored;
use super::super::set::Rows;
use super::super::split::Band;
use super::Vector;
use super::tile::{Load, Strided, dot_of, reduced, tile};

/// [`super::super::set::Set::scores`].
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(in super::super) unsafe fn scores<V: Vector>(q: Rows, keys: Stored, at: usize, scores: &mut [Scores]) {
    // SAFETY: by the caller.
    unsafe {
        match keys {
            Stored::F32(keys) => scores_with::<V, Native>(q, keys, at, scores),
            Stored::Bf16(keys) => scores_with::<V, Bf16>(q, keys, at, scores),
            Stored::I8(keys) => scores_with::<V, I8>(q, keys, at, scores),
        }
    }
}

/// [`scores`] with keys of one storage, for two or three queries at a time.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn scores_with<V: Vector, E: Load<V>>(q: Rows, keys: &[E::Unit], at: usize, scores: &mut [Scores]) {
    let mut c = 0;
    // SAFETY: by the caller.
    unsafe {
        while c < scores.len() {
            c += match scores.len() - c {
                1 => scores_of::<V, E, 1>(q, c, keys, at, scores),
                2 | 4 => scores_of::<V, E, 2>(q, c, keys, at, scores),
                _ => scores_of::<V, E, 3>(q, c, keys, at, scores),
            };
        }
    }
}

/// [`scores`] of queries `c..c + C`, 8 keys at a time; the number of queries.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn scores_of<V: Vector, E: Load<V>, const C: usize>(
    q: Rows,
    c: usize,
    keys: &[E::Unit],
    at: usize,
    scores: &mut [Scores],
) -> usize {
    let width = q.width;
    let queries = Strided {
        start: q.values[c * q.stride..][..(C - 1) * q.stride + width].as_ptr(),
        stride: q.stride,
    };
    let scores = &mut scores[c..c + C];
    // Units from one key to the next.
    let stride = width * E::UNITS;
    let count = keys.len() / stride;
    let mut j = 0;
    while count - j >= 8 {
        let eight = &keys[j * stride..(j + 8) * stride];
        // SAFETY: each tile reads 4 of 8 keys, and `C` queries of the slice above; the caller vouches for the set.
        unsafe {
            let mut lower = [[V::zero(); 4]; C];
            let mut upper = lower;
            let mut key = Strided {
                start: eight.as_ptr(),
                stride,
            };
            tile::<V, E, 4, C>(key, queries, width, &mut lower);
            key.start = eight[4 * stride..].as_ptr();
            tile::<V, E, 4, C>(key, queries, width, &mut upper);
            for i in 0..C {
                let ([a, b, c, d], [e, f, g, h]) = (lower[i], upper[i]);
                scores[i][at + j..at + j + 8].copy_from_slice(&reduced([a, b, c, d, e, f, g, h]));
            }
        }
        j += 8;
    }
    for (j, key) in (j..count).zip(keys[j * stride..].chunks_exact(stride)) {
        for (i, scores) in scores.iter_mut().enumerate() {
            // SAFETY: the caller vouches for the set.
            scores[at + j] = unsafe { dot_of::<V, E>(key, q.row(c + i)) };
        }
    }
    C
}

/// [`super::super::set::Set::accumulate`].
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(in super::super) unsafe fn accumulate<V: Vector>(p: &[Scores], at: usize, values: Stored, y: &mut Band) {
    // SAFETY: by the caller.
    unsafe {
        match values {
            Stored::F32(values) => accumulate_with::<V, Native>(p, at, values, y),
            Stored::Bf16(values) => accumulate_with::<V, Bf16>(p, at, values, y),
            Stored::I8(values) => accumulate_with::<V, I8>(p, at, values, y),
        }
    }
}

/// [`accumulate`] with values of one storage, for two or three queries at a time.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn accumulate_with<V: Vector, E: Load<V>>(p: &[Scores], at: usize, values: &[E::Unit], y: &mut Band) {
    let mut c = 0;
    // SAFETY: by the caller.
    unsafe {
        while c < y.height() {
            c += match y.height() - c {
                1 => accumulate_of::<V, E, 1>(p, c, at, values, y),
                2 | 4 => accumulate_of::<V, E, 2>(p, c, at, values, y),
                _ => accumulate_of::<V, E, 3>(p, c, at, values, y),
            };
        }
    }
}

/// [`accumulate`] of queries `c..c + C`: some vectors of outputs stay in registers while all values pass; the number
/// of queries.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn accumulate_of<V: Vector, E: Load<V>, const C: usize>(
    p: &[Scores],
    c: usize,
    at: usize,
    values: &[E::Unit],
    y: &mut Band,
) -> usize {
    let width = y.width();
    // Units from one row of values to the next.
    let stride = width * E::UNITS;
    let count = values.len() / stride;
    let mut d = 0;
    // The rows are disjoint, so that borrowing one leaves the pointers to the others as they are.
    let queries: [(&[f32], *mut f32); C] =
        core::array::from_fn(|i| (&p[c + i][at..at + count], y.row(c + i).as_mut_ptr()));
    // SAFETY: `d + 8 * (vectors of the tile) <= width`, for the outputs as for the rows of `values`; the caller
    // vouches for the set.
    unsafe {
        while C == 1 && width - d >= 64 {
            weighted_sums::<V, E, C, 8>(&queries, &values[d * E::UNITS..], stride, d);
            d += 64;
        }
        while width - d >= 32 {
            weighted_sums::<V, E, C, 4>(&queries, &values[d * E::UNITS..], stride, d);
            d += 32;
        }
        while width - d >= 8 {
            weighted_sums::<V, E, C, 1>(&queries, &values[d * E::UNITS..], stride, d);
            d += 8;
        }
    }
    if d < width {
        for i in c..c + C {
            let y = &mut y.row(i)[d..];
            let tail = y.len();
            let (mut sums, mut v) = ([0.0f32; 8], [0.0f32; 8]);
            sums[..tail].copy_from_slice(y);
            for (p, row) in p[i][at..].iter().zip(values.chunks_exact(stride)) {
                for (v, units) in v.iter_mut().zip(row[d * E::UNITS..].chunks_exact(E::UNITS)) {
                    *v = E::read(units);
                }
                // SAFETY: both arrays have 8 values; the caller vouches for the set.
                unsafe {
                    V::splat(*p)
                        .mul_add(V::load(v.as_ptr()), V::load(sums.as_ptr()))
                        .store(sums.as_mut_ptr());
                }
            }
            y.copy_from_slice(&sums[..tail]);
        }
    }
    C
}

/// `y[c][d..d + 8 N] += p[c][j] * values[j][..8 N]` over `j`, for `C` queries of which `(p, y)` are given; rows of
/// `values` are `stride` units apart.
///
/// # Safety
/// All `p` have the same length. `8 * N` elements can be read at `values + j * stride` for each `j` below that length,
/// and read and written at each `y + d`; the machine has the set.
#[inline(always)]
unsafe fn weighted_sums<V: Vector, E: Load<V>, const C: usize, const N: usize>(
    queries: &[(&[f32], *mut f32); C],
    values: &[E::Unit],
    stride: usize,
    d: usize,
) {
    // SAFETY: by the caller.
    unsafe {
        let mut sums = [[V::zero(); N]; C];
        for c in 0..C {
            for i in 0..N {
                sums[c][i] = V::load(queries[c].1.add(d + 8 * i));
            }
        }
        for j in 0..queries[0].0.len() {
            let mut p = [V::zero(); C];
            for c in 0..C {
                p[c] = V::splat(*queries[c].0.as_ptr().add(j));
            }
            for i in 0..N {
                let v = E::load(values.as_ptr().add(j * stride + 8 * i * E::UNITS));
                for c in 0..C {
                    sums[c][i] = p[c].mul_add(v, sums[c][i]);
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
