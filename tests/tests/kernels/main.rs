//! The kernels against the written definition of their order, against f64, and against each other.

mod argmax;
mod attention;
mod blocks;
mod canonical;
mod data;
mod elementwise;
mod encoding;
mod executors;
#[cfg(unix)]
mod guarded;
mod linear;
// With debug assertions such calls stop the program.
#[cfg(not(debug_assertions))]
mod misuse;

use voxtral_core::kernels::{Class, InstructionSet, Kernels, Ops, Serial};

/// Both scalar classes, and what this machine has besides.
fn all_kernels() -> Vec<Kernels> {
    #[allow(unused_mut)]
    let mut all = vec![
        Kernels::scalar(Class::Separate),
        Kernels::scalar(Class::Fused),
        Kernels::baseline(),
    ];
    let sets = [InstructionSet::Avx2Fma, InstructionSet::Avx2Vnni];
    all.extend(sets.into_iter().filter_map(Kernels::detected));
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("dotprod") {
        // SAFETY: std has just found the set.
        let dotprod = unsafe { Kernels::assume(InstructionSet::NeonDotprod) };
        assert_eq!((dotprod.name(), dotprod.class()), ("neon+dotprod", Class::Fused));
        all.push(dotprod);
    }
    all
}

#[test]
fn kernels_say_what_they_are() {
    assert_eq!(Kernels::scalar(Class::Fused).class(), Class::Fused);
    assert_eq!(Kernels::scalar(Class::Separate).class(), Class::Separate);
    let baseline = Kernels::baseline();
    if cfg!(target_arch = "aarch64") {
        assert_eq!((baseline.name(), baseline.class()), ("neon", Class::Fused));
    } else {
        assert!(baseline.name().starts_with("scalar"));
    }
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("fma")
        && std::is_x86_feature_detected!("f16c")
    {
        // SAFETY: std has just found the set.
        let assumed = unsafe { Kernels::assume(InstructionSet::Avx2Fma) };
        let detected = Kernels::detected(InstructionSet::Avx2Fma).expect("std has found it");
        for kernels in [assumed, detected] {
            assert_eq!((kernels.name(), kernels.class()), ("avx2+fma", Class::Fused));
        }
        match Kernels::detected(InstructionSet::Avx2Vnni) {
            Some(kernels) => {
                assert_eq!((kernels.name(), kernels.class()), ("avx2+fma+vnni", Class::Fused));
                assert_eq!(Kernels::detect().name(), kernels.name());
            }
            None => assert_eq!(Kernels::detect().name(), "avx2+fma"),
        }
    }
    let detected = Kernels::detect();
    assert_eq!(Ops::new(detected, &Serial).kernels().name(), detected.name());
}
