//! Files to read, ways to write them, and spectra.

use std::f64::consts::PI;
use std::fs;
use std::path::{Path, PathBuf};

use hound::{SampleFormat, WavSpec, WavWriter};
use tempfile::TempDir;
use voxtral::core::layout::Options;
use voxtral::{AudioFile, Error, Model, Pool, Transcriber};
use voxtral_tests::goldens;

/// A compressed file of the repository.
pub fn encoded(name: &str) -> PathBuf {
    goldens::clips_dir().parent().unwrap().join("encoded").join(name)
}

/// The names without extension of the clips, and what is said in them. The first ten are there in every format.
pub fn spoken() -> Vec<(String, String)> {
    let spoken = goldens::clips().into_iter().map(|clip| {
        let delay6 = clip.delays.iter().find(|result| result.delay_tokens == 6).unwrap();
        (clip.file.strip_suffix(".wav").unwrap().to_string(), delay6.text.clone())
    });
    spoken.collect()
}

/// As [`read`], of a file that comes through a pipe.
pub fn read_piped(path: &Path) -> Result<(Vec<f32>, Vec<String>), Error> {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let (bytes, writer) = (fs::read(path).unwrap(), fifo.clone());
    // Whoever reads may stop before the end.
    let writer = std::thread::spawn(move || fs::write(writer, bytes).ok());
    let result = read(&fifo);
    writer.join().unwrap();
    result
}

/// All samples and remarks of a file, read in pieces of changing sizes.
pub fn read(path: &Path) -> Result<(Vec<f32>, Vec<String>), Error> {
    let mut file = AudioFile::open(path)?;
    let mut samples = Vec::new();
    let mut piece = vec![0.0; 4096];
    for size in [1, 7, 160, 4096, 1279].into_iter().cycle() {
        let read = file.read(&mut piece[..size])?;
        samples.extend_from_slice(&piece[..read]);
        if read < size {
            break;
        }
    }
    assert_eq!(file.read(&mut piece)?, 0, "the end stays the end");
    Ok((samples, file.remarks()?))
}

/// All samples of a file about which nothing is odd.
pub fn samples(path: &Path) -> Vec<f32> {
    let (samples, remarks) = read(path).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(remarks, [""; 0], "{}", path.display());
    samples
}

/// The text of a file with the small model.
pub fn text(path: &Path) -> String {
    let model = Model::embedded().unwrap();
    let pool = Pool::new(1);
    let options = Options::from(model.vocabulary());
    let mut transcriber = Transcriber::new(&model, &options, &pool).unwrap();
    let mut text = Vec::new();
    transcriber.push(&samples(path), &mut text).unwrap();
    transcriber.finish(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// Files of one test.
pub struct Files(TempDir);

impl Files {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// A WAV of 32-bit floats, mono.
    pub fn float(&self, rate: u32, samples: impl IntoIterator<Item = f64>) -> PathBuf {
        let path = self.path("float.wav");
        let spec = spec(1, rate, 32);
        let mut writer = WavWriter::create(&path, spec).unwrap();
        for sample in samples {
            writer.write_sample(sample as f32).unwrap();
        }
        writer.finalize().unwrap();
        path
    }

    /// A WAV of integers; every frame is written to all channels.
    pub fn integers(&self, channels: u16, rate: u32, bits: u16, samples: &[i32]) -> PathBuf {
        let path = self.path("integers.wav");
        let mut writer = WavWriter::create(&path, spec(channels, rate, bits)).unwrap();
        for sample in samples {
            for _ in 0..channels {
                writer.write_sample(*sample).unwrap();
            }
        }
        writer.finalize().unwrap();
        path
    }
}

fn spec(channels: u16, sample_rate: u32, bits_per_sample: u16) -> WavSpec {
    WavSpec {
        channels,
        sample_rate,
        bits_per_sample,
        sample_format: if bits_per_sample == 32 {
            SampleFormat::Float
        } else {
            SampleFormat::Int
        },
    }
}

/// The samples of a 16-bit clip.
pub fn clip(name: &str) -> Vec<i32> {
    let path = goldens::clips_dir().join(format!("{name}.wav"));
    let mut reader = hound::WavReader::open(path).unwrap();
    reader.samples::<i32>().map(Result::unwrap).collect()
}

/// AIFF, or AIFC with a compression type: `frames` has the bytes of all samples.
pub fn aiff(compression: Option<&[u8; 4]>, channels: u16, bits: u16, rate: u32, frames: &[u8]) -> Vec<u8> {
    let count = frames.len() as u32 * 8 / u32::from(bits) / u32::from(channels);
    let mut common = channels.to_be_bytes().to_vec();
    common.extend(count.to_be_bytes());
    common.extend(bits.to_be_bytes());
    // The rate as an 80-bit float: exponent, then 64 bits with the leading one.
    let leading = rate.leading_zeros();
    common.extend((16383 + 31 - leading as u16).to_be_bytes());
    common.extend((u64::from(rate) << 32 << leading).to_be_bytes());
    if let Some(name) = compression {
        common.extend(name);
        common.extend([0, 0]);
    }
    let mut sound = vec![0; 8];
    sound.extend(frames);

    let mut body = if compression.is_some() { b"AIFC" } else { b"AIFF" }.to_vec();
    for (name, chunk) in [(b"COMM", common), (b"SSND", sound)] {
        body.extend(name);
        body.extend((chunk.len() as u32).to_be_bytes());
        body.extend(&chunk);
        body.extend(std::iter::repeat_n(0, chunk.len() % 2));
    }
    let mut file = b"FORM".to_vec();
    file.extend((body.len() as u32).to_be_bytes());
    file.extend(body);
    file
}

/// A signal at another rate, by a windowed sinc over 64 periods of the lower rate: slow, plain and not the program's.
pub fn resampled(signal: &[i32], from: u32, to: u32) -> Vec<i32> {
    let (from, to) = (f64::from(from), f64::from(to));
    let cut = (to / from).min(1.0) * 0.95;
    let half = 32.0 / cut;
    let count = (signal.len() as f64 * to / from).round() as usize;
    let at = |time: f64| {
        let first = (time - half).ceil().max(0.0) as usize;
        let last = ((time + half).floor() as usize).min(signal.len() - 1);
        let sum = (first..=last).map(|index| {
            let x = time - index as f64;
            let sinc = if x == 0.0 { cut } else { (PI * cut * x).sin() / (PI * x) };
            f64::from(signal[index]) * sinc * (0.5 + 0.5 * (PI * x / half).cos())
        });
        sum.sum::<f64>()
    };
    (0..count)
        .map(|index| (at(index as f64 * from / to).round() as i32).clamp(-32768, 32767))
        .collect()
}

/// Levels in dB of a tone's spectrum, from 0 Hz to half the rate: a sine of amplitude 1 shows as 0 dB. The length is a
/// power of two.
pub fn spectrum(signal: &[f32]) -> Vec<f64> {
    let n = signal.len();
    assert!(n.is_power_of_two());
    // Blackman-Harris: what leaks is below -92 dB.
    let window = |index: usize| {
        let x = 2.0 * PI * index as f64 / n as f64;
        0.35875 - 0.48829 * x.cos() + 0.14128 * (2.0 * x).cos() - 0.01168 * (3.0 * x).cos()
    };
    let mut values: Vec<(f64, f64)> = (0..n).map(|i| (f64::from(signal[i]) * window(i), 0.0)).collect();
    fft(&mut values);
    let scale = 2.0 / (0.35875 * n as f64);
    values[..=n / 2]
        .iter()
        .map(|(re, im)| 20.0 * (re.hypot(*im) * scale).max(1e-12).log10())
        .collect()
}

fn fft(values: &mut [(f64, f64)]) {
    let n = values.len();
    if n == 1 {
        return;
    }
    let mut even: Vec<_> = values.iter().copied().step_by(2).collect();
    let mut odd: Vec<_> = values.iter().copied().skip(1).step_by(2).collect();
    fft(&mut even);
    fft(&mut odd);
    for k in 0..n / 2 {
        let (sin, cos) = (-2.0 * PI * k as f64 / n as f64).sin_cos();
        let turned = (odd[k].0 * cos - odd[k].1 * sin, odd[k].0 * sin + odd[k].1 * cos);
        values[k] = (even[k].0 + turned.0, even[k].1 + turned.1);
        values[k + n / 2] = (even[k].0 - turned.0, even[k].1 - turned.1);
    }
}

/// The samples by which `late` lies behind `signal`: of those asked for, where they agree best.
pub fn delay(signal: &[f32], late: &[f32], among: std::ops::Range<isize>) -> isize {
    let agreement = |delay: isize| {
        let sum = signal.iter().enumerate().map(|(index, sample)| {
            let other = index.checked_add_signed(delay).and_then(|index| late.get(index));
            f64::from(*sample) * f64::from(*other.unwrap_or(&0.0))
        });
        sum.sum::<f64>()
    };
    among.max_by(|a, b| agreement(*a).total_cmp(&agreement(*b))).unwrap()
}
