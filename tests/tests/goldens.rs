//! The engine against the stored values of an independent implementation: tokens exactly, tensors within the table.

use voxtral_core::layout::Options;
use voxtral_tests::engine::{Engine, Plan, Run};
use voxtral_tests::goldens::{self, Case};

/// Runs a case in one chunk, so that all of its audio is encoded even if the text ends before.
fn run(engine: &Engine, case: &Case) -> Run {
    let options = Options {
        chunk: case.audio_tokens,
        ..engine.options(case.delay_tokens)
    };
    Plan {
        record: true,
        ..Plan::default()
    }
    .run(engine, &options, &case.samples())
}

/// The table's entry for a stage.
fn tolerance(stage: &str) -> f64 {
    use goldens::tolerance::*;
    match stage {
        "mel" => MEL,
        "conv_stem" => CONV_STEM,
        "enc_out" => ENC_OUT,
        "adapter" => ADAPTER,
        "t_cond" => T_COND,
        "ada" => ADA,
        "logits" => LOGITS,
        layer if layer.starts_with("enc_layer") => ENC_LAYER,
        other => panic!("no tolerance for {other}"),
    }
}

/// Every stored array of every case, and every token.
#[test]
fn cases_agree_with_the_reference() {
    let mut compared = 0;
    for case in Case::all() {
        let engine = Engine::of(&case.spec());
        let run = run(&engine, &case);
        let name = format!("{}/{}", case.variant, case.case);
        assert_eq!(run.tokens, case.tokens, "{name}");
        let first = case.prompt_ids.len() as u64 - 1;
        assert!(
            run.positions.iter().copied().eq((first..).take(run.tokens.len())),
            "{name}"
        );

        for (stage, values) in &run.stages {
            let Some(golden) = case.array(stage) else { continue };
            let tolerance = tolerance(stage);
            assert!(values.len() >= golden.data.len(), "{name} {stage}");
            if stage != "logits" {
                assert_eq!(values.len(), golden.data.len(), "{name} {stage}");
            }
            let worst = values
                .iter()
                .zip(&golden.data)
                .map(|(&value, golden)| (f64::from(value) - golden).abs())
                .fold(0.0, f64::max);
            println!("{name:24} {stage:12} {worst:.1e} of {tolerance:e}");
            assert!(worst <= tolerance, "{name} {stage}: {worst:e} is beyond {tolerance:e}");
            compared += 1;
        }
    }
    assert_eq!(compared, 45, "all stored arrays are compared");
}

/// Sums over encoder and adapter, and of the logits of every step: the only record of the long run.
#[test]
fn sums_agree_with_the_reference() {
    for case in Case::all() {
        let engine = Engine::of(&case.spec());
        let run = run(&engine, &case);
        let name = format!("{}/{}", case.variant, case.case);
        for (stage, golden) in [("enc_out", case.enc_out_sums), ("adapter", case.adapter_sums)] {
            let values = &run.stages[stage];
            // Errors of the values are independent, so their sum grows with the root of their number.
            let allowed = tolerance(stage) * (values.len() as f64).sqrt();
            let found = sums(values);
            for (found, golden) in found.into_iter().zip(golden) {
                assert!(
                    (found - golden).abs() <= allowed,
                    "{name} {stage}: {found} for {golden}"
                );
            }
        }
        let vocab_size = engine.params.decoder.vocab_size;
        let steps = run.stages["logits"].chunks_exact(vocab_size);
        assert_eq!(steps.len(), case.logit_sum.len(), "{name}");
        let golden = case.logit_sum.iter().zip(&case.logit_abs_sum).zip(&case.max_logit);
        for (step, (logits, ((&sum, &abs_sum), &max))) in steps.zip(golden).enumerate() {
            let allowed = tolerance("logits") * (vocab_size as f64).sqrt();
            let [found, found_abs] = sums(logits);
            assert!(
                (found - sum).abs() <= allowed,
                "{name} step {step}: sum {found} for {sum}"
            );
            assert!(
                (found_abs - abs_sum).abs() <= allowed,
                "{name} step {step}: {found_abs} for {abs_sum}"
            );
            let found = f64::from(logits.iter().copied().fold(f32::MIN, f32::max));
            assert!(
                (found - max).abs() <= tolerance("logits"),
                "{name} step {step}: largest {found} for {max}"
            );
        }
    }
}

fn sums(values: &[f32]) -> [f64; 2] {
    let values = values.iter().map(|&value| f64::from(value));
    [values.clone().sum(), values.map(f64::abs).sum()]
}

/// The small model: exact ids at both delays, and the text.
#[test]
fn clips_are_transcribed_as_stored() {
    let engine = Engine::nano();
    let mut offsets = vec![0; engine.vocabulary.index_len()];
    engine.vocabulary.index(&engine.tekken, &mut offsets).unwrap();
    for clip in goldens::clips() {
        for expected in &clip.delays {
            assert!(
                expected.min_margin >= 0.05,
                "{}: too close a call for exact ids",
                clip.file
            );
            let run = engine.run(&engine.options(expected.delay_tokens), &clip.samples);
            assert_eq!(
                run.tokens, expected.tokens,
                "{} at delay {}",
                clip.file, expected.delay_tokens
            );
            let bytes = run
                .tokens
                .iter()
                .flat_map(|&id| engine.vocabulary.piece(&engine.tekken, &offsets, id).unwrap());
            let text = String::from_utf8(bytes.collect()).unwrap();
            assert_eq!(text.trim(), expected.text, "{}", clip.file);
        }
    }
}
