//! Many columns: a panel of rows is widened to f32 once per group of columns, a block of the inner dimension at a
//! time. Three columns of a block stay in the first level of caches while the panel's rows pass over them.

use core::mem::MaybeUninit;

use super::super::super::linear::Linear;
use super::super::super::matrix::{Native, with_storage};
use super::super::super::split::Band;
use super::super::Vector;
use super::super::tile::{Columns, Load, Strided, fetching_tile, reduced};
use super::{Aligned, LINE, MOST, Panel, Panels};

/// Rows of a panel.
const PANEL: usize = MOST;
/// Most columns of a group, a multiple of 3.
const GROUP: usize = 102;
/// Elements of a block along the inner dimension, a multiple of 8.
const BLOCK: usize = 320;

/// A block of a panel's rows as f32; only the elements of the block are ever written and read.
type Widened = MaybeUninit<Aligned<[[f32; BLOCK]; PANEL]>>;
/// The lanes of a panel's rows for a group of columns, `[c][r]`; only those of the group are ever written and read.
type Waiting<V> = MaybeUninit<[[V; PANEL]; GROUP]>;

/// The outputs of all columns.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(super) unsafe fn columns<V: Vector>(job: &Linear, band: &mut Band) {
    let n = band.height();
    let mut widened = Widened::uninit();
    let mut waiting = Waiting::<V>::uninit();
    // Groups of about one size, of whole tiles.
    let group = n.div_ceil(n.div_ceil(GROUP)).next_multiple_of(3);
    for panel in Panels::new(job, band, PANEL, false) {
        for input in (0..n).step_by(group) {
            // SAFETY: by the caller.
            unsafe { panel.columns(band, input, group.min(n - input), &mut widened, &mut waiting) };
        }
    }
}

impl Panel<'_> {
    /// The outputs of `count` columns (at most [`GROUP`]) from `input`.
    #[inline(always)]
    unsafe fn columns<V: Vector>(
        &self,
        band: &mut Band,
        input: usize,
        count: usize,
        widened: &mut Widened,
        waiting: &mut Waiting<V>,
    ) {
        let cols = self.job.weights().cols();
        // Rows that fill up eight are zeros, and nobody looks at their sums.
        let rows = self.rows.next_multiple_of(8);
        let w = widened.as_mut_ptr().cast::<f32>();
        let waiting = waiting.as_mut_ptr().cast::<V>();
        // SAFETY: `rows` is at most `PANEL`, and a block at most `BLOCK` long, so what is written and read of
        // `widened` and `waiting` is inside of them. Before a tile reads elements or lanes they have been written: by
        // `widen`, and by the tiles of the first block, which there is even where it is empty.
        unsafe {
            let mut k = 0;
            loop {
                let len = BLOCK.min(cols - k);
                with_storage!(self.job.weights().storage(), E => self.widen::<V, E>(k, len, rows, w));
                let x = self.inputs(input, k);
                if k == 0 {
                    tiles::<V, true>(w, rows, x, count, len, waiting);
                } else {
                    tiles::<V, false>(w, rows, x, count, len, waiting);
                }
                k += len;
                if k == cols {
                    break;
                }
            }
            for c in 0..count {
                for r in (0..rows).step_by(8) {
                    let lanes = waiting.add(c * PANEL + r).cast::<[V; 8]>().read();
                    self.finish(band, input + c, r, &reduced(lanes));
                }
            }
        }
    }

    /// Elements `k..k + len` of the panel's rows as f32 to `to`, rows [`BLOCK`] apart; zeros for rows that it lacks
    /// up to `rows`.
    ///
    /// # Safety
    /// `rows` rows of `len` values can be written at `to`; the machine has the set.
    #[inline(always)]
    unsafe fn widen<V: Vector, E: Load<V, Unit = u8>>(&self, k: usize, len: usize, rows: usize, to: *mut f32) {
        let Strided { start: from, stride } = self.strided::<E, V>(0, k);
        let whole = len - len % 8;
        // SAFETY: elements `k..k + len` of each row are in the panel's weights.
        unsafe {
            for r0 in (0..self.rows).step_by(8) {
                let eight = r0..self.rows.min(r0 + 8);
                // Eight streams of weights at once, and those of the next block on their way.
                for i in (0..whole).step_by(8) {
                    if i * E::UNITS % LINE == 0 {
                        for r in eight.clone() {
                            V::fetch_early(from.wrapping_add(r * stride + (i + BLOCK) * E::UNITS));
                        }
                    }
                    for r in eight.clone() {
                        E::load(from.add(r * stride + i * E::UNITS)).store(to.add(r * BLOCK + i));
                    }
                }
                for r in eight {
                    for i in whole..len {
                        let units = from.add(r * stride + i * E::UNITS);
                        *to.add(r * BLOCK + i) = E::read(core::slice::from_raw_parts(units, E::UNITS));
                    }
                }
            }
            for r in self.rows..rows {
                to.add(r * BLOCK).write_bytes(0, len);
            }
        }
    }
}

/// The tiles of `count` columns and all rows along `len` elements.
///
/// # Safety
/// As for [`part`], for `count` columns.
#[inline(always)]
unsafe fn tiles<V: Vector, const FIRST: bool>(
    w: *const f32,
    rows: usize,
    x: Strided<f32>,
    count: usize,
    len: usize,
    waiting: *mut V,
) {
    let mut c = 0;
    while c < count {
        // SAFETY: columns `c..c + C` exist by the conditions; the rest by the caller.
        unsafe {
            let lanes = waiting.add(c * PANEL);
            let x = Columns::apart(Strided {
                start: x.start.add(c * x.stride),
                stride: x.stride,
            });
            c += match count - c {
                1 => part::<V, 1, FIRST>(w, rows, x, len, lanes),
                2 | 4 => part::<V, 2, FIRST>(w, rows, x, len, lanes),
                _ => part::<V, 3, FIRST>(w, rows, x, len, lanes),
            };
        }
    }
}

/// The tiles of `C` columns and all rows, 4 at a time, with their lanes taken from those that wait, or zero for the
/// first block, and put back; the number of columns.
///
/// # Safety
/// As for [`fetching_tile`], for `rows` rows, a multiple of 4, [`BLOCK`] apart; `lanes` are [`PANEL`] for each column,
/// and initialised but for the first block.
#[inline(always)]
unsafe fn part<V: Vector, const C: usize, const FIRST: bool>(
    w: *const f32,
    rows: usize,
    x: Columns,
    count: usize,
    lanes: *mut V,
) -> usize {
    // SAFETY: by the caller.
    unsafe {
        for r in (0..rows).step_by(4) {
            let w = Strided {
                start: w.add(r * BLOCK),
                stride: BLOCK,
            };
            let lanes = lanes.add(r);
            let mut sums = [[V::zero(); 4]; C];
            if !FIRST {
                for c in 0..C {
                    sums[c] = lanes.add(c * PANEL).cast::<[V; 4]>().read();
                }
            }
            fetching_tile::<V, Native, 4, C>(w, x, count, &mut sums, ());
            for c in 0..C {
                lanes.add(c * PANEL).cast::<[V; 4]>().write(sums[c]);
            }
        }
    }
    C
}
