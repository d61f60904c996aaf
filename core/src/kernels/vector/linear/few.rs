//! A few columns: each weight that is read meets all of them, three rows at a time.
//!
//! The inner dimension is cut into blocks, and in each block the columns are laid out 8 values of each in turn:
//! columns of the caller are often a multiple of 4 KiB apart, where lines of the caches displace each other. While a
//! block of weights is used, the next block of the same rows is fetched.

use core::marker::PhantomData;
use core::mem::MaybeUninit;

use super::super::super::linear::{FEW, Linear};
use super::super::super::split::Band;
use super::super::tile::{Ahead, Columns, Load, Strided, dot_of, fetching_tile, reduced};
use super::super::{Part, Vector};
use super::{Aligned, Fetch};

/// Rows of a tile, each a stream of weights.
const STREAMS: usize = 3;
/// Most tiles that use a block of columns one after the other, a multiple of 8.
const TILES: usize = 16;
/// Most values of a block of columns: half of the smallest first level of caches.
const PACKED: usize = 4096;

/// A block of all columns, as [`Columns::in_turn`]; only what is packed is ever read.
type Packed = MaybeUninit<Aligned<[f32; PACKED]>>;
/// The lanes of a group's rows, `[c][stream][tile]`; only those of the group are ever written and read.
type Waiting<V> = MaybeUninit<[[[V; TILES]; STREAMS]; FEW]>;

/// The outputs of all columns, 2 to [`FEW`].
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(super) unsafe fn columns<V: Vector, E: Load<V, Unit = u8>>(job: &Linear, band: &mut Band) {
    let mut packed = Packed::uninit();
    let mut waiting = Waiting::<V>::uninit();
    let (start, width) = (band.start(), band.width());
    let mut row = 0;
    while width - row >= STREAMS {
        let tiles = ((width - row) / STREAMS).min(TILES);
        let group = Group {
            job,
            first: start + row,
            tiles,
            count: band.height(),
        };
        // SAFETY: by the caller.
        unsafe {
            group.sum::<V, E>(&mut packed, &mut waiting);
            group.finish(band, row, &waiting);
        }
        row += STREAMS * tiles;
    }
    let stride = job.weights().stride();
    for row in row..width {
        let at = (start + row) * stride;
        let w = &job.weights().bytes()[at..at + stride];
        for c in 0..band.height() {
            // SAFETY: by the caller.
            let dot = unsafe { dot_of::<V, E>(w, job.inputs(c, 1)) };
            job.finish(job.bias(start + row), dot, &mut band.row(c)[row]);
        }
    }
}

/// `STREAMS * tiles` rows of weights. Tile `i` has rows `i`, `tiles + i` and so on.
struct Group<'a> {
    job: &'a Linear<'a>,
    /// First row of the weights.
    first: usize,
    tiles: usize,
    /// Number of columns.
    count: usize,
}

impl Group<'_> {
    /// The lanes of all rows and columns.
    ///
    /// # Safety
    /// The machine has the set.
    #[inline(always)]
    unsafe fn sum<V: Vector, E: Load<V, Unit = u8>>(&self, packed: &mut Packed, waiting: &mut Waiting<V>) {
        let (weights, n) = (self.job.weights(), self.count);
        let (cols, stride) = (weights.cols(), weights.stride());
        let rows = &weights.bytes()[self.first * stride..(self.first + STREAMS * self.tiles) * stride];
        let packed = packed.as_mut_ptr().cast::<f32>();
        let waiting = waiting.as_mut_ptr().cast::<V>();
        // Blocks of about one size: what one fetches for the next is just that.
        let most = PACKED / n / 32 * 32;
        let block = cols.div_ceil(cols.div_ceil(most).max(1)).next_multiple_of(32).max(32);
        // SAFETY: a block of all columns fits into `packed`, and is packed before it is used; the lanes of the group
        // fit into `waiting`, and are set before they are used. Rows and elements are in `rows` by the bounds of the
        // loops, and columns `c..c + C` exist by their conditions.
        unsafe {
            for row in 0..STREAMS * n {
                // As many as `finish` reads.
                for i in 0..self.tiles.next_multiple_of(8) {
                    waiting.add(row * TILES + i).write(V::zero());
                }
            }
            for k in (0..cols).step_by(block) {
                let len = block.min(cols - k);
                self.pack::<V>(k, len, packed);
                for i in 0..self.tiles {
                    let w = Strided {
                        start: rows.as_ptr().add(i * stride + k * E::UNITS),
                        stride: self.tiles * stride,
                    };
                    // Where these rows go on, or in the last block those of the next group.
                    let next = if k + len < cols {
                        w.start.wrapping_add(len * E::UNITS)
                    } else {
                        rows.as_ptr().wrapping_add(rows.len() + i * stride)
                    };
                    let mut c = 0;
                    while c < n {
                        let x = Columns::in_turn(packed.add(8 * c), n);
                        let lanes = waiting.add(c * STREAMS * TILES + i);
                        let far = Fetch::<V, E, STREAMS, false>::new(next, w.stride);
                        let near = Fetch::<V, E, STREAMS, true>::new(w.start.wrapping_add(stride), w.stride);
                        // The first tile fetches from memory, the second from the second level of caches.
                        c += match (c, n - c) {
                            (0, 4 | 7..) => sum::<V, E, 4>(w, x, len, lanes, far),
                            (0, 3 | 5..) => sum::<V, E, 3>(w, x, len, lanes, far),
                            (0, _) => sum::<V, E, 2>(w, x, len, lanes, far),
                            (_, 4..) => sum::<V, E, 4>(w, x, len, lanes, near),
                            (_, 3) => sum::<V, E, 3>(w, x, len, lanes, near),
                            _ => sum::<V, E, 2>(w, x, len, lanes, near),
                        };
                    }
                }
            }
        }
    }

    /// Packs elements `k..k + len` of all columns.
    ///
    /// # Safety
    /// `len` values of each column, rounded up to a multiple of 8, can be written at `to`; the machine has the set.
    #[inline(always)]
    unsafe fn pack<V: Vector>(&self, k: usize, len: usize, to: *mut f32) {
        let n = self.count;
        for c in 0..n {
            let x = &self.job.inputs(c, 1)[k..k + len];
            let eights = x.chunks_exact(8);
            let tail = eights.remainder();
            // SAFETY: by the caller.
            unsafe {
                for (i, eight) in eights.enumerate() {
                    V::load(eight.as_ptr()).store(to.add(8 * (i * n + c)));
                }
                for (i, value) in tail.iter().enumerate() {
                    to.add(8 * (len / 8 * n + c) + i).write(*value);
                }
            }
        }
    }

    /// Turns the lanes into outputs, from row `row` of the band on.
    ///
    /// # Safety
    /// [`Group::sum`] has set the lanes; the machine has the set.
    #[inline(always)]
    unsafe fn finish<V: Vector>(&self, band: &mut Band, row: usize, waiting: &Waiting<V>) {
        let waiting = waiting.as_ptr().cast::<V>();
        for stream in 0..STREAMS {
            for i in (0..self.tiles).step_by(8) {
                let rows = stream * self.tiles + i..stream * self.tiles + self.tiles.min(i + 8);
                let mut biases = [None; 8];
                for (bias, row) in biases.iter_mut().zip(rows.clone()) {
                    *bias = self.job.bias(self.first + row);
                }
                for c in 0..self.count {
                    // SAFETY: by the caller; lanes are set up to a multiple of 8.
                    let dots = unsafe {
                        let lanes = waiting.add((c * STREAMS + stream) * TILES + i).cast::<[V; 8]>();
                        reduced(lanes.read())
                    };
                    let y = &mut band.row(c)[row..][rows.clone()];
                    for ((y, dot), bias) in y.iter_mut().zip(dots).zip(biases) {
                        self.job.finish(bias, dot, y);
                    }
                }
            }
        }
    }
}

/// One row of each stream of elements `E`, and `C` columns.
struct Tile<V, E, A, const C: usize> {
    w: Strided<u8>,
    x: Columns,
    /// Elements of the block.
    len: usize,
    /// The lanes of the first column and stream.
    lanes: *mut V,
    ahead: A,
    kind: PhantomData<E>,
}

impl<V: Vector, E: Load<V, Unit = u8>, A: Ahead, const C: usize> Part for Tile<V, E, A, C> {
    /// Adds the products to the lanes, which are initialised.
    ///
    /// # Safety
    /// As for [`fetching_tile`].
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: by the caller.
        unsafe {
            let mut sums = [[V::zero(); STREAMS]; C];
            for c in 0..C {
                for r in 0..STREAMS {
                    sums[c][r] = self.lanes.add((c * STREAMS + r) * TILES).read();
                }
            }
            fetching_tile::<V, E, STREAMS, C>(self.w, self.x, self.len, &mut sums, self.ahead);
            for c in 0..C {
                for r in 0..STREAMS {
                    self.lanes.add((c * STREAMS + r) * TILES).write(sums[c][r]);
                }
            }
        }
    }
}

/// The products of a [`Tile`]; the number of its columns.
///
/// # Safety
/// As for the tile.
#[inline(always)]
unsafe fn sum<V: Vector, E: Load<V, Unit = u8>, const C: usize>(
    w: Strided<u8>,
    x: Columns,
    len: usize,
    lanes: *mut V,
    ahead: impl Ahead,
) -> usize {
    let tile = Tile::<V, E, _, C> {
        w,
        x,
        len,
        lanes,
        ahead,
        kind: PhantomData,
    };
    // SAFETY: by the caller.
    unsafe { V::alone(tile) };
    C
}
