//! Kernels in terms of a vector of 8 lanes, generic over the instruction set that has it.
//!
//! A tile of `R` rows and `C` columns keeps `R * C` sums in registers. Everything is always inlined into functions
//! that are compiled for the set; see [`super::set::table`].

// One index runs over several arrays of registers at once.
#![allow(clippy::needless_range_loop)]

mod attention;
mod blocks;
mod elements;
mod linear;
mod quantise;
mod tile;

pub(super) use attention::{accumulate, scores};
pub(super) use blocks::{Integers, Products, linear as linear_blocks};
pub(super) use elements::{exp_and_sum, gelu, scale_and_max, silu_mul};
pub(super) use linear::linear;
pub(super) use quantise::quantise;
pub(super) use tile::dot;

/// See [`Vector::alone`].
///
/// # Safety
/// The machine has the set that it is compiled for; the rest is said by each.
pub(super) trait Part {
    unsafe fn run(self);
}

/// A vector of 8 lanes, those of a dot product, in one or several registers.
///
/// # Safety
/// Every method needs a machine that has the set, besides what it says itself.
pub(super) trait Vector: Copy {
    /// All lanes +0.
    unsafe fn zero() -> Self;
    /// All lanes `value`.
    unsafe fn splat(value: f32) -> Self;
    /// 8 values. They can be read at `from`.
    unsafe fn load(from: *const f32) -> Self;
    /// 8 values in 32 bytes of any alignment, little-endian. They can be read at `from`.
    unsafe fn load_f32(from: *const u8) -> Self;
    /// 8 bfloat16 in 16 bytes of any alignment, little-endian. They can be read at `from`.
    unsafe fn load_bf16(from: *const u8) -> Self;
    /// 8 half precision numbers in 16 bytes of any alignment, little-endian. They can be read at `from`.
    unsafe fn load_f16(from: *const u8) -> Self;
    /// Begins to bring the memory at `from` near to the processor (into the first level of caches), or does nothing.
    /// Any address will do.
    #[inline(always)]
    fn fetch(_from: *const u8) {}
    /// [`Vector::fetch`] for memory that is needed later (into the second level).
    #[inline(always)]
    fn fetch_early(_from: *const u8) {}
    /// 8 signed bytes. They can be read at `from`.
    unsafe fn load_i8(from: *const u8) -> Self;
    /// Writes 8 values. They can be written at `to`.
    unsafe fn store(self, to: *mut f32);
    /// `self * b + acc` of every lane, rounded once.
    unsafe fn mul_add(self, b: Self, acc: Self) -> Self;
    /// Runs `part` in a function of its own that is compiled for the set. What is inlined into a large function shares
    /// its registers with all of it, and the compiler may join parts that are alike and keep their sums in memory.
    unsafe fn alone(part: impl Part);
    /// `self + b`.
    unsafe fn add(self, b: Self) -> Self;
    /// `self - b`.
    unsafe fn sub(self, b: Self) -> Self;
    /// `self * b`.
    unsafe fn mul(self, b: Self) -> Self;
    /// `self / b`.
    unsafe fn div(self, b: Self) -> Self;
    /// Without the sign.
    unsafe fn abs(self) -> Self;
    /// `low` where it is more; a NaN stays.
    unsafe fn at_least(self, low: Self) -> Self;
    /// `high` where it is less; a NaN stays.
    unsafe fn at_most(self, high: Self) -> Self;
    /// `negative` where this is below 0, else `otherwise`.
    unsafe fn if_negative(self, negative: Self, otherwise: Self) -> Self;
    /// [`Number::times_two_to`](super::math::Number::times_two_to).
    unsafe fn times_two_to(self, shifted: Self) -> Self;
    /// The canonical tree over the lanes of each: `((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7))`.
    unsafe fn reduce(lanes: [Self; 8]) -> Self;
}
