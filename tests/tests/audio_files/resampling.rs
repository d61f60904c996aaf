//! W7: 8, 11.025, 22.05, 44.1, 48, 96 kHz and others: band-limited, and exact in position to the end.

use std::f64::consts::PI;
use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};

use proptest::prelude::*;

use crate::support::{Files, samples, spectrum};

const RATES: [u32; 10] = [
    8_000, 11_025, 22_050, 32_000, 44_100, 48_000, 96_000, 44_101, 192_000, 768_000,
];

/// A sine of amplitude 1 for `seconds` that comes and goes within 50 ms.
fn tone(rate: u32, hertz: f64, seconds: f64) -> impl Iterator<Item = f64> {
    let rate = f64::from(rate);
    let count = (seconds * rate) as usize;
    (0..count).map(move |index| {
        let time = index as f64 / rate;
        let edge = time.min(seconds - time).min(0.05) / 0.05;
        (2.0 * PI * hertz * time).sin() * (0.5 - 0.5 * (PI * edge).cos())
    })
}

fn peak_db(signal: &[f32]) -> f64 {
    let peak = signal.iter().fold(0.0f32, |peak, sample| peak.max(sample.abs()));
    20.0 * f64::from(peak.max(1e-9)).log10()
}

/// 8192 samples in the middle of half a second and more.
fn middle(signal: &[f32]) -> &[f32] {
    let start = (signal.len() - 8192) / 2;
    &signal[start..start + 8192]
}

/// Less than -60 dB of a tone at 10 kHz is left anywhere in the spectrum, and in the samples.
#[test]
fn w7_a_tone_at_10_khz_in_44_1_khz_is_gone() {
    let files = Files::new();
    let result = samples(&files.float(44_100, tone(44_100, 10_000.0, 1.0)));
    assert_eq!(result.len(), 16_000);
    let highest = spectrum(middle(&result)).into_iter().fold(f64::MIN, f64::max);
    println!(
        "10 kHz in 44.1 kHz: {highest:.1} dB in the spectrum, {:.1} dB peak",
        peak_db(&result)
    );
    assert!(highest < -80.0, "{highest} dB in the spectrum");
    assert!(peak_db(&result) < -80.0, "{} dB", peak_db(&result));
    // What is measured is there if the tone is one that passes.
    let result = samples(&files.float(44_100, tone(44_100, 1_000.0, 1.0)));
    let highest = spectrum(middle(&result)).into_iter().fold(f64::MIN, f64::max);
    assert!(highest.abs() < 1.0 && peak_db(&result).abs() < 0.1, "{highest} dB");
}

/// No tone above 8 kHz leaves an alias of -80 dB.
#[test]
fn w7_nothing_above_8_khz_leaves_an_alias() {
    let files = Files::new();
    for rate in RATES.into_iter().filter(|rate| *rate > 16_000) {
        let nyquist = f64::from(rate) / 2.0;
        let mut worst = f64::MIN;
        for hertz in [
            8_010.0, 8_200.0, 9_000.0, 10_000.0, 11_000.0, 15_900.0, 20_000.0, 24_100.0, 47_000.0, 95_000.0,
        ] {
            if hertz < nyquist {
                worst = worst.max(peak_db(&samples(&files.float(rate, tone(rate, hertz, 0.2)))));
            }
        }
        println!("{rate} Hz: alias {worst:.1} dB");
        assert!(worst < -80.0, "{rate} Hz: {worst} dB");
    }
}

/// What a speaker says passes unchanged: 50 Hz to 7 kHz, or to 0.875 of half the rate if that is less.
#[test]
fn w7_the_passband_is_flat() {
    let files = Files::new();
    for rate in RATES {
        let top = f64::from(rate.min(16_000)) / 2.0 * 0.875;
        let mut worst = 0.0f64;
        for hertz in [50.0, 0.1 * top, 0.4 * top, 0.7 * top, 0.9 * top, top] {
            let result = samples(&files.float(rate, tone(rate, hertz, 0.2)));
            let inner = &result[result.len() * 3 / 10..result.len() * 7 / 10];
            let power = inner.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>() / inner.len() as f64;
            // The power over other than whole periods is off by up to this.
            let slack = 10.0 * (1.0 + 1.0 / (4.0 * PI * hertz * 0.08)).log10();
            worst = worst.max((10.0 * (2.0 * power).log10()).abs() - slack);
        }
        println!("{rate} Hz: flat within {worst:.3} dB up to {top} Hz");
        assert!(worst < 0.1, "{rate} Hz: {worst} dB");
    }
}

/// Rates below 16 kHz bring no images of what they have.
#[test]
fn w7_low_rates_have_no_images() {
    let files = Files::new();
    for rate in [8_000, 11_025] {
        let hertz = f64::from(rate) / 2.0 * 0.85;
        let result = samples(&files.float(rate, tone(rate, hertz, 1.0)));
        let levels = spectrum(middle(&result));
        let bin = hertz / 16_000.0 * 8192.0;
        let elsewhere = levels
            .iter()
            .enumerate()
            .filter(|(index, _)| (*index as f64 - bin).abs() > 8.0)
            .fold(f64::MIN, |highest, (_, level)| highest.max(*level));
        println!("{rate} Hz: {elsewhere:.1} dB beside the tone");
        assert!(elsewhere < -80.0, "{rate} Hz: {elsewhere} dB");
    }
}

/// An impulse at any sample comes out where it belongs, to a hundredth of an output sample.
#[test]
fn w7_positions_are_exact_at_every_rate() {
    let files = Files::new();
    for rate in RATES {
        // Away from the ends, so that the whole of the filter is seen.
        let count = rate as usize / 5;
        for place in [count / 2, count / 2 + 1, count * 2 / 3] {
            let signal = (0..count).map(|index| if index == place { 1.0 } else { 0.0 });
            let result = samples(&files.float(rate, signal));
            let weight: f64 = result.iter().map(|sample| f64::from(*sample)).sum();
            let moment: f64 = result.iter().enumerate().map(|(i, s)| i as f64 * f64::from(*s)).sum();
            let expected = place as f64 * 16_000.0 / f64::from(rate);
            let error = moment / weight - expected;
            assert!(error.abs() < 0.01, "{rate} Hz, sample {place}: off by {error}");
        }
    }
}

/// Ten minutes at 44.1 kHz end on the right sample, and what is near the end is at its place.
#[test]
fn w7_ten_minutes_end_on_the_right_sample() {
    let files = Files::new();
    let path = files.integers(1, 44_100, 16, &[]);
    let count = 44_100u64 * 600 + 17;
    // A multiple of 441 falls on an output sample.
    let place = count / 441 * 441 - 44_100;
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    let header = file.metadata().unwrap().len();
    // Silence is a hole in the file; hound counts only what it writes itself.
    file.set_len(header + 2 * count).unwrap();
    for (offset, size) in [(4, header - 8 + 2 * count), (header - 4, 2 * count)] {
        file.seek(SeekFrom::Start(offset)).unwrap();
        file.write_all(&(size as u32).to_le_bytes()).unwrap();
    }
    file.seek(SeekFrom::Start(header + 2 * place)).unwrap();
    file.write_all(&i16::MAX.to_le_bytes()).unwrap();

    let start = std::time::Instant::now();
    let result = samples(&path);
    println!(
        "resampling costs {:.3} ms a second of audio",
        start.elapsed().as_secs_f64() * 1e3 / 600.0
    );
    assert_eq!(
        result.len(),
        9_600_006,
        "600 s and 17 samples at 44.1 kHz, 6.17 at 16 kHz"
    );
    let highest = (0..result.len())
        .max_by(|a, b| result[*a].total_cmp(&result[*b]))
        .unwrap();
    assert_eq!(highest as u64, place * 160 / 441);
    for distance in 1..100 {
        let (before, after) = (result[highest - distance], result[highest + distance]);
        assert!((before - after).abs() < 1e-5, "not in the middle: {before} {after}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any rate and length, up to an odd one: the length is the nearest, and a constant stays what it is.
    #[test]
    fn w7_lengths_are_the_nearest(rate in 1_000u32..=96_000, count in 0usize..3_000) {
        let files = Files::new();
        let result = samples(&files.float(rate, std::iter::repeat_n(0.5, count)));
        let exact = count as f64 * 16_000.0 / f64::from(rate);
        prop_assert!((result.len() as f64 - exact).abs() <= 0.5, "{} for {exact}", result.len());
        // Away from both ends by half of the filter, which has 256 periods of the lower rate.
        let edge = 130 * 16_000usize.div_ceil(rate.min(16_000) as usize);
        if result.len() > 2 * edge {
            for sample in &result[edge..result.len() - edge] {
                prop_assert!((sample - 0.5).abs() < 1e-4, "{sample}");
            }
        }
    }
}
