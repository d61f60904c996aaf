//! Which instruction set computes: one table of functions per set, chosen by a proof that the machine has it.

use core::fmt;

use super::linear::Linear;
use super::scalar;
use super::split::Band;

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
}

/// The functions of one instruction set.
///
/// They are unsafe because the machine has to have that set; nothing else is asked of a caller. Each keeps the
/// canonical order of its class.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) class: Class,
    /// The outputs of a linear map that lie in a band: its columns are rows of the weights.
    pub(super) linear: unsafe fn(&Linear, &mut Band),
    /// `out[j] = dot(x, rows[j])` over rows of `x.len()` values.
    pub(super) dots: unsafe fn(x: &[f32], rows: &[f32], out: &mut [f32]),
    /// `out += p[j] * rows[j]` for every `j` in order, over rows of `out.len()` values.
    pub(super) accumulate: unsafe fn(p: &[f32], rows: &[f32], out: &mut [f32]),
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
    /// The scalar kernels, which run everywhere, of the class that the target of this build has in hardware: fused
    /// on AArch64 and where the compiler may use fused multiply-add, else separate.
    pub const fn baseline() -> Self {
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
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        if super::x86::has_avx2_fma() {
            // SAFETY: that is the question just asked.
            return unsafe { Self::assume(InstructionSet::Avx2Fma) };
        }
        Self::baseline()
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
            #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
            InstructionSet::Avx2Fma => Self::baseline(),
        }
    }

    /// How its multiply-accumulate rounds.
    pub const fn class(&self) -> Class {
        self.table.class
    }

    /// A short name for people: "scalar", "scalar, fused" or "avx2+fma".
    pub const fn name(&self) -> &'static str {
        self.table.name
    }

    pub(super) fn linear(&self, job: &Linear, band: &mut Band) {
        // SAFETY: whoever made `self` proved that the machine has the set.
        unsafe { (self.table.linear)(job, band) }
    }

    pub(super) fn dots(&self, x: &[f32], rows: &[f32], out: &mut [f32]) {
        // SAFETY: whoever made `self` proved that the machine has the set.
        unsafe { (self.table.dots)(x, rows, out) }
    }

    pub(super) fn accumulate(&self, p: &[f32], rows: &[f32], out: &mut [f32]) {
        // SAFETY: whoever made `self` proved that the machine has the set.
        unsafe { (self.table.accumulate)(p, rows, out) }
    }
}
