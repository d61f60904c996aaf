//! The linear map, in three ways, by the number of columns.
//!
//! One column, or a few, are bound by memory. Rows far apart are taken together, so that several long streams of weights
//! are read, each contiguous from row to row; weights are decoded on their way into the sums, and fetched ahead of
//! them: a processor that multiplies looks less far ahead on its own than one that only reads. Many columns are bound
//! by multiplications, and share what is read and decoded.
//!
//! Where the inner dimension is cut into blocks, so that what several tiles use stays in the caches, the lanes wait in
//! memory between blocks; the order of sums is as if there were none.

mod few;
mod many;

use core::marker::PhantomData;

use super::super::linear::{FEW, Linear};
use super::super::matrix::with_storage;
use super::super::split::Band;
use super::Vector;
use super::tile::{Ahead, Columns, Load, Strided, fetching_tile, reduced, tile};

/// Most rows of a panel.
const MOST: usize = 16;
/// Rows of weights that one column takes together.
const STREAMS: usize = 6;
/// Rows that one column passes before it goes on: each stream is long enough to be recognised by the processor, and,
/// where rows are whole multiples of 512 bytes, all of them cross pages of memory at once, which is faster here.
const REGION: usize = 64 * STREAMS;
/// Bytes that weights are fetched ahead of their use, for one column.
const AHEAD: usize = 256;
/// Bytes of a line of the caches.
const LINE: usize = 64;

/// Memory in which no vector lies across two lines of the caches.
#[repr(align(64))]
struct Aligned<T>(#[allow(dead_code)] T);

/// The biases of a panel of `rows` weight rows, `first` and every `step`-th after it.
fn panel_bias(job: &Linear, first: usize, step: usize, rows: usize) -> Option<[f32; MOST]> {
    let mut values = [0.0; MOST];
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
    // SAFETY: by the caller.
    unsafe {
        match band.height() {
            1 => {
                for row in (0..band.width()).step_by(REGION) {
                    let rows = row..band.width().min(row + REGION);
                    let mut region = band.part(0..1, rows);
                    with_storage!(job.weights().storage(), E => one_column::<V, E>(job, &mut region));
                }
            }
            2..=FEW => with_storage!(job.weights().storage(), E => few::columns::<V, E>(job, band)),
            _ => many::columns::<V>(job, band),
        }
    }
}

/// Fetches rows `stride` bytes apart, of which the elements that go with a tile's first begin at `start`: `R` rows of
/// elements `E`, into the first level of caches, or only into the second.
struct Fetch<V, E, const R: usize, const NEAR: bool> {
    start: *const u8,
    stride: usize,
    kinds: PhantomData<(V, E)>,
}

impl<V, E, const R: usize, const NEAR: bool> Fetch<V, E, R, NEAR> {
    #[inline(always)]
    fn new(start: *const u8, stride: usize) -> Self {
        Self {
            start,
            stride,
            kinds: PhantomData,
        }
    }
}

impl<V, E, const R: usize, const NEAR: bool> Clone for Fetch<V, E, R, NEAR> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<V, E, const R: usize, const NEAR: bool> Copy for Fetch<V, E, R, NEAR> {}

impl<V: Vector, E: Load<V, Unit = u8>, const R: usize, const NEAR: bool> Ahead for Fetch<V, E, R, NEAR> {
    #[inline(always)]
    fn fetch(self, k: usize) {
        for r in 0..R {
            for line in (0..32 * E::UNITS).step_by(LINE) {
                let address = self.start.wrapping_add(r * self.stride + k * E::UNITS + line);
                if NEAR {
                    V::fetch(address);
                } else {
                    V::fetch_early(address);
                }
            }
        }
    }
}

/// The outputs of the only column, [`STREAMS`] rows at a time, as far apart as the band allows.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn one_column<V: Vector, E: Load<V, Unit = u8>>(job: &Linear, band: &mut Band) {
    let cols = job.weights().cols();
    for panel in Panels::new(job, band, STREAMS, true) {
        let x = Columns::apart(panel.inputs(0, 0));
        // SAFETY: all rows, or row `r`, are in the panel, and `cols` elements long like the input.
        unsafe {
            let mut lanes = [V::zero(); 8];
            if panel.rows == STREAMS {
                let w = panel.strided::<E, V>(0, 0);
                let mut sums = [[V::zero(); STREAMS]];
                let ahead = Fetch::<V, E, STREAMS, true>::new(w.start.wrapping_add(AHEAD), w.stride);
                fetching_tile::<V, E, STREAMS, 1>(w, x, cols, &mut sums, ahead);
                lanes[..STREAMS].copy_from_slice(&sums[0]);
            } else {
                for (r, lanes) in lanes.iter_mut().enumerate().take(panel.rows) {
                    let mut one = [[V::zero()]];
                    tile::<V, E, 1, 1>(panel.strided::<E, V>(r, 0), x, cols, &mut one);
                    *lanes = one[0][0];
                }
            }
            panel.finish(band, 0, 0, &reduced(lanes));
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

impl<'a> Panels<'a> {
    #[inline(always)]
    fn new(job: &'a Linear<'a>, band: &Band, rows: usize, streams: bool) -> Self {
        Self {
            job,
            start: band.start(),
            width: band.width(),
            rows,
            streams,
            next: 0,
        }
    }
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

/// At most [`MOST`] rows of weights at equal distances, and their outputs.
struct Panel<'a> {
    job: &'a Linear<'a>,
    /// First row, counted in the band.
    row: usize,
    /// Rows from one to the next.
    step: usize,
    rows: usize,
    /// Weights from the first row to the last.
    weights: &'a [u8],
    bias: Option<[f32; MOST]>,
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
        if let (1, Some(bias)) = (self.step, &self.bias) {
            for ((y, dot), bias) in y[r..self.rows].iter_mut().zip(dots).zip(&bias[r..]) {
                self.job.finish(Some(*bias), *dot, y);
            }
        } else if self.step == 1 {
            for (y, dot) in y[r..self.rows].iter_mut().zip(dots) {
                self.job.finish(None, *dot, y);
            }
        } else {
            for (i, dot) in (r..self.rows).zip(dots) {
                self.job
                    .finish(self.bias.map(|bias| bias[i]), *dot, &mut y[i * self.step]);
            }
        }
    }
}
