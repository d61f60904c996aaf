//! Scores and weighted sums of a few queries over the same keys and values.

use core::mem::MaybeUninit;

use super::super::attention::Scores;
use super::super::matrix::{Bf16, I8, Native};
use super::super::ring::Stored;
use super::super::set::Rows;
use super::super::split::Band;
use super::Vector;
use super::tile::{Columns, Load, Strided, dot_of, fetching_tile};

/// Bytes of a line of the caches.
const LINE: usize = 64;

/// Most queries that share what is read.
const MOST: usize = 4;
/// Keys that all queries look at before the next ones, in turn: they and their products stay in the first level of
/// caches.
const KEYS: usize = 32;

/// The lanes of the products of queries and keys, `[c][j]`; only what is written is ever read.
type Waiting<V> = MaybeUninit<[[V; KEYS]; MOST]>;

/// Begins to bring `len` bytes from `ahead` on near to the processor.
#[inline(always)]
fn fetch_early<V: Vector>(ahead: *const u8, len: usize) {
    for line in (0..len).step_by(LINE) {
        V::fetch_early(ahead.wrapping_add(line));
    }
}

/// [`super::super::set::Set::scores`].
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(in super::super) unsafe fn scores<V: Vector>(
    q: Rows,
    keys: Stored,
    ahead: *const u8,
    at: usize,
    scores: &mut [Scores],
) {
    // SAFETY: by the caller.
    unsafe {
        match keys {
            Stored::F32(keys) => scores_with::<V, Native>(q, keys, ahead, at, scores),
            Stored::Bf16(keys) => scores_with::<V, Bf16>(q, keys, ahead, at, scores),
            Stored::I8(keys) => scores_with::<V, I8>(q, keys, ahead, at, scores),
        }
    }
}

/// [`scores`] with keys of one storage, for up to four queries at a time, which share what is read and decoded.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn scores_with<V: Vector, E: Load<V>>(
    q: Rows,
    keys: &[E::Unit],
    ahead: *const u8,
    at: usize,
    scores: &mut [Scores],
) {
    let stride = q.width * E::UNITS;
    for (j, keys) in keys.chunks(KEYS * stride).enumerate() {
        let mut c = 0;
        // The first queries fetch for all.
        let mut ahead = Some(ahead.wrapping_add(j * KEYS * stride * size_of::<E::Unit>()));
        let at = at + j * KEYS;
        // SAFETY: by the caller.
        unsafe {
            while c < scores.len() {
                c += match scores.len() - c {
                    1 => scores_of::<V, E, 8, 1>(q, c, keys, ahead, at, scores),
                    2 | 3 => scores_of::<V, E, 4, 2>(q, c, keys, ahead, at, scores),
                    _ => scores_of::<V, E, 2, 4>(q, c, keys, ahead, at, scores),
                };
                ahead = None;
            }
        }
    }
}

/// [`scores`] of queries `c..c + C`, `R` keys at a time; the number of queries.
///
/// The lanes of all products wait until the last key is read: the sums of one tile would be waited for, but those of
/// many together are quick.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn scores_of<V: Vector, E: Load<V>, const R: usize, const C: usize>(
    q: Rows,
    c: usize,
    keys: &[E::Unit],
    ahead: Option<*const u8>,
    at: usize,
    scores: &mut [Scores],
) -> usize {
    const { assert!(8 % R == 0) };
    let width = q.width;
    let queries = Columns::apart(Strided {
        start: q.values[c * q.stride..][..(C - 1) * q.stride + width].as_ptr(),
        stride: q.stride,
    });
    let scores = &mut scores[c..c + C];
    // Units from one key to the next.
    let stride = width * E::UNITS;
    let count = keys.len() / stride;
    let whole = count - count % 8;
    let mut waiting = Waiting::<V>::uninit();
    let waiting = waiting.as_mut_ptr().cast::<V>();
    assert!(whole <= KEYS && C <= MOST, "more scores than a block has");
    for (j, rows) in (0..whole).step_by(R).zip(keys.chunks_exact(R * stride)) {
        if let Some(ahead) = ahead {
            let bytes = size_of_val(rows);
            fetch_early::<V>(ahead.wrapping_add(j / R * bytes), bytes);
        }
        let rows = Strided {
            start: rows.as_ptr(),
            stride,
        };
        // SAFETY: the slices above have `R` keys and `C` queries, and `j + R <= whole`; the caller vouches for the set.
        unsafe {
            let mut lanes = [[V::zero(); R]; C];
            fetching_tile::<V, E, R, C>(rows, queries, width, &mut lanes, ());
            for c in 0..C {
                for r in 0..R {
                    waiting.add(c * KEYS + j + r).write(lanes[c][r]);
                }
            }
        }
    }
    for (c, scores) in scores.iter_mut().enumerate() {
        for (j, scores) in (0..whole).step_by(8).zip(scores[at..].chunks_exact_mut(8)) {
            // SAFETY: the lanes of keys below `whole` have been written; the caller vouches for the set.
            unsafe {
                let lanes = waiting.add(c * KEYS + j).cast::<[V; 8]>().read();
                V::reduce(lanes).store(scores.as_mut_ptr());
            }
        }
    }
    for (j, key) in (whole..count).zip(keys[whole * stride..].chunks_exact(stride)) {
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
pub(in super::super) unsafe fn accumulate<V: Vector>(
    p: &[Scores],
    at: usize,
    values: Stored,
    ahead: *const u8,
    y: &mut Band,
) {
    // SAFETY: by the caller.
    unsafe {
        match values {
            Stored::F32(values) => accumulate_with::<V, Native>(p, at, values, ahead, y),
            Stored::Bf16(values) => accumulate_with::<V, Bf16>(p, at, values, ahead, y),
            Stored::I8(values) => accumulate_with::<V, I8>(p, at, values, ahead, y),
        }
    }
}

/// [`accumulate`] with values of one storage, for up to four queries at a time.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn accumulate_with<V: Vector, E: Load<V>>(
    p: &[Scores],
    at: usize,
    values: &[E::Unit],
    ahead: *const u8,
    y: &mut Band,
) {
    let mut c = 0;
    // The first queries fetch for all.
    let mut ahead = Some(ahead);
    // SAFETY: by the caller.
    unsafe {
        while c < y.height() {
            c += match y.height() - c {
                1 => accumulate_of::<V, E, 1, 8>(p, c, at, values, ahead, y),
                2 | 3 => accumulate_of::<V, E, 2, 4>(p, c, at, values, ahead, y),
                _ => accumulate_of::<V, E, 4, 2>(p, c, at, values, ahead, y),
            };
            ahead = None;
        }
    }
}

/// [`accumulate`] of queries `c..c + C`: `N` vectors of outputs of each stay in registers while all values pass; the
/// number of queries.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn accumulate_of<V: Vector, E: Load<V>, const C: usize, const N: usize>(
    p: &[Scores],
    c: usize,
    at: usize,
    values: &[E::Unit],
    ahead: Option<*const u8>,
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
    let row_bytes = size_of_val(&values[..stride]);
    let fetch = |j: usize| {
        if let Some(ahead) = ahead {
            fetch_early::<V>(ahead.wrapping_add(j * row_bytes), row_bytes);
        }
    };
    // SAFETY: `d + 8 * (vectors of the tile) <= width`, for the outputs as for the rows of `values`; the caller
    // vouches for the set.
    unsafe {
        if width >= 8 * N {
            weighted_sums::<V, E, C, N>(&queries, values, stride, d, fetch);
            d += 8 * N;
        }
        while width - d >= 8 * N {
            weighted_sums::<V, E, C, N>(&queries, &values[d * E::UNITS..], stride, d, |_| ());
            d += 8 * N;
        }
        while width - d >= 8 {
            weighted_sums::<V, E, C, 1>(&queries, &values[d * E::UNITS..], stride, d, |_| ());
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
/// `values` are `stride` units apart. `ahead` is called with every `j`.
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
    ahead: impl Fn(usize),
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
            ahead(j);
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
