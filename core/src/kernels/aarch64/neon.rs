//! NEON, which every AArch64 has: two registers hold the 8 lanes of a dot product.
//!
//! Nothing beyond Armv8.0 is used, so a Cortex-A53 or A72 runs it; but for the second table, whose integer products
//! are those of the dot product extension.

// Arithmetic intrinsics without pointers became safe to call after the oldest supported compiler.
#![allow(unused_unsafe)]

use core::arch::aarch64::*;
use core::arch::asm;

use super::super::Class;
use super::super::attention::Scores;
use super::super::linear::Linear;
use super::super::math::{BIAS, MANTISSA, ROUND_BITS};
use super::super::ring::Stored;
use super::super::set::{Rows, Set, Table, table};
use super::super::split::Band;
use super::super::vector::{self, Part, Vector};

/// The kernels of this set.
pub(in super::super) static TABLE: Table = table!(Neon<false>, #[target_feature(enable = "neon")]);

/// The kernels with dot products of bytes.
pub(in super::super) static DOT_TABLE: Table = table!(Neon<true>, #[target_feature(enable = "neon,dotprod")]);

/// NEON, with or without the dot product extension.
struct Neon<const DOT: bool>;

impl<const DOT: bool> Set for Neon<DOT> {
    const NAME: &'static str = if DOT { "neon+dotprod" } else { "neon" };
    const CLASS: Class = Class::Fused;

    #[inline(always)]
    unsafe fn linear(job: &Linear, band: &mut Band) {
        // SAFETY: the caller vouches for the set.
        unsafe {
            if job.weights().storage().is_blocks() {
                vector::linear_blocks::<Lanes<DOT>>(job, band);
            } else {
                vector::linear::<Lanes<DOT>>(job, band);
            }
        }
    }

    #[inline(always)]
    unsafe fn quantise(cols: usize, x: &[f32], out: &mut [f32]) {
        // SAFETY: the caller vouches for the set.
        unsafe { vector::quantise::<Lanes<DOT>>(cols, x, out) }
    }

    #[inline(always)]
    unsafe fn dot(a: &[f32], b: &[f32]) -> f32 {
        // SAFETY: the caller vouches for the set.
        unsafe { vector::dot::<Lanes<DOT>>(a, b) }
    }

    #[inline(always)]
    unsafe fn scores(q: Rows, keys: Stored, ahead: *const u8, at: usize, scores: &mut [Scores]) {
        // Once for all the places that call it: there are many, and a block of keys is work enough for a call.
        #[target_feature(enable = "neon")]
        unsafe fn run(q: Rows, keys: Stored, ahead: *const u8, at: usize, scores: &mut [Scores]) {
            // SAFETY: the caller vouches for the set.
            unsafe { vector::scores::<Lanes<false>>(q, keys, ahead, at, scores) }
        }
        // SAFETY: the caller vouches for the set.
        unsafe { run(q, keys, ahead, at, scores) }
    }

    #[inline(always)]
    unsafe fn accumulate(p: &[Scores], at: usize, values: Stored, ahead: *const u8, y: &mut Band) {
        // As for `scores`.
        #[target_feature(enable = "neon")]
        unsafe fn run(p: &[Scores], at: usize, values: Stored, ahead: *const u8, y: &mut Band) {
            // SAFETY: the caller vouches for the set.
            unsafe { vector::accumulate::<Lanes<false>>(p, at, values, ahead, y) }
        }
        // SAFETY: the caller vouches for the set.
        unsafe { run(p, at, values, ahead, y) }
    }

    #[inline(always)]
    unsafe fn scale_and_max(scale: f32, max: f32, scores: &mut Scores) -> f32 {
        // SAFETY: the caller vouches for the set.
        unsafe { vector::scale_and_max::<Lanes<false>>(scale, max, scores) }
    }

    #[inline(always)]
    unsafe fn exp_and_sum(max: f32, scores: &mut Scores) -> f32 {
        // SAFETY: the caller vouches for the set.
        unsafe { vector::exp_and_sum::<Lanes<false>>(max, scores) }
    }

    #[inline(always)]
    unsafe fn silu_mul(gate: &mut [f32], up: &[f32]) {
        // SAFETY: the caller vouches for the set.
        unsafe { vector::silu_mul::<Lanes<false>>(gate, up) }
    }

    #[inline(always)]
    unsafe fn gelu(x: &mut [f32]) {
        // SAFETY: the caller vouches for the set.
        unsafe { vector::gelu::<Lanes<false>>(x) }
    }
}

/// The lower and the upper 4 lanes.
#[derive(Clone, Copy)]
pub(super) struct Lanes<const DOT: bool>(pub(super) float32x4_t, pub(super) float32x4_t);

impl<const DOT: bool> Vector for Lanes<DOT> {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: no memory is touched.
        unsafe { Self::splat(0.0) }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: no memory is touched.
        unsafe { Self(vdupq_n_f32(value), vdupq_n_f32(value)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: 8 values can be read.
        unsafe { Self(vld1q_f32(from), vld1q_f32(from.add(4))) }
    }

    #[inline(always)]
    unsafe fn load_f32(from: *const u8) -> Self {
        // SAFETY: 32 bytes can be read, as bytes, which have no alignment.
        unsafe {
            Self(
                vreinterpretq_f32_u8(vld1q_u8(from)),
                vreinterpretq_f32_u8(vld1q_u8(from.add(16))),
            )
        }
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const u8) -> Self {
        // SAFETY: 16 bytes can be read, as bytes, which have no alignment.
        unsafe {
            let halves = vreinterpretq_u16_u8(vld1q_u8(from));
            Self(
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_low_u16(halves))),
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_high_u16(halves))),
            )
        }
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const u8) -> Self {
        let (low, high): (float32x4_t, float32x4_t);
        // SAFETY: 16 bytes can be read, as bytes, which have no alignment. The instructions, of Armv8.0, convert
        // registers and nothing else; their intrinsics are not stable in the oldest supported compiler.
        unsafe {
            let halves = vld1q_u8(from);
            asm!(
                "fcvtl {low:v}.4s, {halves:v}.4h",
                "fcvtl2 {high:v}.4s, {halves:v}.8h",
                low = out(vreg) low,
                high = lateout(vreg) high,
                halves = in(vreg) halves,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        Self(low, high)
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const u8) -> Self {
        // SAFETY: 8 bytes can be read, as bytes, which have no alignment.
        unsafe {
            let wide = vmovl_s8(vld1_s8(from.cast()));
            Self(
                vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))),
                vcvtq_f32_s32(vmovl_high_s16(wide)),
            )
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: 8 values can be written.
        unsafe {
            vst1q_f32(to, self.0);
            vst1q_f32(to.add(4), self.1);
        }
    }

    #[inline(always)]
    unsafe fn mul_add(self, b: Self, acc: Self) -> Self {
        // SAFETY: no memory is touched.
        unsafe { Self(vfmaq_f32(acc.0, self.0, b.0), vfmaq_f32(acc.1, self.1, b.1)) }
    }

    #[inline(always)]
    unsafe fn alone(part: impl Part) {
        #[target_feature(enable = "neon")]
        #[inline(never)]
        unsafe fn run(part: impl Part) {
            // SAFETY: by the caller.
            unsafe { part.run() }
        }
        // SAFETY: by the caller.
        unsafe { run(part) }
    }

    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: no memory is touched.
        unsafe { Self(vaddq_f32(self.0, b.0), vaddq_f32(self.1, b.1)) }
    }

    #[inline(always)]
    unsafe fn sub(self, b: Self) -> Self {
        // SAFETY: no memory is touched.
        unsafe { Self(vsubq_f32(self.0, b.0), vsubq_f32(self.1, b.1)) }
    }

    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        // SAFETY: no memory is touched.
        unsafe { Self(vmulq_f32(self.0, b.0), vmulq_f32(self.1, b.1)) }
    }

    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        // SAFETY: no memory is touched.
        unsafe { Self(vdivq_f32(self.0, b.0), vdivq_f32(self.1, b.1)) }
    }

    #[inline(always)]
    unsafe fn abs(self) -> Self {
        // SAFETY: no memory is touched.
        unsafe { Self(vabsq_f32(self.0), vabsq_f32(self.1)) }
    }

    #[inline(always)]
    unsafe fn at_least(self, low: Self) -> Self {
        // SAFETY: no memory is touched.
        let choose = |x, low| unsafe { vbslq_f32(vcltq_f32(x, low), low, x) };
        Self(choose(self.0, low.0), choose(self.1, low.1))
    }

    #[inline(always)]
    unsafe fn at_most(self, high: Self) -> Self {
        // SAFETY: no memory is touched.
        let choose = |x, high| unsafe { vbslq_f32(vcgtq_f32(x, high), high, x) };
        Self(choose(self.0, high.0), choose(self.1, high.1))
    }

    #[inline(always)]
    unsafe fn if_negative(self, negative: Self, otherwise: Self) -> Self {
        // SAFETY: no memory is touched.
        let choose = |x, negative, otherwise| unsafe { vbslq_f32(vcltzq_f32(x), negative, otherwise) };
        Self(
            choose(self.0, negative.0, otherwise.0),
            choose(self.1, negative.1, otherwise.1),
        )
    }

    #[inline(always)]
    unsafe fn times_two_to(self, shifted: Self) -> Self {
        // SAFETY: no memory is touched.
        let times = |x, shifted| unsafe {
            let bias = vdupq_n_s32(BIAS);
            let two_to = |n| vreinterpretq_f32_s32(vshlq_n_s32::<MANTISSA>(vaddq_s32(n, bias)));
            let n = vsubq_s32(vreinterpretq_s32_f32(shifted), vdupq_n_s32(ROUND_BITS));
            let half = vshrq_n_s32::<1>(n);
            vmulq_f32(vmulq_f32(x, two_to(half)), two_to(vsubq_s32(n, half)))
        };
        Self(times(self.0, shifted.0), times(self.1, shifted.1))
    }

    #[inline(always)]
    unsafe fn reduce(lanes: [Self; 8]) -> Self {
        // SAFETY: no memory is touched.
        unsafe {
            // l0 + l4, l1 + l5, l2 + l6, l3 + l7 of each.
            let [a, b, c, d, e, f, g, h] = lanes.map(|lanes| vaddq_f32(lanes.0, lanes.1));
            // Their outer sums, those of `x` in the lower and those of `y` in the upper pair.
            let quarters = |x, y| {
                let (x, y) = (vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y));
                vaddq_f32(
                    vreinterpretq_f32_f64(vzip1q_f64(x, y)),
                    vreinterpretq_f32_f64(vzip2q_f64(x, y)),
                )
            };
            Self(
                vpaddq_f32(quarters(a, b), quarters(c, d)),
                vpaddq_f32(quarters(e, f), quarters(g, h)),
            )
        }
    }
}
