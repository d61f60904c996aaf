//! AVX2's integers: 32 bytes in a register, products of unsigned with signed bytes; those of AVX-VNNI where there are.

// Arithmetic intrinsics without pointers became safe to call after the oldest supported compiler.
#![allow(unused_unsafe)]

use core::arch::asm;
use core::arch::x86_64::*;

use super::super::activations::OFFSET;
use super::super::blocks::{LEVELS, Q4, Q8};
use super::super::vector::{Integers, Products};
use super::avx2::Lanes;

// SAFETY comments below: "the set" is AVX2, FMA and F16C, with AVX-VNNI where `VNNI` says so, which callers vouch for.
impl<const VNNI: bool> Integers for Lanes<VNNI> {
    type Bytes = __m256i;
    type Sums = __m256i;

    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> __m256i {
        // SAFETY: by the caller.
        unsafe { bytes(from) }
    }

    #[inline(always)]
    unsafe fn store_bytes(bytes: __m256i, to: *mut u8) {
        // SAFETY: 32 bytes can be written; the store is unaligned.
        unsafe { _mm256_storeu_si256(to.cast(), bytes) }
    }

    #[inline(always)]
    unsafe fn lowest_bytes(lanes: [Self; 4]) -> __m256i {
        // SAFETY: no memory is touched.
        unsafe {
            let [a, b, c, d] =
                lanes.map(|lanes| _mm256_and_si256(_mm256_castps_si256(lanes.0), _mm256_set1_epi32(255)));
            // Packing goes on within each half of the registers, 4 bytes of each lane in turn.
            let bytes = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
            _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
        }
    }

    #[inline(always)]
    unsafe fn no_sums() -> __m256i {
        // SAFETY: no memory is touched.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn add_bytes(bytes: __m256i, sums: __m256i) -> __m256i {
        // SAFETY: no memory is touched.
        unsafe { add::<VNNI>(_mm256_set1_epi8(1), bytes, sums) }
    }

    #[inline(always)]
    unsafe fn to_array(sums: __m256i) -> [i32; 8] {
        let mut array = [0; 8];
        // SAFETY: the array has 8 places; the store is unaligned.
        unsafe { _mm256_storeu_si256(array.as_mut_ptr().cast(), sums) };
        array
    }

    #[inline(always)]
    unsafe fn larger_bits(self, b: Self) -> Self {
        // SAFETY: no memory is touched.
        unsafe {
            let larger = _mm256_max_epi32(_mm256_castps_si256(self.0), _mm256_castps_si256(b.0));
            Self(_mm256_castsi256_ps(larger))
        }
    }

    #[inline(always)]
    unsafe fn prefetch(address: *const u8) {
        // SAFETY: the instruction does nothing for addresses that cannot be read.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
}

/// # Safety
/// 32 bytes can be read at `from`; the machine has the set.
#[inline(always)]
unsafe fn bytes(from: *const u8) -> __m256i {
    // SAFETY: by the caller; the load is unaligned.
    unsafe { _mm256_loadu_si256(from.cast()) }
}

/// Adds up 4 neighbouring products of unsigned bytes `a` and signed bytes `b` in every lane. Without AVX-VNNI `a` is at
/// most 128 and `b` -127 to 127, so that two of them fit 16 bits.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn add<const VNNI: bool>(a: __m256i, b: __m256i, sums: __m256i) -> __m256i {
    if VNNI {
        // SAFETY: the machine has AVX-VNNI.
        unsafe { dot_products(a, b, sums) }
    } else {
        // SAFETY: no memory is touched.
        unsafe {
            let pairs = _mm256_maddubs_epi16(a, b);
            _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        }
    }
}

/// AVX-VNNI's [`add`], whose intrinsic is not stable in the oldest supported compiler.
///
/// # Safety
/// The machine has AVX-VNNI.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn dot_products(a: __m256i, b: __m256i, mut sums: __m256i) -> __m256i {
    // SAFETY: the instruction works on registers and nothing else, and the machine has it. AVX-512 has one of the same
    // name, hence the prefix.
    unsafe {
        asm!(
            "{{vex}} vpdpbusd {sums}, {a}, {b}",
            sums = inout(ymm_reg) sums,
            a = in(ymm_reg) a,
            b = in(ymm_reg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sums
}

impl<const VNNI: bool> Products<Lanes<VNNI>> for Q8 {
    type Ready = __m256i;

    #[inline(always)]
    unsafe fn pair(from: *const u8) -> [__m256i; 2] {
        // SAFETY: 64 bytes can be read.
        unsafe {
            [
                <Q8 as Products<Lanes<VNNI>>>::last(from),
                <Q8 as Products<Lanes<VNNI>>>::last(from.add(32)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn last(from: *const u8) -> __m256i {
        // SAFETY: 32 bytes can be read.
        unsafe {
            let levels = bytes(from);
            if VNNI {
                // 128 is added.
                _mm256_xor_si256(levels, _mm256_set1_epi8(i8::MIN))
            } else {
                levels
            }
        }
    }

    #[inline(always)]
    unsafe fn begin(x: *const u8) -> __m256i {
        // SAFETY: 32 bytes can be read.
        unsafe {
            if VNNI {
                let once = bytes(x);
                _mm256_add_epi32(once, once)
            } else {
                Lanes::<VNNI>::no_sums()
            }
        }
    }

    #[inline(always)]
    unsafe fn add(w: __m256i, x: __m256i, sums: __m256i) -> __m256i {
        // SAFETY: no memory is touched.
        unsafe {
            if VNNI {
                add::<VNNI>(w, x, sums)
            } else {
                // The size of the weights times the activations with the weights' sign. -128 has the size 128, as
                // unsigned.
                add::<VNNI>(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w), sums)
            }
        }
    }

    #[inline(always)]
    unsafe fn finish(sums: __m256i) -> Lanes<VNNI> {
        // SAFETY: no memory is touched.
        Lanes(unsafe { _mm256_cvtepi32_ps(sums) })
    }
}

// What is added to Q8 is twice the offset.
const _: () = assert!(2 * OFFSET == 128);

/// Indices of levels, one in every byte, to levels with the offset: 1 to 126.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn looked_up(indices: __m256i) -> __m256i {
    const TABLE: [i8; 16] = {
        let mut table = LEVELS;
        let mut i = 0;
        while i < 16 {
            table[i] += OFFSET as i8;
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

impl<const VNNI: bool> Products<Lanes<VNNI>> for Q4 {
    type Ready = __m256i;

    #[inline(always)]
    unsafe fn pair(from: *const u8) -> [__m256i; 2] {
        // SAFETY: 32 bytes can be read.
        unsafe {
            let low = _mm256_set1_epi8(15);
            let both = bytes(from);
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
    unsafe fn begin(x: *const u8) -> __m256i {
        // SAFETY: 32 bytes can be read.
        unsafe { bytes(x) }
    }

    #[inline(always)]
    unsafe fn add(w: __m256i, x: __m256i, sums: __m256i) -> __m256i {
        // SAFETY: no memory is touched.
        unsafe { add::<VNNI>(w, x, sums) }
    }

    #[inline(always)]
    unsafe fn finish(sums: __m256i) -> Lanes<VNNI> {
        // SAFETY: no memory is touched.
        Lanes(unsafe { _mm256_cvtepi32_ps(sums) })
    }
}
