//! The linear map.
//!
//! One column, or a few, are bound by memory. Rows far apart are taken together, so that 8 or 4 long streams of weights
//! are read, each contiguous from row to row; weights are decoded on their way into the sums. Many columns share what
//! is read: a panel of rows is widened to f32 once per group of columns. In both cases the inner dimension is cut into
//! blocks that stay in the caches while the columns pass over them; between blocks the lanes wait in memory, so the
//! order of sums is as if there were none.

use core::mem::MaybeUninit;

use super::super::linear::{Linear, PANEL};
use super::super::matrix::{Native, with_storage};
use super::super::split::Band;
use super::Vector;
use super::tile::{Load, Strided, reduced, tile};

/// Most columns that do without widening.
const FEW: usize = 8;
/// Most columns of a group.
const GROUP: usize = 96;
/// Elements of a block along the inner dimension, a multiple of 8.
const BLOCK: usize = 640;

/// A block of a panel's rows as f32; only the elements of the block are ever written and read.
type Widened = MaybeUninit<[[f32; BLOCK]; PANEL]>;
/// The lanes of a panel's rows for a group of columns, `[c][r]`; only those of the group are ever written and read.
type Waiting<V> = MaybeUninit<[[V; PANEL]; GROUP]>;

/// The biases of a panel of `rows` weight rows, `first` and every `step`-th after it.
fn panel_bias(job: &Linear, first: usize, step: usize, rows: usize) -> Option<[f32; PANEL]> {
    let mut values = [0.0; PANEL];
    for (i, value) in values.iter_mut().enumerate().take(rows) {
        *value = job.bias(first + i * step)?;
    }
    Some(values)
}

/// [`super::super::set::Set::linear`].
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(in super::super) unsafe fn linear<V: Vector>(job: &Linear, band: &mut Band) {
    let n = band.height();
    let panels = |rows: usize, streams: bool| Panels {
        job,
        start: band.start(),
        width: band.width(),
        rows,
        streams,
        next: 0,
    };
    // SAFETY: by the caller.
    unsafe {
        if n == 1 {
            for panel in panels(8, true) {
                with_storage!(job.weights().storage(), E => panel.one_column::<V, E>(band));
            }
        } else if n <= FEW {
            for panel in panels(4, true) {
                with_storage!(job.weights().storage(), E => panel.few_columns::<V, E>(band));
            }
        } else {
            let mut widened = Widened::uninit();
            let mut waiting = Waiting::<V>::uninit();
            // Groups of about one size, of whole tiles.
            let group = n.div_ceil(n.div_ceil(GROUP)).next_multiple_of(3).min(GROUP);
            for panel in panels(PANEL, false) {
                for input in (0..n).step_by(group) {
                    panel.columns(band, input, group.min(n - input), &mut widened, &mut waiting);
                }
            }
        }
    }
}

/// Cuts the rows of a band into panels.
struct Panels<'a> {
    job: &'a Linear<'a>,
    start: usize,
    width: usize,
    /// Rows of each panel but the last.
    rows: usize,
    /// Whether the rows of a panel are as far apart as the band allows, else neighbours.
    streams: bool,
    next: usize,
}

impl<'a> Iterator for Panels<'a> {
    type Item = Panel<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Panel<'a>> {
        let whole = self.width / self.rows;
        let index = self.next;
        self.next += 1;
        let (row, rows, step) = if index >= whole {
            let row = whole * self.rows;
            (row, self.width - row, 1)
        } else if self.streams {
            (index, self.rows, whole)
        } else {
            (index * self.rows, self.rows, 1)
        };
        (index < whole || index == whole && rows > 0).then(|| Panel::new(self.job, self.start, row, rows, step))
    }
}

/// At most [`PANEL`] rows of weights at equal distances, and their outputs.
struct Panel<'a> {
    job: &'a Linear<'a>,
    /// First row, counted in the band.
    row: usize,
    /// Rows from one to the next.
    step: usize,
    rows: usize,
    /// Weights from the first row to the last.
    weights: &'a [u8],
    bias: Option<[f32; PANEL]>,
}

impl<'a> Panel<'a> {
    /// The panel of `rows` rows (not 0) from row `row` of a band that begins at weight row `start`; they exist, or
    /// this panics.
    #[inline(always)]
    fn new(job: &'a Linear<'a>, start: usize, row: usize, rows: usize, step: usize) -> Self {
        let (first, stride) = (start + row, job.weights().stride());
        let last = first + (rows - 1) * step;
        Self {
            job,
            row,
            step,
            rows,
            weights: &job.weights().bytes()[first * stride..(last + 1) * stride],
            bias: panel_bias(job, first, step, rows),
        }
    }

    /// The weights from row `r` and element `k` on.
    #[inline(always)]
    fn strided<E: Load<V, Unit = u8>, V>(&self, r: usize, k: usize) -> Strided<u8> {
        let stride = self.step * self.job.weights().stride();
        Strided {
            start: self.weights[r * stride + k * E::UNITS..].as_ptr(),
            stride,
        }
    }

    /// Input `c` and those that follow, from element `k` on.
    #[inline(always)]
    fn inputs(&self, c: usize, k: usize) -> Strided<f32> {
        Strided {
            start: self.job.inputs(c, 1)[k..].as_ptr(),
            stride: self.job.weights().cols(),
        }
    }

    /// Turns the dot products of rows `r..` of the panel with column `c` into outputs.
    #[inline(always)]
    fn finish(&self, band: &mut Band, c: usize, r: usize, dots: &[f32]) {
        let y = &mut band.row(c)[self.row..];
        for (i, dot) in (r..self.rows).zip(dots) {
            self.job
                .finish(self.bias.map(|bias| bias[i]), *dot, &mut y[i * self.step]);
        }
    }

    /// The outputs of the only column, for at most 8 rows.
    #[inline(always)]
    unsafe fn one_column<V: Vector, E: Load<V, Unit = u8>>(&self, band: &mut Band) {
        let cols = self.job.weights().cols();
        let x = self.inputs(0, 0);
        // SAFETY: 8 rows, or row `r`, are in the panel, and `cols` elements long like the input.
        unsafe {
            let mut lanes = [[V::zero(); 8]];
            if self.rows == 8 {
                tile::<V, E, 8, 1>(self.strided::<E, V>(0, 0), x, cols, &mut lanes);
            } else {
                for r in 0..self.rows {
                    let mut one = [[V::zero()]];
                    tile::<V, E, 1, 1>(self.strided::<E, V>(r, 0), x, cols, &mut one);
                    lanes[0][r] = one[0][0];
                }
            }
            self.finish(band, 0, 0, &reduced(lanes[0]));
        }
    }

    /// The outputs of all columns (at most [`FEW`]), for at most 4 rows.
    #[inline(always)]
    unsafe fn few_columns<V: Vector, E: Load<V, Unit = u8>>(&self, band: &mut Band) {
        let cols = self.job.weights().cols();
        let count = band.height();
        // SAFETY: 4 rows, or row `r`, are in the panel, and elements `k..k + len` in each of them and of the inputs;
        // columns `c..c + C` exist by the conditions of the loop, and have 4 lanes each.
        unsafe {
            let mut waiting = [V::zero(); 4 * FEW];
            for k in (0..cols).step_by(BLOCK) {
                let len = BLOCK.min(cols - k);
                let mut c = 0;
                while c < count {
                    let x = self.inputs(c, k);
                    let lanes = waiting.as_mut_ptr().add(4 * c);
                    if self.rows == 4 {
                        let w = self.strided::<E, V>(0, k);
                        c += match count - c {
                            1 => part::<V, E, 1, 4>(w, x, len, lanes),
                            2 | 4 => part::<V, E, 2, 4>(w, x, len, lanes),
                            _ => part::<V, E, 3, 4>(w, x, len, lanes),
                        };
                    } else {
                        for r in 0..self.rows {
                            let mut one = [[lanes.add(r).read()]];
                            tile::<V, E, 1, 1>(self.strided::<E, V>(r, k), x, len, &mut one);
                            lanes.add(r).write(one[0][0]);
                        }
                        c += 1;
                    }
                }
            }
            for c in (0..count).step_by(2) {
                let dots = reduced(core::array::from_fn(|i| waiting[4 * c + i]));
                self.finish(band, c, 0, &dots[..4]);
                if c + 1 < count {
                    self.finish(band, c + 1, 0, &dots[4..]);
                }
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
                        let x = self.inputs(input + c, k);
                        let lanes = waiting.add(c * PANEL + r);
                        c += match count - c {
                            1 => part::<V, Native, 1, PANEL>(w, x, len, lanes),
                            2 | 4 => part::<V, Native, 2, PANEL>(w, x, len, lanes),
                            _ => part::<V, Native, 3, PANEL>(w, x, len, lanes),
                        };
                    }
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
/// As for [`tile`]; `lanes` are 4 for each column, `APART` from one to the next, and initialised.
#[inline(always)]
unsafe fn part<V: Vector, E: Load<V>, const C: usize, const APART: usize>(
    w: Strided<E::Unit>,
    x: Strided<f32>,
    count: usize,
    lanes: *mut V,
) -> usize {
    // SAFETY: by the caller.
    unsafe {
        let mut sums = [[V::zero(); 4]; C];
        for c in 0..C {
            sums[c] = lanes.add(c * APART).cast::<[V; 4]>().read();
        }
        tile::<V, E, 4, C>(w, x, count, &mut sums);
        for c in 0..C {
            lanes.add(c * APART).cast::<[V; 4]>().write(sums[c]);
        }
    }
    C
}
