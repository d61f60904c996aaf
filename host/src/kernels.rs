//! Which kernels the program computes with.

use voxtral_core::kernels::{Class, InstructionSet, Kernels};

/// The variable that asks for other kernels than the best: `scalar`, `scalar-fused` for the class of AVX2 and NEON, or
/// the lower of two sets, `avx2` (without AVX-VNNI) and `neon` (without dot products).
pub const VARIABLE: &str = "VOXTRAL_KERNELS";

/// What [`VARIABLE`] may be on this kind of machine.
pub const WORDS: &[&str] = if cfg!(target_arch = "x86_64") {
    &["scalar", "scalar-fused", "avx2"]
} else if cfg!(target_arch = "aarch64") {
    &["scalar", "scalar-fused", "neon"]
} else {
    &["scalar", "scalar-fused"]
};

/// The best kernels of this machine, or what [`VARIABLE`] asks for. A [strange](strange_word) word asks for nothing.
pub fn choose() -> Kernels {
    named(std::env::var(VARIABLE).as_deref().unwrap_or_default())
}

/// What [`VARIABLE`] asks for, if that is nothing known.
pub fn strange_word() -> Option<String> {
    let word = std::env::var_os(VARIABLE)?.to_string_lossy().into_owned();
    (!word.is_empty() && asked(&word).is_none()).then_some(word)
}

fn named(word: &str) -> Kernels {
    asked(word).unwrap_or_else(best)
}

fn asked(word: &str) -> Option<Kernels> {
    match word {
        "scalar" => Some(Kernels::scalar(Class::Separate)),
        "scalar-fused" => Some(Kernels::scalar(Class::Fused)),
        "avx2" => Kernels::detected(InstructionSet::Avx2Fma),
        "neon" => cfg!(target_arch = "aarch64").then(Kernels::baseline),
        _ => None,
    }
}

/// What core finds by itself, and what it has to be told.
fn best() -> Kernels {
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("dotprod") {
        // SAFETY: the system says that its processors have it.
        return unsafe { Kernels::assume(InstructionSet::NeonDotprod) };
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
        let avx2 = Kernels::detected(InstructionSet::Avx2Fma).unwrap_or_else(best);
        assert_eq!(named("avx2").name(), avx2.name());
        let neon = if cfg!(target_arch = "aarch64") {
            "neon"
        } else {
            best().name()
        };
        assert_eq!(named("neon").name(), neon);
        assert_eq!(named("avx9").name(), best().name());
    }
}
