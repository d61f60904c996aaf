//! Which kernels the program computes with.

use voxtral_core::kernels::{Class, Kernels};

/// The variable that asks for other kernels than the best: `scalar`, or `scalar-fused` for the class of AVX2 and NEON.
pub const VARIABLE: &str = "VOXTRAL_KERNELS";

/// The best kernels of this machine, or what [`VARIABLE`] asks for. An unknown word asks for nothing.
pub fn choose() -> Kernels {
    named(std::env::var(VARIABLE).as_deref().unwrap_or_default())
}

fn named(word: &str) -> Kernels {
    match word {
        "scalar" => Kernels::scalar(Class::Separate),
        "scalar-fused" => Kernels::scalar(Class::Fused),
        _ => best(),
    }
}

/// What core finds by itself, and what it has to be told.
fn best() -> Kernels {
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("dotprod") {
        // SAFETY: the system says that its processors have it.
        return unsafe { Kernels::assume(voxtral_core::kernels::InstructionSet::NeonDotprod) };
    }
    Kernels::detect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_choose_kernels() {
        assert_eq!(named("scalar").name(), "scalar");
        assert_eq!(named("scalar-fused").name(), "scalar, fused");
        assert_eq!(named("").name(), best().name());
        assert_eq!(named("avx9").name(), best().name());
    }
}
