//! Equal bits on every machine: the logit hash of a run, written down once for each class.

use voxtral_core::kernels::{Class, Kernels};
use voxtral_tests::engine::{Engine, Plan};
use voxtral_tests::goldens::Case;

/// The hash of all logits of the golden model A over its speech, by kernels of the class.
///
/// Whoever changes the canonical order, exp or erf changes it, and finds the new one in the message of the failure.
fn expected(class: Class) -> u64 {
    match class {
        Class::Fused => 0x4087_89a1_02ad_1904,
        Class::Separate => 0x32fb_13fb_9704_43dc,
    }
}

#[test]
fn logits_have_the_same_bits_on_every_machine() {
    let case = Case::read('A', "speech_a4");
    let engine = Engine::of(&case.spec());
    let options = engine.options(case.delay_tokens);
    for kernels in [
        Kernels::detect(),
        Kernels::baseline(),
        Kernels::scalar(Class::Fused),
        Kernels::scalar(Class::Separate),
    ] {
        let run = Plan {
            kernels: Some(kernels),
            ..Plan::default()
        }
        .run(&engine, &options, &case.samples());
        let expected = expected(kernels.class());
        assert_eq!(
            run.hash, expected,
            "{kernels:?}: {:#018x} is not {expected:#018x}",
            run.hash
        );
    }
}
