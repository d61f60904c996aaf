//! NEON's integers: two registers of 16 bytes, products widened to 16 bits, or dot products of bytes.

// Arithmetic intrinsics without pointers became safe to call after the oldest supported compiler.
#![allow(unused_unsafe)]

use core::arch::aarch64::*;
use core::arch::asm;

use super::super::blocks::{LEVELS, Q4, Q8};
use super::super::vector::{Integers, Products};
use super::neon::Lanes;

/// Two registers of bytes, 4 lanes each.
type Bytes = [int8x16_t; 2];
/// Two registers of sums.
type Sums = [int32x4_t; 2];

// SAFETY comments below: "the set" is NEON, with dot products where `DOT` says so, which callers vouch for.
impl<const DOT: bool> Integers for Lanes<DOT> {
    type Bytes = Bytes;
    type Sums = Sums;

    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> Bytes {
        // SAFETY: 32 bytes can be read, as bytes, which have no alignment.
        unsafe { [vld1q_s8(from.cast()), vld1q_s8(from.add(16).cast())] }
    }

    #[inline(always)]
    unsafe fn store_bytes(bytes: Bytes, to: *mut u8) {
        // SAFETY: 32 bytes can be written, as bytes, which have no alignment.
        unsafe {
            vst1q_s8(to.cast(), bytes[0]);
            vst1q_s8(to.add(16).cast(), bytes[1]);
        }
    }

    #[inline(always)]
    unsafe fn lowest_bytes(lanes: [Self; 4]) -> Bytes {
        // SAFETY: no memory is touched.
        unsafe {
            let halves = |Self(a, b): Self| {
                let (a, b) = (vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b));
                vcombine_u16(vmovn_u32(a), vmovn_u32(b))
            };
            let bytes = |a, b| vcombine_u8(vmovn_u16(halves(a)), vmovn_u16(halves(b)));
            let [a, b, c, d] = lanes;
            [vreinterpretq_s8_u8(bytes(a, b)), vreinterpretq_s8_u8(bytes(c, d))]
        }
    }

    #[inline(always)]
    unsafe fn no_sums() -> Sums {
        // SAFETY: no memory is touched.
        unsafe { [vdupq_n_s32(0); 2] }
    }

    #[inline(always)]
    unsafe fn add_bytes(bytes: Bytes, sums: Sums) -> Sums {
        // SAFETY: no memory is touched.
        unsafe {
            [
                vpadalq_s16(sums[0], vpaddlq_s8(bytes[0])),
                vpadalq_s16(sums[1], vpaddlq_s8(bytes[1])),
            ]
        }
    }

    #[inline(always)]
    unsafe fn to_array(sums: Sums) -> [i32; 8] {
        let mut array = [0; 8];
        // SAFETY: the array has 8 places.
        unsafe {
            vst1q_s32(array.as_mut_ptr(), sums[0]);
            vst1q_s32(array.as_mut_ptr().add(4), sums[1]);
        }
        array
    }

    #[inline(always)]
    unsafe fn larger_bits(self, b: Self) -> Self {
        // SAFETY: no memory is touched.
        unsafe {
            let larger = |a, b| {
                let (a, b) = (vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b));
                vreinterpretq_f32_u32(vmaxq_u32(a, b))
            };
            Self(larger(self.0, b.0), larger(self.1, b.1))
        }
    }

    #[inline(always)]
    unsafe fn prefetch(address: *const u8) {
        // SAFETY: the instruction does nothing for addresses that cannot be read.
        unsafe {
            asm!("prfm pldl1keep, [{address}]", address = in(reg) address, options(nostack, preserves_flags, readonly));
        }
    }
}

/// Adds up 4 neighbouring products of bytes in every lane; `w` is -128 to 127 and `x` -127 to 127, so that two products
/// fit 16 bits.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn add<const DOT: bool>(w: int8x16_t, x: int8x16_t, mut sum: int32x4_t) -> int32x4_t {
    if DOT {
        // SAFETY: the instruction works on registers and nothing else, and the machine has it; its intrinsic is not
        // stable in the oldest supported compiler.
        unsafe {
            asm!(
                "sdot {sum:v}.4s, {w:v}.16b, {x:v}.16b",
                sum = inout(vreg) sum,
                w = in(vreg) w,
                x = in(vreg) x,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        sum
    } else {
        // SAFETY: no memory is touched.
        unsafe {
            let low = vmull_s8(vget_low_s8(w), vget_low_s8(x));
            let high = vmull_high_s8(w, x);
            vpadalq_s16(sum, vpaddq_s16(low, high))
        }
    }
}

/// The sums as f32.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn widened<const DOT: bool>(sums: Sums) -> Lanes<DOT> {
    // SAFETY: no memory is touched.
    unsafe { Lanes(vcvtq_f32_s32(sums[0]), vcvtq_f32_s32(sums[1])) }
}

impl<const DOT: bool> Products<Lanes<DOT>> for Q8 {
    type Ready = Bytes;

    #[inline(always)]
    unsafe fn pair(from: *const u8) -> [Bytes; 2] {
        // SAFETY: 64 bytes can be read.
        unsafe { [Lanes::<DOT>::bytes(from), Lanes::<DOT>::bytes(from.add(32))] }
    }

    #[inline(always)]
    unsafe fn last(from: *const u8) -> Bytes {
        // SAFETY: 32 bytes can be read.
        unsafe { Lanes::<DOT>::bytes(from) }
    }

    #[inline(always)]
    unsafe fn begin(_x: *const u8) -> Sums {
        // Levels are signed here, and nothing is added to them.
        // SAFETY: by the caller.
        unsafe { Lanes::<DOT>::no_sums() }
    }

    #[inline(always)]
    unsafe fn add(w: Bytes, x: Bytes, sums: Sums) -> Sums {
        // SAFETY: no memory is touched.
        unsafe { [add::<DOT>(w[0], x[0], sums[0]), add::<DOT>(w[1], x[1], sums[1])] }
    }

    #[inline(always)]
    unsafe fn finish(sums: Sums) -> Lanes<DOT> {
        // SAFETY: no memory is touched.
        unsafe { widened(sums) }
    }
}

/// The levels of the lower and of the upper halves of some bytes.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn halves(both: int8x16_t) -> [int8x16_t; 2] {
    // SAFETY: the table has 16 bytes; no other memory is touched.
    unsafe {
        let table = vld1q_s8(LEVELS.as_ptr());
        let both = vreinterpretq_u8_s8(both);
        [
            vqtbl1q_s8(table, vandq_u8(both, vdupq_n_u8(15))),
            vqtbl1q_s8(table, vshrq_n_u8::<4>(both)),
        ]
    }
}

impl<const DOT: bool> Products<Lanes<DOT>> for Q4 {
    type Ready = Bytes;

    #[inline(always)]
    unsafe fn pair(from: *const u8) -> [Bytes; 2] {
        // SAFETY: 32 bytes can be read.
        unsafe {
            let [first, second] = Lanes::<DOT>::bytes(from);
            let ([a, c], [b, d]) = (halves(first), halves(second));
            [[a, b], [c, d]]
        }
    }

    #[inline(always)]
    unsafe fn last(from: *const u8) -> Bytes {
        // SAFETY: 16 bytes can be read, as bytes, which have no alignment.
        unsafe { halves(vld1q_s8(from.cast())) }
    }

    #[inline(always)]
    unsafe fn begin(_x: *const u8) -> Sums {
        // Levels are signed here, and nothing is added to them.
        // SAFETY: by the caller.
        unsafe { Lanes::<DOT>::no_sums() }
    }

    #[inline(always)]
    unsafe fn add(w: Bytes, x: Bytes, sums: Sums) -> Sums {
        // SAFETY: no memory is touched.
        unsafe { [add::<DOT>(w[0], x[0], sums[0]), add::<DOT>(w[1], x[1], sums[1])] }
    }

    #[inline(always)]
    unsafe fn add_pair(w: [Bytes; 2], x: [Bytes; 2], sums: Sums) -> Sums {
        // SAFETY: no memory is touched.
        unsafe {
            if DOT {
                let sums = <Q4 as Products<Lanes<DOT>>>::add(w[0], x[0], sums);
                return <Q4 as Products<Lanes<DOT>>>::add(w[1], x[1], sums);
            }
            // Levels are -63 to 62, so 4 products fit 16 bits.
            let half = |i: usize| {
                let low = vmull_s8(vget_low_s8(w[0][i]), vget_low_s8(x[0][i]));
                let low = vmlal_s8(low, vget_low_s8(w[1][i]), vget_low_s8(x[1][i]));
                let high = vmull_high_s8(w[0][i], x[0][i]);
                let high = vmlal_high_s8(high, w[1][i], x[1][i]);
                vpadalq_s16(sums[i], vpaddq_s16(low, high))
            };
            [half(0), half(1)]
        }
    }

    #[inline(always)]
    unsafe fn finish(sums: Sums) -> Lanes<DOT> {
        // SAFETY: no memory is touched.
        unsafe { widened(sums) }
    }
}
