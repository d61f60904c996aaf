//! Kernels for x86-64, and how core finds out which of them the machine runs.

pub(super) mod avx2;
mod avx2_blocks;

use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use core::sync::atomic::{AtomicU8, Ordering};

/// Whether the machine has AVX2, FMA and F16C, and the system saves the registers they use.
///
/// The answer is kept: virtual machines trap CPUID, which takes microseconds.
pub(super) fn has_avx2_fma() -> bool {
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
    match ANSWER.load(Ordering::Relaxed) {
        UNKNOWN => {
            let answer = ask_cpuid();
            ANSWER.store(if answer { YES } else { NO }, Ordering::Relaxed);
            answer
        }
        answer => answer == YES,
    }
}

/// Intel's manual, volume 1, 14.3 and 14.5.3, has the order of questions; the bit numbers are in volume 2, CPUID.
// CPUID became safe to call after the oldest supported compiler.
#[allow(unused_unsafe)]
fn ask_cpuid() -> bool {
    const FMA: u32 = 1 << 12;
    const OSXSAVE: u32 = 1 << 27;
    const AVX: u32 = 1 << 28;
    const F16C: u32 = 1 << 29;
    const AVX2: u32 = 1 << 5;
    const XMM_AND_YMM: u64 = 0b110;

    // SAFETY: every x86-64 processor has CPUID, and leaf 0.
    let highest = unsafe { __cpuid(0) }.eax;
    if highest < 7 {
        return false;
    }
    // SAFETY: leaf 1 exists.
    let ecx = unsafe { __cpuid(1) }.ecx;
    let wanted = FMA | OSXSAVE | AVX | F16C;
    if ecx & wanted != wanted {
        return false;
    }
    // SAFETY: OSXSAVE says that XGETBV may be executed; register 0 exists.
    let saved = unsafe { _xgetbv(0) };
    if saved & XMM_AND_YMM != XMM_AND_YMM {
        return false;
    }
    // SAFETY: leaf 7 exists.
    let ebx = unsafe { __cpuid_count(7, 0) }.ebx;
    ebx & AVX2 != 0
}

#[cfg(test)]
mod tests {
    extern crate std;

    #[test]
    fn agrees_with_std() {
        let expected = std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("fma")
            && std::is_x86_feature_detected!("f16c");
        assert_eq!(super::has_avx2_fma(), expected);
        assert_eq!(super::has_avx2_fma(), expected, "the kept answer");
    }
}
