//! Weights of 8 and 4 bits in blocks with a scale each.
//!
//! # Layout
//!
//! The columns of a row are cut into groups of 256; the last group may be narrower, a multiple of 32. A group has 8
//! blocks. Block `l` holds the columns whose number `k` has `(k / 4) % 8 == l`: of every 32 columns 4 neighbours, so
//! 32 of a whole group. In memory a group is
//!
//! ```text
//! 8 scales, one per block, IEEE half precision, little-endian        16 bytes
//! the levels of the columns in their order                           Q8: one byte each, Q4: half a byte each
//! ```
//!
//! and groups and rows follow each other without gaps. A level of Q8 is an i8, and its value `scale * level`. A level
//! of Q4 is an index into [`LEVELS`], and its value `scale * LEVELS[index]`. Of every 64 columns 32 bytes hold column
//! `i` in the lower and column `32 + i` in the upper half of byte `i`; where 32 columns remain, 16 bytes hold columns
//! `i` and `16 + i`. Every value is an f32 exactly (a scale has 11 bits, a level at most 8).
//!
//! Why blocks are not 32 neighbours: a vector register holds 4 neighbours of each of the 8 blocks, which is what one
//! instruction for integer products adds up on every set. So 8 sums, one per block, grow side by side along a whole
//! group without moving between lanes; they meet their 8 scales, which lie side by side as well, once per group; and
//! the order of columns in memory is their own, so that neither activations nor rows of embeddings need sorting.
//! Armv8.6's matrix products (i8mm) are not used for that reason: each of their sums runs over 8 neighbours, hence over
//! two blocks with scales of their own.

use super::matrix::{Element, F16};

/// Columns of a whole group.
pub(super) const GROUP: usize = 256;
/// Blocks of a group: the lanes of a dot product.
pub(super) const BLOCKS: usize = 8;
/// Columns that give 4 to each block: the width of a row is a multiple of it.
pub(super) const STEP: usize = 32;
/// Bytes of the scales of a group.
pub(super) const SCALES: usize = 2 * BLOCKS;

/// The levels of Q4: where the mean squared error is least for blocks of 32 values, three of four normally distributed
/// and one Laplace, when each block has its best scale (of either sign); rounded to 7 bits, so that the sum of two
/// products with activations of 8 bits fits 16 bits even after 64 is added to each level.
pub(super) const LEVELS: [i8; 16] = [-63, -50, -38, -30, -22, -15, -10, -4, 1, 7, 13, 19, 26, 35, 45, 62];

/// Bytes of a row of `cols` columns with levels of `bits` bits, or `None` if no row has so many columns.
pub(super) const fn row_bytes(cols: usize, bits: usize) -> Option<usize> {
    if cols % STEP != 0 {
        return None;
    }
    // `cols / 8` for each bit, which cannot overflow for 8 bits.
    let levels = cols / 8 * bits;
    levels.checked_add(cols.div_ceil(GROUP) * SCALES)
}

/// How the levels of a group lie in memory.
pub(super) trait Levels {
    /// Bits of one level.
    const BITS: usize;
    /// The levels of `out.len()` columns, at most 32, from column `32 * step` of a group of `width` columns.
    fn read(bytes: &[u8], width: usize, step: usize, out: &mut [i8; STEP]);
    /// Writes the level of a column; `level` is an i8 for Q8 and an index for Q4. The bytes were zero before.
    fn write(bytes: &mut [u8], width: usize, column: usize, level: u8);
}

/// [`super::Storage::Q8`].
pub(super) struct Q8;
/// [`super::Storage::Q4`].
pub(super) struct Q4;

impl Levels for Q8 {
    const BITS: usize = 8;

    #[inline(always)]
    fn read(bytes: &[u8], _width: usize, step: usize, out: &mut [i8; STEP]) {
        for (out, byte) in out.iter_mut().zip(&bytes[step * STEP..(step + 1) * STEP]) {
            *out = *byte as i8;
        }
    }

    fn write(bytes: &mut [u8], _width: usize, column: usize, level: u8) {
        bytes[column] = level;
    }
}

impl Levels for Q4 {
    const BITS: usize = 4;

    #[inline(always)]
    fn read(bytes: &[u8], width: usize, step: usize, out: &mut [i8; STEP]) {
        if (step | 1) * STEP < width {
            let pair = &bytes[step / 2 * STEP..(step / 2 + 1) * STEP];
            let shift = step % 2 * 4;
            for (out, byte) in out.iter_mut().zip(pair) {
                *out = LEVELS[usize::from(byte >> shift & 15)];
            }
        } else {
            let half = &bytes[step / 2 * STEP..][..STEP / 2];
            let (low, high) = out.split_at_mut(STEP / 2);
            for ((low, high), byte) in low.iter_mut().zip(high).zip(half) {
                *low = LEVELS[usize::from(byte & 15)];
                *high = LEVELS[usize::from(byte >> 4)];
            }
        }
    }

    fn write(bytes: &mut [u8], width: usize, column: usize, level: u8) {
        let (pair, within) = (column / (2 * STEP), column % (2 * STEP));
        // Columns of a pair: the last one is only half as wide if the group ends there.
        let half = (width - pair * 2 * STEP).min(2 * STEP) / 2;
        let shift = if within < half { 0 } else { 4 };
        bytes[pair * STEP + within % half] |= level << shift;
    }
}

/// The groups of a row: the scales' bytes, the levels' bytes and the number of columns of each.
#[inline(always)]
pub(super) fn groups<L: Levels>(row: &[u8], cols: usize) -> impl Iterator<Item = (&[u8], &[u8], usize)> {
    let whole = SCALES + GROUP * L::BITS / 8;
    row.chunks(whole).enumerate().map(move |(g, bytes)| {
        let (scales, levels) = bytes.split_at(SCALES);
        (scales, levels, (cols - g * GROUP).min(GROUP))
    })
}

/// The scale of a block.
#[inline(always)]
pub(super) fn scale(scales: &[u8], block: usize) -> f32 {
    F16::read(&scales[2 * block..])
}

/// Calls `f` with each item of `out` and the column of `row` of the same number.
#[inline(always)]
pub(super) fn for_each<L: Levels>(row: &[u8], out: &mut [f32], f: impl Fn(&mut f32, f32)) {
    let cols = out.len();
    for ((scales, bytes, width), out) in groups::<L>(row, cols).zip(out.chunks_mut(GROUP)) {
        let scales: [f32; BLOCKS] = core::array::from_fn(|l| scale(scales, l));
        let mut levels = [0; STEP];
        for (step, out) in out.chunks_exact_mut(STEP).enumerate() {
            L::read(bytes, width, step, &mut levels);
            for (i, (out, level)) in out.iter_mut().zip(levels).enumerate() {
                f(out, scales[i / 4] * f32::from(level));
            }
        }
    }
}

/// Column `col` of a row of `cols`.
pub(super) fn value<L: Levels>(row: &[u8], cols: usize, col: usize) -> f32 {
    let mut levels = [0; STEP];
    match groups::<L>(row, cols).nth(col / GROUP) {
        Some((scales, bytes, width)) => {
            let (step, i) = (col % GROUP / STEP, col % STEP);
            L::read(bytes, width, step, &mut levels);
            scale(scales, i / 4) * f32::from(levels[i])
        }
        None => 0.0,
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use super::*;

    fn levels_come_back<L: Levels>(values: impl Fn(u8) -> i8) {
        for width in (STEP..=GROUP).step_by(STEP) {
            let mut bytes = vec![0; width * L::BITS / 8];
            let level = |column: usize| (column * 7 + column / 16) as u8 & (0xFF >> (8 - L::BITS));
            for column in 0..width {
                L::write(&mut bytes, width, column, level(column));
            }
            let mut read = Vec::new();
            for step in 0..width / STEP {
                let mut out = [0; STEP];
                L::read(&bytes, width, step, &mut out);
                read.extend(out);
            }
            assert!(read.iter().enumerate().all(|(i, &v)| v == values(level(i))), "{width}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        levels_come_back::<Q8>(|level| level as i8);
        levels_come_back::<Q4>(|level| LEVELS[usize::from(level)]);
    }

    #[test]
    fn rows_have_the_bytes_of_their_groups() {
        for bits in [4, 8] {
            assert_eq!(row_bytes(0, bits), Some(0));
            assert_eq!(row_bytes(32, bits), Some(16 + 4 * bits));
            assert_eq!(row_bytes(256, bits), Some(16 + 32 * bits));
            assert_eq!(row_bytes(288, bits), Some(32 + 36 * bits));
            assert_eq!(row_bytes(33, bits), None);
            assert_eq!(row_bytes(usize::MAX, bits), None);
        }
        assert_eq!(row_bytes(usize::MAX - 31, 8), None, "too many bytes");
    }
}
