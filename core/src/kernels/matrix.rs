//! Views of weights in place, and how each storage is decoded.

use core::ops::Range;

use super::blocks;

/// How the elements of a matrix are stored, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// bfloat16, 2 bytes.
    Bf16,
    /// IEEE half precision, 2 bytes.
    F16,
    /// IEEE single precision, 4 bytes.
    F32,
    /// 8 bits, in blocks of at most 32 with a scale of half precision each: 8.5 bits per weight where rows are
    /// multiples of 256. Rows are multiples of 32.
    Q8,
    /// 4 bits, an index into a table of levels, in such blocks: 4.5 bits per weight where rows are multiples of 256.
    /// Rows are multiples of 32.
    Q4,
}

impl Storage {
    /// Bytes of a row of `cols` elements, or `None` if no row can have so many.
    pub const fn row_bytes(self, cols: usize) -> Option<usize> {
        match self {
            Storage::Bf16 | Storage::F16 => cols.checked_mul(2),
            Storage::F32 => cols.checked_mul(4),
            Storage::Q8 => blocks::row_bytes(cols, 8),
            Storage::Q4 => blocks::row_bytes(cols, 4),
        }
    }

    /// Whether elements share scales in blocks. Linear maps then take activations of 8 bits (see [`super`]).
    pub const fn is_blocks(self) -> bool {
        matches!(self, Storage::Q8 | Storage::Q4)
    }
}

/// Calls a generic function for what a storage consists of: elements of their own, or blocks of levels.
/// `with_storage!(storage, E => f::<E>(x), L => g::<L>(x))`. Without the second part nothing is done for blocks.
macro_rules! with_storage {
    ($storage:expr, $element:ident => $call:expr) => {
        $crate::kernels::matrix::with_storage!($storage, $element => $call, _Levels => ())
    };
    ($storage:expr, $element:ident => $call:expr, $levels:ident => $blocks:expr) => {
        match $storage {
            $crate::kernels::Storage::Bf16 => {
                type $element = $crate::kernels::matrix::Bf16;
                $call
            }
            $crate::kernels::Storage::F16 => {
                type $element = $crate::kernels::matrix::F16;
                $call
            }
            $crate::kernels::Storage::F32 => {
                type $element = $crate::kernels::matrix::F32;
                $call
            }
            $crate::kernels::Storage::Q8 => {
                type $levels = $crate::kernels::blocks::Q8;
                $blocks
            }
            $crate::kernels::Storage::Q4 => {
                type $levels = $crate::kernels::blocks::Q4;
                $blocks
            }
        }
    };
}
pub(super) use with_storage;

/// Calls a generic function for the levels of a storage in blocks, and nothing for others.
#[allow(unused_macros)]
macro_rules! with_levels {
    ($storage:expr, $levels:ident => $call:expr) => {
        match $storage {
            $crate::kernels::Storage::Q8 => {
                type $levels = $crate::kernels::blocks::Q8;
                $call
            }
            $crate::kernels::Storage::Q4 => {
                type $levels = $crate::kernels::blocks::Q4;
                $call
            }
            _ => {}
        }
    };
}
#[allow(unused_imports)]
pub(super) use with_levels;

/// A way to read f32 values out of a slice: `UNITS` units of the slice make one value. Every decoding is exact.
pub(super) trait Element {
    /// What the slice consists of: bytes for weights, f32 for activations.
    type Unit: Copy;
    /// Units of one element.
    const UNITS: usize;
    /// The element that begins at `units[0]`.
    fn read(units: &[Self::Unit]) -> f32;
    /// The 8 elements that begin at `units[0]`.
    #[inline(always)]
    fn read8(units: &[Self::Unit]) -> [f32; 8] {
        core::array::from_fn(|i| Self::read(&units[i * Self::UNITS..]))
    }
}

/// bfloat16 in little-endian bytes: the upper half of an f32.
pub(super) struct Bf16;
/// IEEE half precision in little-endian bytes.
pub(super) struct F16;
/// IEEE single precision in little-endian bytes.
pub(super) struct F32;
/// Integers of 8 bits.
pub(super) struct I8;
/// f32 values as they are.
pub(super) struct Native;

impl Element for Bf16 {
    type Unit = u8;
    const UNITS: usize = 2;
    #[inline(always)]
    fn read(units: &[u8]) -> f32 {
        f32::from_bits(u32::from(u16::from_le_bytes([units[0], units[1]])) << 16)
    }
}

impl Element for F16 {
    type Unit = u8;
    const UNITS: usize = 2;
    #[inline(always)]
    fn read(units: &[u8]) -> f32 {
        // Without branches, so that a loop becomes vectors. As an f32 the bits are 2^112 too small, subnormals too.
        let bits = u32::from(u16::from_le_bytes([units[0], units[1]]));
        let size = f32::from_bits((bits & 0x7FFF) << 13) * f32::from_bits((127 + 112) << 23);
        // Infinities and NaNs come out as 2^16 and more, and want the largest exponent.
        let special = if size >= 65_536.0 { 0xFF << 23 } else { 0 };
        f32::from_bits(size.to_bits() | special | (bits & 0x8000) << 16)
    }
}

impl Element for F32 {
    type Unit = u8;
    const UNITS: usize = 4;
    #[inline(always)]
    fn read(units: &[u8]) -> f32 {
        // As a whole, because a compiler that sees four single bytes here combines them one by one.
        f32::from_le_bytes(*units.first_chunk().unwrap_or(&[0; 4]))
    }
}

impl Element for I8 {
    type Unit = u8;
    const UNITS: usize = 1;
    #[inline(always)]
    fn read(units: &[u8]) -> f32 {
        f32::from(units[0] as i8)
    }
}

impl Element for Native {
    type Unit = f32;
    const UNITS: usize = 1;
    #[inline(always)]
    fn read(units: &[f32]) -> f32 {
        units[0]
    }
}

/// A row-major matrix of weights over borrowed bytes of any alignment.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    bytes: &'a [u8],
    rows: usize,
    cols: usize,
    /// Bytes from one row to the next.
    stride: usize,
    storage: Storage,
}

impl<'a> Matrix<'a> {
    /// A view of `rows` rows of `cols` elements, or `None` if `bytes` has another length or `storage` no such rows.
    pub fn new(bytes: &'a [u8], rows: usize, cols: usize, storage: Storage) -> Option<Self> {
        let stride = storage.row_bytes(cols)?;
        let wanted = rows.checked_mul(stride)?;
        (bytes.len() == wanted).then_some(Self {
            bytes,
            rows,
            cols,
            stride,
            storage,
        })
    }
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }
    /// The storage of its elements.
    pub fn storage(&self) -> Storage {
        self.storage
    }
    /// Its bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes from one row to the next.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Row `index` as a matrix of one row, or `None` past the end.
    pub fn row(&self, index: usize) -> Option<Matrix<'a>> {
        if index >= self.rows {
            return None;
        }
        let bytes = self.bytes.get(index * self.stride..(index + 1) * self.stride)?;
        Some(Self {
            bytes,
            rows: 1,
            ..*self
        })
    }

    /// Some of the rows, or `None` if they do not all exist.
    pub(super) fn part(&self, rows: Range<usize>) -> Option<Matrix<'a>> {
        let bytes = self
            .bytes
            .get(rows.start.checked_mul(self.stride())?..rows.end.checked_mul(self.stride())?)?;
        Some(Self {
            bytes,
            rows: rows.len(),
            ..*self
        })
    }

    /// Row `index` as f32, into `out` (`[cols]`).
    pub fn widen_row(&self, index: usize, out: &mut [f32]) {
        require!(
            index < self.rows && out.len() == self.cols,
            "widen_row: shapes disagree"
        );
        if let Some(row) = self.row(index) {
            row.for_each(out, |out, w| *out = w);
        }
    }

    /// Element `index` counted through all rows; 0 past the end.
    pub(super) fn element(&self, index: usize) -> f32 {
        let Some(row) = index.checked_div(self.cols).and_then(|row| self.row(row)) else {
            return 0.0;
        };
        let col = index % self.cols;
        with_storage!(self.storage, E => E::read(&row.bytes[col * E::UNITS..]), L => blocks::value::<L>(row.bytes, self.cols, col))
    }

    /// Calls `f` with every item of `out` (`[cols]`) and the element of the same index of the only row.
    #[inline(always)]
    pub(super) fn for_each(&self, out: &mut [f32], f: impl Fn(&mut f32, f32)) {
        with_storage!(self.storage, E => {
            for (out, units) in out.iter_mut().zip(self.bytes.chunks_exact(E::UNITS)) {
                f(out, E::read(units));
            }
        }, L => blocks::for_each::<L>(self.bytes, out, f));
    }
}

#[cfg(test)]
mod tests {
    use super::{Element, F16};

    #[test]
    fn every_f16_is_that_of_the_half_crate() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (F16::read(&bits.to_le_bytes()), half::f16::from_bits(bits).to_f32());
            let same = ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan();
            assert!(same, "{bits:04x}: {ours} is not {theirs}");
        }
    }
}
