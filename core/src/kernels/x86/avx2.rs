//! AVX2 with FMA and F16C: one register holds the 8 lanes of a dot product.

// Arithmetic intrinsics without pointers became safe to call after the oldest supported compiler.
#![allow(unused_unsafe)]

use core::arch::x86_64::*;

use super::super::Class;
use super::super::attention::Scores;
use super::super::linear::Linear;
use super::super::math::{BIAS, MANTISSA, ROUND_BITS};
use super::super::ring::Stored;
use super::super::set::{Rows, Set, Table, table};
use super::super::split::Band;
use super::super::vector::{self, Part, Vector};

/// The kernels of this set.
pub(in super::super) static TABLE: Table = table!(Avx2Fma, #[target_feature(enable = "avx2,fma,f16c")]);

/// The same with AVX-VNNI's products of bytes for weights in blocks.
pub(in super::super) static VNNI_TABLE: Table = Table {
    name: "avx2+fma+vnni",
    linear: linear_vnni,
    ..TABLE
};

/// # Safety
/// The machine has the set, and AVX-VNNI.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn linear_vnni(job: &Linear, band: &mut Band) {
    // SAFETY: by the caller.
    unsafe {
        if job.weights().storage().is_blocks() {
            vector::linear_blocks::<Lanes<true>>(job, band);
        } else {
            (TABLE.linear)(job, band);
        }
    }
}

struct Avx2Fma;

// SAFETY comments below: "the set" is AVX2, FMA and F16C, which callers vouch for.
impl Set for Avx2Fma {
    const NAME: &'static str = "avx2+fma";
    const CLASS: Class = Class::Fused;

    #[inline(always)]
    unsafe fn linear(job: &Linear, band: &mut Band) {
        // SAFETY: the caller vouches for the set.
        unsafe {
            if job.weights().storage().is_blocks() {
                vector::linear_blocks::<Lanes<false>>(job, band);
            } else {
                vector::linear::<Lanes<false>>(job, band);
            }
        }
    }

    #[inline(always)]
    unsafe fn quantise(cols: usize, x: &[f32], out: &mut [f32]) {
        // SAFETY: the caller vouches for the set.
        unsafe { vector::quantise::<Lanes<false>>(cols, x, out) }
    }

    #[inline(always)]
    unsafe fn dot(a: &[f32], b: &[f32]) -> f32 {
        // SAFETY: the caller vouches for the set.
        unsafe { vector::dot::<Lanes<false>>(a, b) }
    }

    #[inline(always)]
    unsafe fn scores(q: Rows, keys: Stored, ahead: *const u8, at: usize, scores: &mut [Scores]) {
        // Once for all the places that call it: there are many, and a block of keys is work enough for a call.
        #[target_feature(enable = "avx2,fma,f16c")]
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
        #[target_feature(enable = "avx2,fma,f16c")]
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

/// Eight lanes; with AVX-VNNI's products of bytes or without.
#[derive(Clone, Copy)]
pub(super) struct Lanes<const VNNI: bool>(pub(super) __m256);

impl<const VNNI: bool> Vector for Lanes<VNNI> {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: no memory is touched.
        Self(unsafe { _mm256_setzero_ps() })
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: no memory is touched.
        Self(unsafe { _mm256_set1_ps(value) })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: 8 values can be read; the load is unaligned.
        Self(unsafe { _mm256_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn load_f32(from: *const u8) -> Self {
        // SAFETY: 32 bytes can be read; the load is unaligned.
        Self(unsafe { _mm256_loadu_ps(from.cast()) })
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const u8) -> Self {
        // SAFETY: 16 bytes can be read; the load is unaligned.
        unsafe {
            // The load puts all 8 into both halves of a register. One shuffle takes 4 of them in each half and widens
            // them; widening and shifting would be two operations.
            let both = _mm256_broadcastsi128_si256(_mm_loadu_si128(from.cast()));
            let upper_halves = _mm256_setr_epi8(
                -1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7, //
                -1, -1, 8, 9, -1, -1, 10, 11, -1, -1, 12, 13, -1, -1, 14, 15,
            );
            Self(_mm256_castsi256_ps(_mm256_shuffle_epi8(both, upper_halves)))
        }
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const u8) -> Self {
        // SAFETY: 16 bytes can be read; the load is unaligned.
        Self(unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) })
    }

    #[inline(always)]
    fn fetch(from: *const u8) {
        // SAFETY: a hint, which every x86-64 has, and which cannot fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }

    #[inline(always)]
    fn fetch_early(from: *const u8) {
        // SAFETY: a hint, which every x86-64 has, and which cannot fault.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const u8) -> Self {
        // SAFETY: 8 bytes can be read; the load is unaligned.
        unsafe {
            let wide = _mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast()));
            Self(_mm256_cvtepi32_ps(wide))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: 8 values can be written; the store is unaligned.
        unsafe { _mm256_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, b: Self, acc: Self) -> Self {
        // SAFETY: no memory is touched.
        Self(unsafe { _mm256_fmadd_ps(self.0, b.0, acc.0) })
    }

    #[inline(always)]
    unsafe fn alone(part: impl Part) {
        #[target_feature(enable = "avx2,fma,f16c")]
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
        Self(unsafe { _mm256_add_ps(self.0, b.0) })
    }

    #[inline(always)]
    unsafe fn sub(self, b: Self) -> Self {
        // SAFETY: no memory is touched.
        Self(unsafe { _mm256_sub_ps(self.0, b.0) })
    }

    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        // SAFETY: no memory is touched.
        Self(unsafe { _mm256_mul_ps(self.0, b.0) })
    }

    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        // SAFETY: no memory is touched.
        Self(unsafe { _mm256_div_ps(self.0, b.0) })
    }

    #[inline(always)]
    unsafe fn abs(self) -> Self {
        // SAFETY: no memory is touched.
        Self(unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0) })
    }

    // Of a NaN and another, these choose the second.
    #[inline(always)]
    unsafe fn at_least(self, low: Self) -> Self {
        // SAFETY: no memory is touched.
        Self(unsafe { _mm256_max_ps(low.0, self.0) })
    }

    #[inline(always)]
    unsafe fn at_most(self, high: Self) -> Self {
        // SAFETY: no memory is touched.
        Self(unsafe { _mm256_min_ps(high.0, self.0) })
    }

    #[inline(always)]
    unsafe fn if_negative(self, negative: Self, otherwise: Self) -> Self {
        // SAFETY: no memory is touched.
        unsafe {
            let below = _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, _mm256_setzero_ps());
            Self(_mm256_blendv_ps(otherwise.0, negative.0, below))
        }
    }

    #[inline(always)]
    unsafe fn times_two_to(self, shifted: Self) -> Self {
        // SAFETY: no memory is touched.
        unsafe {
            let bias = _mm256_set1_epi32(BIAS);
            let two_to = |n| _mm256_castsi256_ps(_mm256_slli_epi32::<MANTISSA>(_mm256_add_epi32(n, bias)));
            let n = _mm256_sub_epi32(_mm256_castps_si256(shifted.0), _mm256_set1_epi32(ROUND_BITS));
            let half = _mm256_srai_epi32::<1>(n);
            let product = _mm256_mul_ps(self.0, two_to(half));
            Self(_mm256_mul_ps(product, two_to(_mm256_sub_epi32(n, half))))
        }
    }

    #[inline(always)]
    unsafe fn reduce(lanes: [Self; 8]) -> Self {
        let [a, b, c, d, e, f, g, h] = lanes.map(|lanes| lanes.0);
        // SAFETY: no memory is touched.
        unsafe {
            // l0 + l4, l1 + l5, l2 + l6, l3 + l7 of the one and of the other.
            let halves = |a, b| {
                _mm256_add_ps(
                    _mm256_permute2f128_ps::<0x20>(a, b),
                    _mm256_permute2f128_ps::<0x31>(a, b),
                )
            };
            // Their outer sums, those of `x` in the lower and those of `y` in the upper pairs.
            let quarters = |x, y| {
                let (x, y) = (_mm256_castps_pd(x), _mm256_castps_pd(y));
                _mm256_add_ps(
                    _mm256_castpd_ps(_mm256_unpacklo_pd(x, y)),
                    _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)),
                )
            };
            let x = quarters(halves(a, e), halves(b, f));
            let y = quarters(halves(c, g), halves(d, h));
            Self(_mm256_add_ps(
                _mm256_shuffle_ps::<0b10_00_10_00>(x, y),
                _mm256_shuffle_ps::<0b11_01_11_01>(x, y),
            ))
        }
    }
}
