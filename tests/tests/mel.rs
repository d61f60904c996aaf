//! Log-mel frames against the stored vectors and against a plain transform in double precision.

use std::f64::consts::PI;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use voxtral_core::audio::{HOP, LogMel, MEL_BINS, SAMPLE_RATE, WINDOW, filters};
use voxtral_tests::npy;

const MEL: LogMel = LogMel::new(1.5);
const SILENCE: f32 = -0.625;
/// Single-precision noise of the transform; it comes nearest to this in the valleys of frames that are loud
/// elsewhere.
const TOLERANCE: f64 = 1e-4;
const BINS: usize = WINDOW / 2 + 1;

type Frame = [f32; MEL_BINS];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens/mel").join(name)
}

fn index() -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(golden("index.json")).unwrap()).unwrap()
}

/// The frame around `centre` of a signal that `at` gives sample by sample.
fn frame_at(centre: i64, at: impl Fn(i64) -> f32) -> Frame {
    let mut frame = [f32::NAN; MEL_BINS];
    MEL.frame(&std::array::from_fn(|n| at(centre + n as i64 - 200)), &mut frame);
    frame
}

/// Frames of the bare signal: mirrored at both ends without repeating the edge sample, the last frame dropped.
fn raw(signal: &[f32]) -> Vec<Frame> {
    let last = signal.len() as i64 - 1;
    let at = |i: i64| signal[(last - (last - i.abs()).abs()) as usize];
    (0..signal.len() / HOP)
        .map(|i| frame_at((i * HOP) as i64, at))
        .collect()
}

/// Frames of the signal as a recording: 32 tokens of silence, the signal up to a whole token, 17 tokens of silence.
fn padded(signal: &[f32]) -> Vec<Frame> {
    const TOKEN: usize = 1280;
    let left = 32 * TOKEN;
    let samples = left + signal.len().next_multiple_of(TOKEN) + 17 * TOKEN;
    let at = |i: i64| {
        let i = usize::try_from(i - left as i64).ok();
        i.and_then(|i| signal.get(i)).copied().unwrap_or(0.0)
    };
    (0..samples / HOP).map(|i| frame_at((i * HOP) as i64, at)).collect()
}

fn input(name: &str) -> Vec<f32> {
    npy::read(golden(&format!("in_{name}.npy")))
        .data
        .iter()
        .map(|&x| x as f32)
        .collect()
}

fn speech(name: &str, samples: usize) -> Vec<f32> {
    let path = golden(&format!("../audio/{name}.wav"));
    let mut wav = hound::WavReader::open(path).unwrap();
    let samples: Vec<_> = wav
        .samples::<i16>()
        .take(samples)
        .map(|x| f32::from(x.unwrap()) / 32768.0)
        .collect();
    samples
}

fn assert_near(name: &str, frames: &[Frame], expected: &npy::Array) {
    assert_eq!(expected.shape, [frames.len(), MEL_BINS], "{name}");
    for (i, (value, expected)) in frames.iter().flatten().zip(&expected.data).enumerate() {
        assert!(
            (f64::from(*value) - expected).abs() <= TOLERANCE,
            "{name}: frame {}, filter {}: {value} instead of {expected}",
            i / MEL_BINS,
            i % MEL_BINS
        );
    }
}

#[test]
fn filters_equal_the_reference() {
    let expected = npy::read(golden("filters_201x128_f64.npy"));
    assert_eq!(expected.shape, [BINS, MEL_BINS]);
    let mut found = vec![0.0; BINS * MEL_BINS];
    for (bin, mel, weight) in filters() {
        found[bin * MEL_BINS + mel] = f64::from(weight);
    }
    assert_eq!(filters().count(), 394);
    for (i, (found, expected)) in found.iter().zip(&expected.data).enumerate() {
        let (bin, mel) = (i / MEL_BINS, i % MEL_BINS);
        assert!(
            (found - expected).abs() <= 1e-8,
            "bin {bin}, filter {mel}: {found} instead of {expected}"
        );
        assert_eq!(*found == 0.0, *expected == 0.0, "bin {bin}, filter {mel}");
    }
}

#[test]
fn bare_signals_equal_the_reference() {
    for name in [
        "impulse_at2000_4000",
        "ramp_399",
        "ramp_400",
        "ramp_401",
        "silence_1600",
        "square_4000",
    ] {
        assert_near(name, &raw(&input(name)), &npy::read(golden(&format!("raw_{name}.npy"))));
    }
}

#[test]
fn bare_signals_of_399_to_401_samples_have_two_frames() {
    for samples in [399, 400, 401] {
        let name = format!("ramp_{samples}");
        assert_eq!(input(&name).len(), samples);
        assert_eq!(npy::read(golden(&format!("raw_{name}.npy"))).shape, [2, MEL_BINS]);
        assert_eq!(raw(&input(&name)).len(), 2);
    }
}

#[test]
fn padded_signals_equal_the_reference_and_the_rest_is_exactly_silent() {
    let index = index();
    let mut checked = 0;
    for (name, case) in index.as_object().unwrap() {
        let Some(stored) = case["stored_frames"].as_array() else {
            continue;
        };
        let [from, to] = [&stored[0], &stored[1]].map(|at| at.as_u64().unwrap() as usize);
        let frames = padded(&input(name));
        assert_eq!(frames.len() as u64, case["padded_frames"], "{name}");
        let expected = npy::read(golden(&format!("padded_{name}_frames{from}_{to}.npy")));
        assert_near(name, &frames[from..to], &expected);
        let rest = frames[..from].iter().chain(&frames[to..]).flatten();
        assert!(rest.copied().all(|value| value == SILENCE), "{name}");
        checked += 1;
    }
    assert_eq!(checked, 8);
}

#[test]
fn speech_equals_the_reference() {
    let frames = padded(&speech("speech_b", usize::MAX));
    assert_near("speech_b", &frames, &npy::read(golden("padded_speech_b.npy")));
}

#[test]
fn speech_has_the_sums_of_the_reference() {
    for (name, file, samples) in [("speech_a4", "speech_a", 64123), ("speech_b", "speech_b", 58268)] {
        let case = &index()[name];
        let frames = padded(&speech(file, samples));
        assert_eq!(frames.len() as u64, case["padded_frames"], "{name}");
        let values = || frames.iter().flatten().map(|&value| f64::from(value));
        let (sum, abs_sum) = (values().sum::<f64>(), values().map(f64::abs).sum::<f64>());
        // The errors of 100 000 values partly cancel: 0.002 is an average of 2e-8 per value.
        assert!((sum - case["sum"].as_f64().unwrap()).abs() < 2e-3, "{name}: {sum}");
        assert!(
            (abs_sum - case["abs_sum"].as_f64().unwrap()).abs() < 2e-3,
            "{name}: {abs_sum}"
        );
    }
}

#[test]
fn silence_is_exact() {
    assert_eq!(frame_at(0, |_| 0.0), [SILENCE; MEL_BINS]);
    assert_eq!(frame_at(0, |_| -0.0), [SILENCE; MEL_BINS]);
    let mut frame = [f32::NAN; MEL_BINS];
    LogMel::new(0.5).frame(&[0.0; WINDOW], &mut frame);
    assert_eq!(frame, [-0.875; MEL_BINS]);
}

#[test]
fn samples_that_are_not_finite_do_no_harm() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE] {
        frame_at(0, |_| bad);
        frame_at(0, |i| if i == 7 { bad } else { 0.1 });
    }
}

/// The definition, in double precision: window, sum over all samples for every bin, filters, logarithm.
///
/// Gives, for every filter, the least and the greatest value when every bin of the spectrum is off by as much as
/// rounding to single precision explains: `units` in the last place of the norm of the windowed samples.
fn plain(samples: &[f32; WINDOW], ceiling: f64, units: f64) -> Vec<(f64, f64)> {
    let circle: Vec<(f64, f64)> = (0..WINDOW)
        .map(|i| (2.0 * PI * i as f64 / WINDOW as f64).sin_cos())
        .collect();
    let windowed: Vec<f64> = samples
        .iter()
        .zip(&circle)
        .map(|(&x, (_, cos))| f64::from(x) * (0.5 - 0.5 * cos))
        .collect();
    let noise = units * f64::from(f32::EPSILON) * windowed.iter().map(|x| x * x).sum::<f64>().sqrt();
    let magnitudes: Vec<f64> = (0..BINS)
        .map(|bin| {
            let (mut re, mut im) = (0.0, 0.0);
            for (n, x) in windowed.iter().enumerate() {
                let (sin, cos) = circle[bin * n % WINDOW];
                re += x * cos;
                im -= x * sin;
            }
            re.hypot(im)
        })
        .collect();
    let mut power = [(0.0, 0.0); MEL_BINS];
    for (bin, mel, weight) in filters() {
        power[mel].0 += f64::from(weight) * (magnitudes[bin] - noise).max(0.0).powi(2);
        power[mel].1 += f64::from(weight) * (magnitudes[bin] + noise).powi(2);
    }
    let value = |p: f64| (p.max(1e-10).log10().max(ceiling - 8.0) + 4.0) / 4.0;
    power.map(|(least, greatest)| (value(least), value(greatest))).to_vec()
}

fn frame_of(samples: &[f32; WINDOW], ceiling: f32) -> Frame {
    let mut frame = [f32::NAN; MEL_BINS];
    LogMel::new(ceiling).frame(samples, &mut frame);
    frame
}

/// Noise with an envelope that rises or falls.
fn noises() -> impl Strategy<Value = [f32; WINDOW]> {
    let noise = prop::collection::vec(-1.0f32..1.0, WINDOW);
    (noise, -4.0f32..0.0, 0.99f32..1.01).prop_map(|(noise, level, growth)| {
        std::array::from_fn(|n| noise[n] * 10f32.powf(level) * growth.powi(n as i32 - 200))
    })
}

/// A few sinusoids of any frequency, 0 Hz included, over noise that may be far weaker.
fn tones() -> impl Strategy<Value = [f32; WINDOW]> {
    let tones = prop::collection::vec((0.0f32..8000.0, 0.0f32..0.25, 0.0f32..6.3), 1..5);
    (noises(), tones, -6.0f32..0.0).prop_map(|(noise, tones, level)| {
        std::array::from_fn(|n| {
            let time = n as f32 / SAMPLE_RATE as f32;
            tones
                .iter()
                .fold(noise[n] * 10f32.powf(level), |sum, (hz, height, phase)| {
                    sum + height * (2.0 * std::f32::consts::PI * hz * time + phase).sin()
                })
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    #[test]
    fn noise_equals_the_plain_transform(samples in noises(), ceiling in 0.0f32..2.0) {
        let expected = plain(&samples, ceiling.into(), 0.0);
        for (mel, (value, (expected, _))) in frame_of(&samples, ceiling).iter().zip(expected).enumerate() {
            prop_assert!((f64::from(*value) - expected).abs() <= TOLERANCE, "filter {mel}: {value} instead of {expected}");
        }
    }

    /// Beside a loud tone a valley may be as weak as the rounding of the tone; there no fixed tolerance in the
    /// logarithm can hold, but the spectrum must still be right to some units in the last place of its norm.
    #[test]
    fn tones_equal_the_plain_transform_within_rounding(samples in tones(), ceiling in 0.0f32..2.0) {
        let expected = plain(&samples, ceiling.into(), 8.0);
        for (mel, (value, (least, greatest))) in frame_of(&samples, ceiling).iter().zip(expected).enumerate() {
            let value = f64::from(*value);
            prop_assert!(least - 2e-6 <= value && value <= greatest + 2e-6, "filter {mel}: {value}, not {least} to {greatest}");
        }
    }

    /// Any bits at all as samples: no panic, and no value below the floor.
    #[test]
    fn any_bits_are_survived(bits in prop::collection::vec(any::<u32>(), WINDOW)) {
        let frame = frame_at(0, |i| f32::from_bits(bits[(i + 200) as usize]));
        prop_assert!(frame.iter().all(|value| *value >= SILENCE));
    }
}
