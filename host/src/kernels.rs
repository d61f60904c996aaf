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
        _ => Kernels::detect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_choose_kernels() {
        assert_eq!(named("scalar").name(), "scalar");
        assert_eq!(named("scalar-fused").name(), "scalar, fused");
        assert_eq!(named("").name(), Kernels::detect().name());
        assert_eq!(named("avx9").name(), Kernels::detect().name());
    }
}
