//! Kernels for x86-64, and how core finds out which of them the machine runs.

pub(super) mod avx2;
mod avx2_blocks;

use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use core::sync::atomic::{AtomicU8, Ordering};

/// What the machine has that there are kernels for, and whose registers the system saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Has {
    /// None of it.
    Nothing = 1,
    /// AVX2, FMA and F16C.
    Avx2Fma,
    /// These and AVX-VNNI.
    Avx2Vnni,
}

/// What the machine has.
///
/// The answer is kept: virtual machines trap CPUID, which takes microseconds.
pub(super) fn has() -> Has {
    static ANSWER: AtomicU8 = AtomicU8::new(0);
    const KEPT: [Has; 3] = [Has::Nothing, Has::Avx2Fma, Has::Avx2Vnni];
    let kept = ANSWER.load(Ordering::Relaxed);
    if let Some(has) = KEPT.into_iter().find(|has| *has as u8 == kept) {
        return has;
    }
    let has = ask_cpuid();
    ANSWER.store(has as u8, Ordering::Relaxed);
    has
}

/// Intel's manual, volume 1, 14.3 and 14.5.3, has the order of questions; the bit numbers are in volume 2, CPUID.
// CPUID became safe to call after the oldest supported compiler.
#[allow(unused_unsafe)]
fn ask_cpuid() -> Has {
    const FMA: u32 = 1 << 12;
    const OSXSAVE: u32 = 1 << 27;
    const AVX: u32 = 1 << 28;
    const F16C: u32 = 1 << 29;
    const AVX2: u32 = 1 << 5;
    const AVX_VNNI: u32 = 1 << 4;
    const XMM_AND_YMM: u64 = 0b110;

    // SAFETY: every x86-64 processor has CPUID, and leaf 0.
    let highest = unsafe { __cpuid(0) }.eax;
    if highest < 7 {
        return Has::Nothing;
    }
    // SAFETY: leaf 1 exists.
    let ecx = unsafe { __cpuid(1) }.ecx;
    let wanted = FMA | OSXSAVE | AVX | F16C;
    if ecx & wanted != wanted {
        return Has::Nothing;
    }
    // SAFETY: OSXSAVE says that XGETBV may be executed; register 0 exists.
    let saved = unsafe { _xgetbv(0) };
    if saved & XMM_AND_YMM != XMM_AND_YMM {
        return Has::Nothing;
    }
    // SAFETY: leaf 7 exists.
    let seven = unsafe { __cpuid_count(7, 0) };
    if seven.ebx & AVX2 == 0 {
        return Has::Nothing;
    }
    // Leaf 7 says how many parts it has besides the first.
    // SAFETY: the part exists.
    if seven.eax >= 1 && unsafe { __cpuid_count(7, 1) }.eax & AVX_VNNI != 0 {
        return Has::Avx2Vnni;
    }
    Has::Avx2Fma
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::{Has, has};

    #[test]
    fn agrees_with_std() {
        let avx2 = std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("fma")
            && std::is_x86_feature_detected!("f16c");
        assert_eq!(has() >= Has::Avx2Fma, avx2);
        assert_eq!(has(), has(), "the kept answer");
    }

    /// What the system's kernel says; std does not know AVX-VNNI in the oldest supported compiler.
    #[cfg(target_os = "linux")]
    #[test]
    fn agrees_with_linux() {
        let Ok(told) = std::fs::read_to_string("/proc/cpuinfo") else {
            return;
        };
        // Kernels before 5.12 do not name it.
        if told.split_whitespace().any(|flag| flag == "avx_vnni") {
            assert_eq!(has(), Has::Avx2Vnni);
        }
    }
}
