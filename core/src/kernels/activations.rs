//! Activations of 8 bits, for linear maps whose weights lie in blocks.
//!
//! They are cut into groups and blocks as the weights are (see [`super::blocks`]), with a scale of f32 per block:
//! `scale = max |x| / 127`, and each level is `x * (127 / max |x|)` rounded to the nearest integer, ties to even; what
//! that costs is at [`super`]. A block whose largest value is below 2^-119 counts as zeros; one that holds an infinity
//! or a NaN has NaN for its scale, so that it cannot pass for numbers.

use super::blocks::{BLOCKS, GROUP, STEP};
use super::ring::{bytes, bytes_mut};

/// What sets whose instructions multiply unsigned with signed bytes add to levels of weights, once or twice.
pub(super) const OFFSET: i32 = 64;

/// Values of f32 in front of a group's levels: the scales of its blocks, then their corrections (i32): `-OFFSET` times
/// the sum of a block's levels, which makes up for [`OFFSET`] in the weights.
const FRONT: usize = 2 * BLOCKS;
/// The same in bytes.
pub(super) const FRONT_BYTES: usize = 4 * FRONT;
/// Bytes of the scales, and of the corrections.
pub(super) const PART: usize = 4 * BLOCKS;
/// Added to a value of at most 2^22 either way and so rounded to an integer, which is then in the lowest bits.
pub(super) const ROUNDING: f32 = 12_582_912.0;
/// Below this a reciprocal times 127 may be infinite: 2^-119.
const TINY: f32 = f32::from_bits((127 - 119) << 23);
/// Bits of infinity; those of NaNs are above.
const INFINITE: u32 = 0x7F80_0000;

/// Values of f32 whose memory holds `n` rows of `cols` activations as 8 bits, or `None` if that overflows: the scratch
/// that [`super::Ops::linear`] wants for weights in blocks.
pub const fn activations_len(n: usize, cols: usize) -> Option<usize> {
    // cols / 4 and cols / 16: far from an overflow.
    n.checked_mul(cols.div_ceil(GROUP) * FRONT + cols.div_ceil(STEP) * (STEP / 4))
}

/// Rows of activations as 8 bits: each `[groups]` of `{ scales [8], corrections [8], levels [width] }`.
#[derive(Clone, Copy)]
pub(super) struct Activations<'a> {
    bytes: &'a [u8],
    /// Bytes from one row to the next.
    stride: usize,
}

impl<'a> Activations<'a> {
    /// What [`quantise`] made of rows of `cols` activations.
    pub(super) fn new(values: &'a [f32], cols: usize) -> Self {
        Self {
            bytes: bytes(values),
            stride: 4 * activations_len(1, cols).unwrap_or(0),
        }
    }

    /// Bytes from one row to the next. Kernels for vectors want it, which not every target has.
    #[allow(dead_code)]
    #[inline(always)]
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Rows `first..first + count`; they exist, or this panics.
    #[inline(always)]
    pub(super) fn rows(&self, first: usize, count: usize) -> &'a [u8] {
        &self.bytes[first * self.stride..(first + count) * self.stride]
    }
}

/// Where in a row of activations group `index` begins.
#[inline(always)]
pub(super) const fn group_start(index: usize) -> usize {
    index * (FRONT_BYTES + GROUP)
}

/// The parts of a group: scales, corrections, and levels.
#[inline(always)]
pub(super) fn parts(group: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let (scales, rest) = group.split_at(PART);
    let (corrections, levels) = rest.split_at(PART);
    (scales, corrections, levels)
}

/// Quantises rows of `cols` activations, a multiple of [`STEP`], into `out`, [`activations_len`] long.
///
/// Everything is element by element, or exact, so it has equal bits however a compiler arranges it.
#[inline(always)]
pub(super) fn quantise(cols: usize, x: &[f32], out: &mut [f32]) {
    each_group(cols, x, out, quantise_group);
}

/// Calls `f` with each group of rows of `cols` activations and its memory in `out`.
#[inline(always)]
pub(super) fn each_group(cols: usize, x: &[f32], out: &mut [f32], f: impl Fn(&[f32], &mut [u8])) {
    let stride = activations_len(1, cols).unwrap_or(0);
    for (x, out) in x.chunks_exact(cols).zip(out.chunks_exact_mut(stride)) {
        let groups = bytes_mut(out).chunks_mut(FRONT_BYTES + GROUP);
        for (x, out) in x.chunks(GROUP).zip(groups) {
            f(x, out);
        }
    }
}

/// The size of a value, comparable as an integer: then NaN is the largest.
#[inline(always)]
pub(super) fn size_bits(x: f32) -> u32 {
    x.to_bits() & 0x7FFF_FFFF
}

/// The scale of a block whose largest value has these bits, and what values are multiplied by to become levels.
#[inline(always)]
pub(super) fn scale_and_inverse(size: u32) -> (f32, f32) {
    let largest = f32::from_bits(size);
    if size >= INFINITE {
        (f32::NAN, 0.0)
    } else if largest < TINY {
        (0.0, 0.0)
    } else {
        (largest / 127.0, 127.0 / largest)
    }
}

/// The level of a value.
#[inline(always)]
pub(super) fn level_of(x: f32, inverse: f32) -> i8 {
    (x * inverse + ROUNDING).to_bits() as i8
}

/// What [`quantise`] does with a group of at most [`GROUP`] columns, whose memory is `out`.
#[inline(always)]
fn quantise_group(x: &[f32], out: &mut [u8]) {
    let mut sizes = [0u32; STEP];
    for x in x.chunks_exact(STEP) {
        for (size, x) in sizes.iter_mut().zip(x) {
            *size = (*size).max(size_bits(*x));
        }
    }
    let (scales, inverses) = scales_and_inverses(&sizes);
    let (front, levels) = out.split_at_mut(FRONT_BYTES);
    let mut columns = [0i32; STEP];
    for (x, levels) in x.chunks_exact(STEP).zip(levels.chunks_exact_mut(STEP)) {
        for i in 0..STEP {
            let level = level_of(x[i], inverses[i]);
            levels[i] = level as u8;
            columns[i] += i32::from(level);
        }
    }
    let sums = core::array::from_fn(|l| columns[4 * l..4 * l + 4].iter().sum());
    write_front(&scales, &sums, front);
}

/// The scales of the blocks of a group, and the inverses of its columns, each of which has the largest [`size_bits`]
/// that any column has whose number is the same modulo [`STEP`].
#[inline(always)]
pub(super) fn scales_and_inverses(sizes: &[u32; STEP]) -> ([f32; BLOCKS], [f32; STEP]) {
    let (mut scales, mut inverses) = ([0.0f32; BLOCKS], [0.0f32; STEP]);
    for l in 0..BLOCKS {
        let size = sizes[4 * l..4 * l + 4].iter().fold(0, |a, &b| a.max(b));
        let (scale, inverse) = scale_and_inverse(size);
        scales[l] = scale;
        inverses[4 * l..4 * l + 4].fill(inverse);
    }
    (scales, inverses)
}

/// Writes what stands before the levels of a group: `sums` are those of the levels of its blocks.
#[inline(always)]
pub(super) fn write_front(scales: &[f32; BLOCKS], sums: &[i32; BLOCKS], front: &mut [u8]) {
    let (front, back) = front.split_at_mut(PART);
    for (to, scale) in front.chunks_exact_mut(4).zip(scales) {
        to.copy_from_slice(&scale.to_ne_bytes());
    }
    for (to, sum) in back.chunks_exact_mut(4).zip(sums) {
        to.copy_from_slice(&(-OFFSET * sum).to_ne_bytes());
    }
}
