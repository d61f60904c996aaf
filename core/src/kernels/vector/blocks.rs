//! The linear map with weights in blocks and activations of 8 bits.
//!
//! Lane `l` of a vector is block `l` of a group, for weights and activations alike (see [`super::super::blocks`]), so
//! integer sums grow lane by lane and are exact in any order; once per group they meet the product of their scales.
//! One column, or a few, are bound by memory: rows far apart are taken together, so that several long streams of weights
//! are read. Of more columns a few share what is decoded of two rows, while some groups of a panel of rows stay in the
//! nearest cache; the lanes wait in memory between groups, so the order of sums is as if there were none.

use core::mem::MaybeUninit;
use core::ops::Range;

use super::super::activations::{Activations, FRONT_BYTES, PART, group_start};
use super::super::blocks::{GROUP, Levels, SCALES, STEP};
use super::super::linear::{FEW, Linear};
use super::super::matrix::with_levels;
use super::super::split::Band;
use super::Vector;
use super::tile::{Strided, reduced};

/// Rows that are taken together, a multiple of 8 and a part of every piece of work.
const PANEL: usize = 16;
/// Streams of weights that a few columns read at once.
const STREAMS: usize = 8;
/// Bytes from where a stream is read to where it is asked for.
const AHEAD: usize = 320;
/// Columns that share a panel's pass.
const COLUMNS: usize = 64;
/// Groups that the columns pass over before the next ones are read.
const TOGETHER: usize = 4;

/// What a set can do with integers: vectors of 8 lanes in which 4 neighbours of a column's levels belong to a lane.
///
/// # Safety
/// Every method needs a machine that has the set, besides what it says itself.
pub(in super::super) trait Integers: Vector {
    /// 32 levels of activations.
    type Bytes: Copy;
    /// 8 sums of products.
    type Sums: Copy;
    /// 32 bytes of any alignment. They can be read at `from`.
    unsafe fn bytes(from: *const u8) -> Self::Bytes;
    /// Writes 32 bytes. They can be written at `to`.
    unsafe fn store_bytes(bytes: Self::Bytes, to: *mut u8);
    /// The lowest byte of each of 32 lanes.
    unsafe fn lowest_bytes(lanes: [Self; 4]) -> Self::Bytes;
    /// Sums of nothing.
    unsafe fn no_sums() -> Self::Sums;
    /// Adds 4 neighbours each, signed, to the sums.
    unsafe fn add_bytes(bytes: Self::Bytes, sums: Self::Sums) -> Self::Sums;
    /// The sums.
    unsafe fn to_array(sums: Self::Sums) -> [i32; 8];
    /// Of every lane the one that is larger as an integer; neither has a sign.
    unsafe fn larger_bits(self, b: Self) -> Self;
    /// Asks for the line of memory at an address, which need not be one.
    unsafe fn prefetch(address: *const u8);
}

/// How a set multiplies levels of weights with those of activations, which are -127 to 127.
///
/// # Safety
/// Every method needs a machine that has the set, besides what it says itself.
pub(in super::super) trait Products<V: Integers>: Levels {
    /// 32 levels of weights, as products want them.
    type Ready: Copy;
    /// The levels of 64 columns: `8 * BITS` bytes at `from`.
    unsafe fn pair(from: *const u8) -> [Self::Ready; 2];
    /// The levels of the last 32 columns of a group: `4 * BITS` bytes at `from`.
    unsafe fn last(from: *const u8) -> Self::Ready;
    /// What sums of a group begin with; `x` are the 8 corrections of the activations, i32 of any alignment.
    unsafe fn begin(x: *const u8) -> V::Sums;
    /// Adds the products of 32 columns, each to the sum of its lane.
    unsafe fn add(w: Self::Ready, x: V::Bytes, sums: V::Sums) -> V::Sums;
    /// Adds the products of 64 columns, each to the sum of its lane.
    #[inline(always)]
    unsafe fn add_pair(w: [Self::Ready; 2], x: [V::Bytes; 2], sums: V::Sums) -> V::Sums {
        // SAFETY: by the caller.
        unsafe { Self::add(w[1], x[1], Self::add(w[0], x[0], sums)) }
    }
    /// The sums as f32, which is exact, of at most 32 products each.
    unsafe fn finish(sums: V::Sums) -> V;
}

/// [`super::super::set::Set::linear`] for weights in blocks.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(in super::super) unsafe fn linear<V: Integers>(job: &Linear, band: &mut Band)
where
    super::super::blocks::Q8: Products<V>,
    super::super::blocks::Q4: Products<V>,
{
    // SAFETY: by the caller.
    with_levels!(job.weights().storage(), L => unsafe { linear_of::<V, L>(job, band) });
}

/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn linear_of<V: Integers, L: Products<V>>(job: &Linear, band: &mut Band) {
    let map = Map {
        job,
        x: job.quantised(),
        groups: job.weights().cols().div_ceil(GROUP),
    };
    let (n, width) = (band.height(), band.width());
    // SAFETY: by the caller.
    unsafe {
        let apart = width / STREAMS;
        if n == 1 {
            for r in 0..apart {
                map.one_column::<V, L, STREAMS>(band, r, apart);
            }
            for r in apart * STREAMS..width {
                map.one_column::<V, L, 1>(band, r, 1);
            }
        } else if n <= FEW {
            for r in 0..apart {
                map.few_columns::<V, L, STREAMS>(band, r, apart);
            }
            for r in apart * STREAMS..width {
                map.few_columns::<V, L, 1>(band, r, 1);
            }
        } else {
            let mut waiting = Waiting::<V>::uninit();
            // Passes of about one size.
            let columns = n.div_ceil(n.div_ceil(COLUMNS)).next_multiple_of(4).min(COLUMNS);
            for r in (0..width).step_by(PANEL) {
                let rows = PANEL.min(width - r);
                for c in (0..n).step_by(columns) {
                    map.panel::<V, L>(band, r, rows, c, columns.min(n - c), &mut waiting);
                }
            }
        }
    }
}

/// The lanes of a panel's rows for the columns of a pass, `[c][r]`; only those of the pass are ever written and read.
type Waiting<V> = MaybeUninit<[[V; PANEL]; COLUMNS]>;

/// The lanes of some rows, side by side, for columns `stride` lanes apart.
struct Lanes<V> {
    start: *mut V,
    stride: usize,
}

/// A linear map, and how many groups its rows have.
struct Map<'a> {
    job: &'a Linear<'a>,
    /// There if there are groups.
    x: Option<Activations<'a>>,
    groups: usize,
}

impl Map<'_> {
    /// `R` rows of weights from `row`, `step` rows apart.
    #[inline(always)]
    fn weights<const R: usize>(&self, row: usize, step: usize) -> Strided<u8> {
        let w = self.job.weights();
        let bytes = &w.bytes()[row * w.stride()..(row + (R - 1) * step + 1) * w.stride()];
        Strided {
            start: bytes.as_ptr(),
            stride: step * w.stride(),
        }
    }

    /// `C` rows of activations from `first`.
    #[inline(always)]
    fn inputs<const C: usize>(&self, first: usize) -> Strided<u8> {
        match &self.x {
            Some(x) => Strided {
                start: x.rows(first, C).as_ptr(),
                stride: x.stride(),
            },
            None => Strided {
                start: core::ptr::null(),
                stride: 0,
            },
        }
    }

    /// The outputs of the only column for `R` rows (at most 8) from `row` of the band, `step` apart.
    #[inline(always)]
    unsafe fn one_column<V: Integers, L: Products<V>, const R: usize>(&self, band: &mut Band, row: usize, step: usize) {
        let first = band.start() + row;
        let w = self.weights::<R>(first, step);
        let x = self.inputs::<1>(0);
        // SAFETY: `R` rows of weights and the input have all groups; the caller vouches for the set.
        unsafe {
            let mut lanes = [V::zero(); 8];
            for g in 0..self.groups {
                for (r, lanes) in lanes.iter_mut().enumerate().take(R) {
                    let w = Strided {
                        start: w.start.add(r * w.stride),
                        stride: 0,
                    };
                    let ahead = w.start.wrapping_add(g * (SCALES + GROUP * L::BITS / 8) + AHEAD);
                    for line in 0..(SCALES + GROUP * L::BITS / 8).div_ceil(64) {
                        V::prefetch(ahead.wrapping_add(64 * line));
                    }
                    let mut one = [[*lanes]];
                    self.group::<V, L, 1, 1>(w, x, g, &mut one);
                    *lanes = one[0][0];
                }
            }
            let dots = reduced(lanes);
            let y = band.row(0);
            for (r, dot) in dots.into_iter().enumerate().take(R) {
                let bias = self.job.bias(first + r * step);
                self.job.finish(bias, dot, &mut y[row + r * step]);
            }
        }
    }

    /// The outputs of all columns (at most [`FEW`]) for `R` rows (at most 8) from `row` of the band, `step` apart.
    #[inline(always)]
    unsafe fn few_columns<V: Integers, L: Products<V>, const R: usize>(
        &self,
        band: &mut Band,
        row: usize,
        step: usize,
    ) {
        let first = band.start() + row;
        let count = band.height();
        let w = self.weights::<R>(first, step);
        // SAFETY: `R` rows of weights and `count` of the input have all groups; the caller vouches for the set.
        unsafe {
            let mut lanes = [[V::zero(); 8]; FEW];
            for g in (0..self.groups).step_by(TOGETHER) {
                let groups = g..self.groups.min(g + TOGETHER);
                let mut r = 0;
                while r < R {
                    let rows = if r + 2 <= R { 2 } else { 1 };
                    let w = Strided {
                        start: w.start.add(r * w.stride),
                        ..w
                    };
                    let mut c = 0;
                    while c < count {
                        let lanes = Lanes {
                            start: lanes.as_mut_ptr().cast::<V>().add(8 * c + r),
                            stride: 8,
                        };
                        let groups = groups.clone();
                        c += match (rows, count - c) {
                            (1, 1) => self.tile::<V, L, 1, 1, true>(w, c, groups, lanes),
                            (1, 2) => self.tile::<V, L, 1, 2, true>(w, c, groups, lanes),
                            (1, 3) => self.tile::<V, L, 1, 3, true>(w, c, groups, lanes),
                            (1, _) => self.tile::<V, L, 1, 4, true>(w, c, groups, lanes),
                            (_, 1) => self.tile::<V, L, 2, 1, true>(w, c, groups, lanes),
                            (_, 2) => self.tile::<V, L, 2, 2, true>(w, c, groups, lanes),
                            (_, 3) => self.tile::<V, L, 2, 3, true>(w, c, groups, lanes),
                            (_, _) => self.tile::<V, L, 2, 4, true>(w, c, groups, lanes),
                        };
                    }
                    r += rows;
                }
            }
            for (c, lanes) in lanes.into_iter().enumerate().take(count) {
                let dots = reduced(lanes);
                let y = band.row(c);
                for (r, dot) in dots.into_iter().enumerate().take(R) {
                    let bias = self.job.bias(first + r * step);
                    self.job.finish(bias, dot, &mut y[row + r * step]);
                }
            }
        }
    }

    /// The outputs of `count` columns (at most [`COLUMNS`]) from `c` for `rows` rows (at most [`PANEL`]) from `row` of
    /// the band.
    #[inline(always)]
    unsafe fn panel<V: Integers, L: Products<V>>(
        &self,
        band: &mut Band,
        row: usize,
        rows: usize,
        c: usize,
        count: usize,
        waiting: &mut Waiting<V>,
    ) {
        let waiting = waiting.as_mut_ptr().cast::<V>();
        let first = band.start() + row;
        // SAFETY: `count` and `rows` keep what is written and read of `waiting` inside of it, and the first loop writes
        // all of it that is read. Rows and columns of tiles exist by the conditions of the loops; the caller vouches
        // for the set.
        unsafe {
            for i in 0..count {
                for r in 0..PANEL {
                    waiting.add(i * PANEL + r).write(V::zero());
                }
            }
            for g in (0..self.groups).step_by(TOGETHER) {
                let groups = g..self.groups.min(g + TOGETHER);
                let mut i = 0;
                while i < count {
                    let lanes = waiting.add(i * PANEL);
                    i += match count - i {
                        1 => self.columns::<V, L, 1>(first, rows, c + i, groups.clone(), lanes),
                        2 => self.columns::<V, L, 2>(first, rows, c + i, groups.clone(), lanes),
                        3 => self.columns::<V, L, 3>(first, rows, c + i, groups.clone(), lanes),
                        _ => self.columns::<V, L, 4>(first, rows, c + i, groups.clone(), lanes),
                    };
                }
            }
            let biases: [Option<f32>; PANEL] =
                core::array::from_fn(|r| if r < rows { self.job.bias(first + r) } else { None });
            for i in 0..count {
                let y = &mut band.row(c + i)[row..row + rows];
                for (r, y) in y.chunks_mut(8).enumerate() {
                    let dots = reduced(waiting.add(i * PANEL + 8 * r).cast::<[V; 8]>().read());
                    for ((y, dot), bias) in y.iter_mut().zip(dots).zip(&biases[8 * r..]) {
                        self.job.finish(*bias, dot, y);
                    }
                }
            }
        }
    }

    /// Adds some groups of `rows` rows from `first`, for `C` columns from `c`, to the lanes that wait; `C`.
    ///
    /// # Safety
    /// The rows, columns and groups exist, and [`PANEL`] lanes for each column; the machine has the set.
    #[inline(always)]
    unsafe fn columns<V: Integers, L: Products<V>, const C: usize>(
        &self,
        first: usize,
        rows: usize,
        c: usize,
        groups: Range<usize>,
        lanes: *mut V,
    ) -> usize {
        // SAFETY: by the caller.
        unsafe {
            for r in (0..rows).step_by(2) {
                let groups = groups.clone();
                let lanes = Lanes {
                    start: lanes.add(r),
                    stride: PANEL,
                };
                if r + 2 <= rows {
                    self.tile::<V, L, 2, C, false>(self.weights::<2>(first + r, 1), c, groups, lanes);
                } else {
                    self.tile::<V, L, 1, C, false>(self.weights::<1>(first + r, 1), c, groups, lanes);
                }
            }
        }
        C
    }

    /// Adds some groups of `R` rows, for `C` columns from `c`, to their lanes; `C`. With `FETCH` what the rows have
    /// behind is asked for.
    ///
    /// # Safety
    /// The rows, columns, groups and lanes exist; the machine has the set.
    #[inline(always)]
    unsafe fn tile<V: Integers, L: Products<V>, const R: usize, const C: usize, const FETCH: bool>(
        &self,
        w: Strided<u8>,
        c: usize,
        groups: Range<usize>,
        lanes: Lanes<V>,
    ) -> usize {
        let len = SCALES + GROUP * L::BITS / 8;
        let x = self.inputs::<C>(c);
        // SAFETY: by the caller.
        unsafe {
            let mut sums = [[V::zero(); R]; C];
            for c in 0..C {
                sums[c] = lanes.start.add(c * lanes.stride).cast::<[V; R]>().read();
            }
            for g in groups {
                for r in 0..if FETCH { R } else { 0 } {
                    let ahead = w.start.wrapping_add(r * w.stride + g * len + AHEAD);
                    for line in 0..len.div_ceil(64) {
                        V::prefetch(ahead.wrapping_add(64 * line));
                    }
                }
                self.group::<V, L, R, C>(w, x, g, &mut sums);
            }
            for c in 0..C {
                lanes.start.add(c * lanes.stride).cast::<[V; R]>().write(sums[c]);
            }
        }
        C
    }

    /// Adds group `g` of `R` rows and `C` columns to their lanes, `lanes[c][r]`.
    ///
    /// # Safety
    /// The rows, columns and the group exist; the machine has the set.
    #[inline(always)]
    unsafe fn group<V: Integers, L: Products<V>, const R: usize, const C: usize>(
        &self,
        w: Strided<u8>,
        x: Strided<u8>,
        g: usize,
        lanes: &mut [[V; R]; C],
    ) {
        let width = (self.job.weights().cols() - g * GROUP).min(GROUP);
        // SAFETY: the group is in each row, `SCALES + width * BITS / 8` bytes of weights, and the front and `width`
        // bytes of activations; the caller vouches for the set.
        unsafe {
            let w = Strided {
                start: w.start.add(g * (SCALES + GROUP * L::BITS / 8)),
                ..w
            };
            let x = Strided {
                start: x.start.add(group_start(g)),
                ..x
            };
            let mut sums = [[L::begin(x.start.add(PART)); R]; C];
            for c in 1..C {
                sums[c] = [L::begin(x.start.add(c * x.stride + PART)); R];
            }
            if width == GROUP {
                products::<V, L, R, C>(w, x, GROUP, &mut sums);
            } else {
                products::<V, L, R, C>(w, x, width, &mut sums);
            }
            for r in 0..R {
                let w_scales = V::load_f16(w.start.add(r * w.stride));
                for c in 0..C {
                    let x = x.start.add(c * x.stride);
                    let scales = w_scales.mul(V::load_f32(x));
                    lanes[c][r] = L::finish(sums[c][r]).mul_add(scales, lanes[c][r]);
                }
            }
        }
    }
}

/// The sums of products of a group of `width` columns.
///
/// # Safety
/// As for [`Map::group`], with the starts at the group.
#[inline(always)]
unsafe fn products<V: Integers, L: Products<V>, const R: usize, const C: usize>(
    w: Strided<u8>,
    x: Strided<u8>,
    width: usize,
    sums: &mut [[V::Sums; R]; C],
) {
    // SAFETY: `64 * (pair + 1) <= width`, and 32 columns remain after the pairs if `width` says so.
    unsafe {
        for pair in 0..width / (2 * STEP) {
            let mut levels = [L::pair(w.start.add(SCALES + pair * 8 * L::BITS)); R];
            for r in 1..R {
                levels[r] = L::pair(w.start.add(r * w.stride + SCALES + pair * 8 * L::BITS));
            }
            for c in 0..C {
                let from = x.start.add(c * x.stride + FRONT_BYTES + pair * 2 * STEP);
                let x = [V::bytes(from), V::bytes(from.add(STEP))];
                for r in 0..R {
                    sums[c][r] = L::add_pair(levels[r], x, sums[c][r]);
                }
            }
        }
        if width % (2 * STEP) != 0 {
            let at = width - STEP;
            for r in 0..R {
                let level = L::last(w.start.add(r * w.stride + SCALES + at / 8 * L::BITS));
                for c in 0..C {
                    let x = V::bytes(x.start.add(c * x.stride + FRONT_BYTES + at));
                    sums[c][r] = L::add(level, x, sums[c][r]);
                }
            }
        }
    }
}
