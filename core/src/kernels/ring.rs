//! Keys and values as rings over absolute positions, in f32, in bfloat16 or in 8 bits.

use core::ops::Range;

use super::activations::{level_of, scale_and_inverse, size_bits};
use super::attention::Heads;
use super::ops::Ops;

/// How keys and values are stored. Their memory is f32 either way, so that a session needs one kind of buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CacheType {
    /// As they were computed.
    #[default]
    F32,
    /// Rounded to the nearest bfloat16, ties to even: half the memory, and half of what each query reads.
    Bf16,
    /// Levels of 8 bits with a scale for each position and head, made like those of activations: little more than a
    /// quarter of the memory.
    Q8,
}

impl CacheType {
    /// Values of f32 whose memory holds `rows` rows of `width` elements, or `None` if that overflows.
    pub(crate) fn floats(self, rows: usize, width: usize) -> Option<usize> {
        let count = rows.checked_mul(width)?;
        Some(match self {
            Self::F32 => count,
            Self::Bf16 => count.div_ceil(2),
            Self::Q8 => count.div_ceil(4).checked_add(rows)?,
        })
    }
}

impl CacheType {
    /// Bytes of one row of `width` elements, its scale besides.
    fn row_bytes(self, width: usize) -> (usize, usize) {
        match self {
            Self::F32 => (4 * width, 0),
            Self::Bf16 => (2 * width, 0),
            Self::Q8 => (width, 4),
        }
    }

    /// Bytes of `slots` slots of all heads, as [`CacheType::each_slots`] shows them.
    pub(crate) fn slots_bytes(self, heads: Heads, slots: usize) -> usize {
        let (elements, scale) = self.row_bytes(heads.head_dim);
        (elements + scale)
            .saturating_mul(heads.n_kv_heads)
            .saturating_mul(slots)
    }

    /// Calls `f` with the memory of runs of slots of every head, in keys or values of a [`Ring`]; the runs are within
    /// its `capacity`.
    pub(crate) fn each_slots(
        self,
        heads: Heads,
        capacity: usize,
        runs: &[Range<usize>],
        ring: &mut [f32],
        f: &mut dyn FnMut(&mut [u8]),
    ) {
        let ring = bytes_mut(ring);
        self.each_run(heads, capacity, runs, ring.len(), &mut |run| {
            f(ring.get_mut(run).unwrap_or_default());
        });
    }

    /// The same for the places of that memory among the `len` bytes of the keys or values, in rising order if the runs
    /// are.
    pub(crate) fn each_run(
        self,
        heads: Heads,
        capacity: usize,
        runs: &[Range<usize>],
        len: usize,
        f: &mut dyn FnMut(Range<usize>),
    ) {
        let (elements, scale) = self.row_bytes(heads.head_dim);
        let scales = len.saturating_sub(heads.n_kv_heads * capacity * scale);
        for (start, row) in [(0, elements), (scales, scale)] {
            if row > 0 {
                for head in 0..heads.n_kv_heads {
                    let first = head * capacity;
                    for run in runs {
                        f(start + (first + run.start) * row..start + (first + run.end) * row);
                    }
                }
            }
        }
    }
}

/// Keys and values of one layer as a ring over absolute positions.
///
/// Both are `[n_kv_heads][capacity][head_dim]`; position `p` is at slot `p % capacity`. Elements of bfloat16 lie two
/// to an f32, little-endian and without gaps, and the slices are rounded up to whole values. Levels of 8 bits lie four
/// to an f32, and behind all of them, from a whole value on, their scales: f32, `[n_kv_heads][capacity]`.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    /// Rotated keys.
    pub keys: &'a [f32],
    /// Values.
    pub values: &'a [f32],
    /// Positions that fit.
    pub capacity: usize,
    /// The first position that was ever stored: no query sees an earlier one.
    pub first: u64,
    /// How they are stored.
    pub cache: CacheType,
}

impl Ops<'_> {
    /// Writes `n` new positions, `first..first + n`, into keys or values of a [`Ring`]: `x` is
    /// `[n][n_kv_heads][head_dim]`, `ring` one of the ring's slices, `n` at most `capacity`.
    pub fn ring_store(&self, heads: Heads, cache: CacheType, capacity: usize, first: u64, x: &[f32], ring: &mut [f32]) {
        let width = heads.kv_width().filter(|&width| width > 0);
        debug_assert!(width.is_some(), "ring_store: no heads");
        let Some(width) = width else { return };
        let n = x.len() / width;
        require!(
            x.len() % width == 0 && n <= capacity && heads.ring_len(cache, capacity) == Some(ring.len()),
            "ring_store: shapes disagree"
        );
        match cache {
            CacheType::F32 => scatter::<_, 1>(heads, capacity, first, x, ring, |x| [x]),
            CacheType::Bf16 => scatter::<_, 2>(heads, capacity, first, x, bytes_mut(ring), |x| {
                half::bf16::from_f32(x).to_le_bytes()
            }),
            CacheType::Q8 => {
                let scales = heads.n_kv_heads * capacity;
                let (levels, scales) = ring.split_at_mut(ring.len() - scales);
                scatter_levels(heads, capacity, first, x, bytes_mut(levels), scales);
            }
        }
    }
}

/// Writes the elements of `x`, `UNITS` units each, to their slots.
fn scatter<U: Copy, const UNITS: usize>(
    heads: Heads,
    capacity: usize,
    first: u64,
    x: &[f32],
    ring: &mut [U],
    encode: impl Fn(f32) -> [U; UNITS],
) {
    let Heads {
        n_kv_heads, head_dim, ..
    } = heads;
    for (position, x) in (first..).zip(x.chunks_exact(n_kv_heads * head_dim)) {
        let slot = (position % capacity as u64) as usize;
        let slots = ring.chunks_exact_mut(UNITS * head_dim).skip(slot).step_by(capacity);
        for (slot, x) in slots.zip(x.chunks_exact(head_dim)) {
            for (units, &x) in slot.chunks_exact_mut(UNITS).zip(x) {
                units.copy_from_slice(&encode(x));
            }
        }
    }
}

/// Writes the elements of `x` to their slots as levels, and their scales.
fn scatter_levels(heads: Heads, capacity: usize, first: u64, x: &[f32], levels: &mut [u8], scales: &mut [f32]) {
    let Heads {
        n_kv_heads, head_dim, ..
    } = heads;
    for (position, x) in (first..).zip(x.chunks_exact(n_kv_heads * head_dim)) {
        let slot = (position % capacity as u64) as usize;
        let slots = levels.chunks_exact_mut(head_dim).zip(scales.iter_mut());
        for ((levels, scale), x) in slots.skip(slot).step_by(capacity).zip(x.chunks_exact(head_dim)) {
            let largest = x.iter().fold(0, |largest: u32, x| largest.max(size_bits(*x)));
            let inverse;
            (*scale, inverse) = scale_and_inverse(largest);
            for (level, x) in levels.iter_mut().zip(x) {
                *level = level_of(*x, inverse) as u8;
            }
        }
    }
}

/// Elements of keys or values, as kernels read them.
#[derive(Clone, Copy)]
pub(super) enum Stored<'a> {
    /// Elements of [`super::matrix::Native`].
    F32(&'a [f32]),
    /// Elements of [`super::matrix::Bf16`].
    Bf16(&'a [u8]),
    /// Elements of [`super::matrix::I8`], still to be scaled.
    I8(&'a [u8]),
}

impl<'a> Stored<'a> {
    /// Where element `index` would lie.
    #[inline(always)]
    fn address(&self, index: usize) -> *const u8 {
        match self {
            Self::F32(values) => values.as_ptr().wrapping_add(index).cast(),
            Self::Bf16(bytes) => bytes.as_ptr().wrapping_add(2 * index),
            Self::I8(bytes) => bytes.as_ptr().wrapping_add(index),
        }
    }

    /// Some of the elements; they exist, or this panics.
    #[inline(always)]
    pub(super) fn part(&self, elements: Range<usize>) -> Self {
        match self {
            Self::F32(values) => Self::F32(&values[elements]),
            Self::Bf16(bytes) => Self::Bf16(&bytes[2 * elements.start..2 * elements.end]),
            Self::I8(bytes) => Self::I8(&bytes[elements]),
        }
    }
}

/// Rows of keys or values, and what each is multiplied by.
#[derive(Clone, Copy)]
pub(super) struct Held<'a> {
    stored: Stored<'a>,
    width: usize,
    /// One for each row, or none if rows are as they are.
    scales: &'a [f32],
}

impl<'a> Held<'a> {
    /// What lies in one of the slices of a [`Ring`], `rows` rows of `width` elements.
    #[inline(always)]
    pub(super) fn new(cache: CacheType, values: &'a [f32], rows: usize, width: usize) -> Self {
        let (stored, scales) = match cache {
            CacheType::F32 => (Stored::F32(values), &[][..]),
            CacheType::Bf16 => (Stored::Bf16(bytes(values)), &[][..]),
            CacheType::Q8 => {
                let (levels, scales) = values.split_at(values.len() - rows);
                (Stored::I8(bytes(levels)), scales)
            }
        };
        Self { stored, width, scales }
    }

    /// Some of the rows; they exist, or this panics.
    #[inline(always)]
    pub(super) fn rows(&self, rows: Range<usize>) -> Self {
        Self {
            stored: self.stored.part(rows.start * self.width..rows.end * self.width),
            scales: if self.scales.is_empty() {
                &[]
            } else {
                &self.scales[rows]
            },
            ..*self
        }
    }

    /// Where row `row` would lie.
    #[inline(always)]
    pub(super) fn address(&self, row: usize) -> *const u8 {
        self.stored.address(row * self.width)
    }

    /// Their elements.
    #[inline(always)]
    pub(super) fn stored(&self) -> Stored<'a> {
        self.stored
    }

    /// What each row is multiplied by, if anything.
    #[inline(always)]
    pub(super) fn scales(&self) -> Option<&'a [f32]> {
        (!self.scales.is_empty()).then_some(self.scales)
    }
}

/// The memory of some values.
#[inline(always)]
pub(super) fn bytes(values: &[f32]) -> &[u8] {
    // SAFETY: the same memory, borrowed as long; f32 has no padding, and bytes have no alignment.
    unsafe { core::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The memory of some values, to be written.
pub(crate) fn bytes_mut(values: &mut [f32]) -> &mut [u8] {
    // SAFETY: as for `bytes`; whatever is written, any bits are an f32.
    unsafe { core::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}
