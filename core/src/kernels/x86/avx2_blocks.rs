//! AVX2's integers: 32 bytes in a register, products of unsigned with signed bytes.

// Arithmetic intrinsics without pointers became safe to call after the oldest supported compiler.
#![allow(unused_unsafe)]

use core::arch::x86_64::*;

use super::super::blocks::{LEVELS, Q4, Q8};
use super::super::vector::{Integers, Products};
use super::avx2::Lanes;

// SAFETY comments below: "the set" is AVX2, FMA and F16C, which callers vouch for.
impl Integers for Lanes {
    type Bytes = __m256i;
    type Sums = __m256i;

    #[inline(always)]
    unsafe fn no_sums() -> __m256i {
        // SAFETY: no memory is touched.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> __m256i {
        // SAFETY: 32 bytes can be read; the load is unaligned.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn prefetch(address: *const u8) {
        // SAFETY: the instruction does nothing for addresses that cannot be read.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
}

/// Adds up 4 neighbouring products of unsigned bytes `a` and signed bytes `b` in every lane. Two of them fit 16 bits
/// where `a` is at most 128 and `b` -127 to 127.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn add(a: __m256i, b: __m256i, sums: __m256i) -> __m256i {
    // SAFETY: no memory is touched.
    unsafe {
        let pairs = _mm256_maddubs_epi16(a, b);
        _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
    }
}

impl Products<Lanes> for Q8 {
    type Ready = __m256i;

    #[inline(always)]
    unsafe fn pair(from: *const u8) -> [__m256i; 2] {
        // SAFETY: 64 bytes can be read; the loads are unaligned.
        unsafe { [Lanes::bytes(from), Lanes::bytes(from.add(32))] }
    }

    #[inline(always)]
    unsafe fn last(from: *const u8) -> __m256i {
        // SAFETY: 32 bytes can be read; the load is unaligned.
        unsafe { Lanes::bytes(from) }
    }

    #[inline(always)]
    unsafe fn add(w: __m256i, x: __m256i, sums: __m256i) -> __m256i {
        // The size of the weights times the activations with the weights' sign. -128 has the size 128, as unsigned.
        // SAFETY: no memory is touched.
        unsafe { add(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w), sums) }
    }

    #[inline(always)]
    unsafe fn finish(sums: __m256i, _x: *const u8) -> Lanes {
        // SAFETY: no memory is touched.
        Lanes(unsafe { _mm256_cvtepi32_ps(sums) })
    }
}

/// What makes the levels of Q4 unsigned: 1 to 126.
const OFFSET: i8 = 64;

/// Indices of levels, one in every byte, to levels with the offset.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn looked_up(indices: __m256i) -> __m256i {
    const TABLE: [i8; 16] = {
        let mut table = LEVELS;
        let mut i = 0;
        while i < 16 {
            table[i] += OFFSET;
            i += 1;
        }
        table
    };
    // SAFETY: the table has 16 bytes; the load is unaligned.
    unsafe {
        let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(TABLE.as_ptr().cast()));
        _mm256_shuffle_epi8(table, indices)
    }
}

impl Products<Lanes> for Q4 {
    type Ready = __m256i;

    #[inline(always)]
    unsafe fn pair(from: *const u8) -> [__m256i; 2] {
        // SAFETY: 32 bytes can be read; the load is unaligned.
        unsafe {
            let low = _mm256_set1_epi8(15);
            let both = Lanes::bytes(from);
            let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(both), low);
            [looked_up(_mm256_and_si256(both, low)), looked_up(upper)]
        }
    }

    #[inline(always)]
    unsafe fn last(from: *const u8) -> __m256i {
        // SAFETY: 16 bytes can be read; the load is unaligned.
        unsafe {
            let low = _mm256_set1_epi8(15);
            let both = _mm_loadu_si128(from.cast());
            let halves = _mm256_set_m128i(_mm_srli_epi16::<4>(both), both);
            looked_up(_mm256_and_si256(halves, low))
        }
    }

    #[inline(always)]
    unsafe fn add(w: __m256i, x: __m256i, sums: __m256i) -> __m256i {
        // SAFETY: no memory is touched.
        unsafe { add(w, x, sums) }
    }

    #[inline(always)]
    unsafe fn finish(sums: __m256i, x: *const u8) -> Lanes {
        // Each product is too large by the offset times its activation: 64 times their sum in all.
        // SAFETY: 32 bytes can be read; the load is unaligned.
        unsafe {
            let offsets = _mm256_slli_epi32::<6>(Lanes::bytes(x));
            Lanes(_mm256_cvtepi32_ps(_mm256_sub_epi32(sums, offsets)))
        }
    }
}

const _: () = assert!(OFFSET == 1 << 6);
