//! The linear map.
//!
//! One column alone is bound by memory: 8 rows at a time are decoded on their way into the sums, so that 8 streams of
//! weights are read. Several columns share what is read: a panel of rows is widened to f32 once per group of columns,
//! in blocks along the inner dimension that stay in the caches while the group passes over them. Between blocks the
//! lanes wait in memory, so the order of sums is as if there were none.

use core::mem::MaybeUninit;

use super::super::linear::{Linear, PANEL};
use super::super::matrix::{Native, with_storage};
use super::super::split::Band;
use super::Vector;
use super::tile::{Load, Strided, reduced, tile};

/// Most columns of a group.
const GROUP: usize = 48;
/// Elements of a block along the inner dimension, a multiple of 8.
const BLOCK: usize = 640;

/// A block of a panel's rows as f32; only the elements of the block are ever written and read.
type Widened = MaybeUninit<[[f32; BLOCK]; PANEL]>;
/// The lanes of a panel's rows for a group of columns, `[c][r]`; only those of the group are ever written and read.
type Waiting<V> = MaybeUninit<[[V; PANEL]; GROUP]>;

/// [`super::super::set::Set::linear`].
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(in super::super) unsafe fn linear<V: Vector>(job: &Linear, band: &mut Band) {
    let mut widened = Widened::uninit();
    let mut waiting = Waiting::<V>::uninit();
    let n = band.height();
    // Groups of about one size, of whole tiles.
    let group = n.div_ceil(n.div_ceil(GROUP).max(1)).next_multiple_of(3).min(GROUP);
    for row in (0..band.width()).step_by(PANEL) {
        let rows = PANEL.min(band.width() - row);
        let panel = Panel {
            job,
            row,
            first: band.start() + row,
            rows,
            bias: job.panel_bias(band.start() + row, rows),
        };
        // SAFETY: by the caller.
        unsafe {
            if n == 1 {
                with_storage!(job.weights().storage(), E => panel.one_column::<V, E>(band));
                continue;
            }
            for input in (0..n).step_by(group) {
                panel.columns(band, input, group.min(n - input), &mut widened, &mut waiting);
            }
        }
    }
}

/// At most [`PANEL`] neighbouring rows of weights and their outputs.
struct Panel<'a> {
    job: &'a Linear<'a>,
    /// First row, counted in the band.
    row: usize,
    /// First row, counted in the weights.
    first: usize,
    rows: usize,
    bias: Option<[f32; PANEL]>,
}

impl Panel<'_> {
    /// All the panel's weights.
    #[inline(always)]
    fn weights(&self) -> &[u8] {
        let stride = self.job.weights().stride();
        &self.job.weights().bytes()[self.first * stride..(self.first + self.rows) * stride]
    }

    /// Turns the dot products of rows `r..` of the panel with column `c` into outputs.
    #[inline(always)]
    fn finish(&self, band: &mut Band, c: usize, r: usize, dots: [f32; 8]) {
        let y = &mut band.row(c)[self.row..][..self.rows][r..];
        for (i, (y, dot)) in y.iter_mut().zip(dots).enumerate() {
            self.job.finish(self.bias.map(|bias| bias[r + i]), dot, y);
        }
    }

    /// The outputs of the only column.
    #[inline(always)]
    unsafe fn one_column<V: Vector, E: Load<V, Unit = u8>>(&self, band: &mut Band) {
        let cols = self.job.weights().cols();
        let w = Strided {
            start: self.weights().as_ptr(),
            stride: self.job.weights().stride(),
        };
        let x = Strided {
            start: self.job.inputs(0, 1).as_ptr(),
            stride: 0,
        };
        let mut r = 0;
        // SAFETY: rows `r..r + 8`, or row `r + i`, are in the panel, and `cols` elements long like the input.
        unsafe {
            while self.rows - r >= 8 {
                let mut lanes = [[V::zero(); 8]];
                tile::<V, E, 8, 1>(w.from(r), x, cols, &mut lanes);
                self.finish(band, 0, r, reduced(lanes[0]));
                r += 8;
            }
            if r < self.rows {
                let mut lanes = [V::zero(); 8];
                for (i, lanes) in lanes.iter_mut().enumerate().take(self.rows - r) {
                    let mut one = [[V::zero()]];
                    tile::<V, E, 1, 1>(w.from(r + i), x, cols, &mut one);
                    *lanes = one[0][0];
                }
                self.finish(band, 0, r, reduced(lanes));
            }
        }
    }

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
        let inputs = self.job.inputs(input, count);
        // Rows that fill up eight are zeros, and nobody looks at their sums.
        let rows = self.rows.next_multiple_of(8);
        let w = widened.as_mut_ptr().cast::<f32>();
        let waiting = waiting.as_mut_ptr().cast::<V>();
        // SAFETY: `rows` is at most `PANEL`, and a block at most `BLOCK` long, so what is written and read of
        // `widened` and `waiting` is inside of them. Before a tile reads elements or lanes they have been written: by
        // `widen`, and by the loop over the lanes. Columns `c..c + C` exist by the conditions of the loop.
        unsafe {
            for c in 0..count {
                for r in 0..rows {
                    waiting.add(c * PANEL + r).write(V::zero());
                }
            }
            for k in (0..cols).step_by(BLOCK) {
                let len = BLOCK.min(cols - k);
                with_storage!(self.job.weights().storage(), E => self.widen::<V, E>(k, len, rows, w));
                for r in (0..rows).step_by(4) {
                    let w = Strided {
                        start: w.add(r * BLOCK).cast_const(),
                        stride: BLOCK,
                    };
                    let mut c = 0;
                    while c < count {
                        let x = Strided {
                            start: inputs[c * cols + k..].as_ptr(),
                            stride: cols,
                        };
                        let lanes = waiting.add(c * PANEL + r);
                        c += match count - c {
                            1 => part::<V, 1>(w, x, len, lanes),
                            2 | 4 => part::<V, 2>(w, x, len, lanes),
                            _ => part::<V, 3>(w, x, len, lanes),
                        };
                    }
                }
            }
            for c in 0..count {
                for r in (0..rows).step_by(8) {
                    let lanes = waiting.add(c * PANEL + r).cast::<[V; 8]>().read();
                    self.finish(band, input + c, r, reduced(lanes));
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
        let stride = self.job.weights().stride();
        let from = self.weights()[k * E::UNITS..].as_ptr();
        let whole = len - len % 8;
        // SAFETY: elements `k..k + len` of each row are in the panel's weights.
        unsafe {
            for r0 in (0..self.rows).step_by(8) {
                let eight = r0..self.rows.min(r0 + 8);
                // Eight streams of weights at once.
                for i in (0..whole).step_by(8) {
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

/// One tile of 4 rows with its lanes taken from those that wait and put back; its number of columns.
///
/// # Safety
/// As for [`tile`]; `lanes` are 4 for each column, [`PANEL`] apart, and initialised.
#[inline(always)]
unsafe fn part<V: Vector, const C: usize>(w: Strided<f32>, x: Strided<f32>, count: usize, lanes: *mut V) -> usize {
    // SAFETY: by the caller.
    unsafe {
        let mut sums = [[V::zero(); 4]; C];
        for c in 0..C {
            sums[c] = lanes.add(c * PANEL).cast::<[V; 4]>().read();
        }
        tile::<V, Native, 4, C>(w, x, count, &mut sums);
        for c in 0..C {
            lanes.add(c * PANEL).cast::<[V; 4]>().write(sums[c]);
        }
    }
    C
}
