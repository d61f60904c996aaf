//! Pauses: what the gate lets through, and that nothing said is lost by it.

use proptest::prelude::*;
use serde_json::Value;
use voxtral::{Gate, GateOptions, Gated};
use voxtral_tests::goldens;
use voxtral_tests::program::clip;

use crate::support::{fed, to_raw, told};

/// Noise of an amplitude, and its level by definition.
fn noise(samples: usize, amplitude: f32) -> Vec<f32> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..samples).map(|_| amplitude * next()).collect()
}

fn words(stdout: &str) -> Vec<(String, f64)> {
    let word = |line| {
        let word: Value = serde_json::from_str(line).expect("a line of JSON");
        (word["text"].as_str().unwrap().to_owned(), word["end"].as_f64().unwrap())
    };
    stdout.lines().map(word).collect()
}

/// D4: speech, 20 s of noise floor, speech; then three minutes without a word, and a word. All of it is transcribed
/// with the gate and without, and times go on through pauses; with the gate the pauses cost next to nothing.
#[test]
fn d4_speech_after_pauses_is_transcribed() {
    let clips = goldens::clips();
    // The third is the last word of the second.
    let (first, second, third) = (&clips[0].samples, &clips[7].samples, &clips[7].samples[31_000..]);
    // -67 dBFS.
    let floor = |seconds: usize| noise(seconds * 16_000, 8e-4);
    let audio = [
        &first[..],
        &floor(20)[..],
        &second[..],
        &floor(180)[..],
        third,
        &floor(1)[..],
    ]
    .concat();
    let expected = format!("{} {} yes", clip(0).1, clip(7).1);
    let run = |gate: &[&str]| {
        let args = ["--stdin", "--output", "jsonl", "--debug"];
        let ran = fed(&[&args[..], gate].concat(), &to_raw(&audio), 65_536);
        let positions: u64 = told(&ran, ": positions ").parse().unwrap();
        (words(&ran.stdout), positions)
    };
    let (open, all) = run(&["--gate", "off"]);
    let (gated, few) = run(&[]);
    for words in [&open, &gated] {
        let texts: Vec<&str> = words.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts.join(" "), expected);
    }
    for ((text, open), (_, gated)) in open.iter().zip(&gated) {
        assert!(
            (open - gated).abs() <= 0.161,
            "{text}: {open} without the gate, {gated} with it"
        );
    }
    assert!(gated.last().unwrap().1 > 205.0, "the pauses count");
    // 3 clips, 2 pauses of hold, lead-in and flush, and the padding at both ends.
    assert!(few * 10 < all * 2, "{few} of {all}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the cuts: the same is heard, what is heard and what is skipped is all there is, in order; nothing loud
    /// is skipped, and a lead-in is heard before it, however soon after the gate closed.
    #[test]
    fn nothing_loud_is_skipped_and_all_is_accounted_for(
        parts in prop::collection::vec((any::<bool>(), 1usize..9000), 1..8),
        cut in 1usize..2000,
        hold in 1u8..30,
        lead_in in 0u8..30,
    ) {
        let options = GateOptions {
            hold: f32::from(hold) / 100.0,
            lead_in: f32::from(lead_in) / 100.0,
            ..GateOptions::default()
        };
        let mut audio = Vec::new();
        for (loud, samples) in parts {
            let sign = |i| if i % 2 == 0 { 1.0 } else { -1.0 };
            let amplitude = if loud { 0.1 } else { 1e-4 };
            // An offset is not loud.
            audio.extend((0..samples).map(|i| 0.3 + amplitude * sign(i)));
        }
        let run = |cut: usize| {
            let mut gate = Gate::new(options);
            let (mut heard, mut at) = (vec![false; audio.len()], 0);
            let (mut closed, mut opened) = (vec![], vec![]);
            let mut act = |gated: Gated<'_>| {
                match gated {
                    Gated::Audio(samples) => {
                        assert_eq!(samples, &audio[at..at + samples.len()]);
                        heard[at..at + samples.len()].fill(true);
                        at += samples.len();
                    }
                    Gated::Closed => closed.push(at),
                    Gated::Opened { skipped } => {
                        opened.push((at, skipped));
                        at += skipped as usize;
                    }
                }
                Ok::<(), ()>(())
            };
            for piece in audio.chunks(cut) {
                gate.push(piece, &mut act).unwrap();
            }
            gate.finish(&mut act).unwrap();
            let at = at + gate.skipped() as usize;
            (heard, closed, opened, at)
        };
        let (heard, closed, opened, at) = run(audio.len());
        prop_assert_eq!(at, audio.len());
        prop_assert_eq!(&run(cut), &(heard.clone(), closed, opened.clone(), at));
        let is_loud = |sample: &f32| (sample - 0.3).abs() > 0.01;
        for (i, sample) in audio.iter().enumerate() {
            prop_assert!(heard[i] || !is_loud(sample), "sample {} is loud and was not heard", i);
        }
        // What is heard between the opening and what opened it.
        let lead_in = 160 * usize::from(lead_in.min(hold));
        for (at, skipped) in opened {
            let from = at + skipped as usize;
            let loud = audio[from..].iter().position(is_loud).unwrap();
            prop_assert!(loud >= lead_in, "{} samples of a lead-in of {}", loud, lead_in);
        }
    }
}
