//! Which instruction set computes: one table of functions per set, chosen by a proof that the machine has it.

use core::fmt;

use super::attention::Attention;
use super::linear::Linear;
use super::set::Table;
use super::split::Band;
use super::{Matrix, scalar};

/// How a multiply-accumulate rounds. Results of one class have equal bits on every target and instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Once: `fma(a, b, acc)`.
    Fused,
    /// After the product and after the sum: `acc + a * b`.
    Separate,
}

/// An instruction set that core may have kernels for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InstructionSet {
    /// x86-64 with AVX2, FMA and F16C, and vector registers that the system saves.
    Avx2Fma,
    /// These with AVX-VNNI, for integers.
    Avx2Vnni,
    /// NEON with the dot product extension (FEAT_DotProd), for integers.
    NeonDotprod,
}

/// A choice of instruction set: a proof that this machine has it.
#[derive(Clone, Copy)]
pub struct Kernels {
    table: &'static Table,
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kernels").field(&self.name()).finish()
    }
}

impl Kernels {
    /// What every machine that this build is for has: NEON on AArch64, else the scalar kernels, of the class that
    /// the target has in hardware (fused where the compiler may use fused multiply-add, else separate).
    pub const fn baseline() -> Self {
        #[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
        return Self {
            table: &super::aarch64::neon::TABLE,
        };
        #[cfg(not(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon")))]
        if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
            Self::scalar(Class::Fused)
        } else {
            Self::scalar(Class::Separate)
        }
    }

    /// The scalar kernels of either class, on any target. Fused without such hardware is slow, but right.
    pub const fn scalar(class: Class) -> Self {
        let table = match class {
            Class::Fused => &scalar::FUSED,
            Class::Separate => &scalar::SEPARATE,
        };
        Self { table }
    }

    /// The best set that core can detect by itself (CPUID on x86-64), else the baseline.
    pub fn detect() -> Self {
        Self::detected(InstructionSet::Avx2Vnni)
            .or_else(|| Self::detected(InstructionSet::Avx2Fma))
            .unwrap_or_else(Self::baseline)
    }

    /// The kernels of a set that core can detect by itself (CPUID on x86-64), if the machine has it.
    pub fn detected(set: InstructionSet) -> Option<Self> {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        {
            use super::x86::{Has, has};
            let wanted = match set {
                InstructionSet::Avx2Fma => Has::Avx2Fma,
                InstructionSet::Avx2Vnni => Has::Avx2Vnni,
                InstructionSet::NeonDotprod => return None,
            };
            // SAFETY: that is the question just asked.
            (has() >= wanted).then(|| unsafe { Self::assume(set) })
        }
        #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
        {
            let _ = set;
            None
        }
    }

    /// The kernels of a set that the caller knows this machine to have; the baseline where the build has none for it.
    ///
    /// # Safety
    /// The machine executes every instruction of the set, on every thread that will run the kernels.
    pub const unsafe fn assume(set: InstructionSet) -> Self {
        match set {
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            InstructionSet::Avx2Fma => Self {
                table: &super::x86::avx2::TABLE,
            },
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            InstructionSet::Avx2Vnni => Self {
                table: &super::x86::avx2::VNNI_TABLE,
            },
            #[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
            InstructionSet::NeonDotprod => Self {
                table: &super::aarch64::neon::DOT_TABLE,
            },
            #[allow(unreachable_patterns)]
            _ => Self::baseline(),
        }
    }

    /// How its multiply-accumulate rounds.
    pub const fn class(&self) -> Class {
        self.table.class
    }

    /// A short name for people: "scalar", "scalar, fused", "avx2+fma", "avx2+fma+vnni", "neon" or "neon+dotprod".
    pub const fn name(&self) -> &'static str {
        self.table.name
    }

    pub(super) fn linear(&self, job: &Linear, band: &mut Band) {
        // SAFETY: whoever made `self` proved that the machine has the set.
        unsafe { (self.table.linear)(job, band) }
    }

    pub(super) fn quantise(&self, cols: usize, x: &[f32], out: &mut [f32]) {
        // SAFETY: whoever made `self` proved that the machine has the set.
        unsafe { (self.table.quantise)(cols, x, out) }
    }

    pub(super) fn attention(&self, job: &Attention, band: &mut Band) {
        // SAFETY: whoever made `self` proved that the machine has the set.
        unsafe { (self.table.attention)(job, band) }
    }

    pub(super) fn rms_norm(&self, weight: &Matrix, eps: f32, x: &[f32], y: &mut [f32]) {
        // SAFETY: whoever made `self` proved that the machine has the set.
        unsafe { (self.table.rms_norm)(weight, eps, x, y) }
    }

    pub(super) fn rope(&self, rotations: &[f32], width: usize, x: &mut [f32]) {
        // SAFETY: whoever made `self` proved that the machine has the set.
        unsafe { (self.table.rope)(rotations, width, x) }
    }

    pub(super) fn silu_mul(&self, gate: &mut [f32], up: &[f32]) {
        // SAFETY: whoever made `self` proved that the machine has the set.
        unsafe { (self.table.silu_mul)(gate, up) }
    }

    pub(super) fn gelu(&self, x: &mut [f32]) {
        // SAFETY: whoever made `self` proved that the machine has the set.
        unsafe { (self.table.gelu)(x) }
    }
}
