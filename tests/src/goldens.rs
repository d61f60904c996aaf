//! Access to the stored golden values (`tests/goldens`) and the small model's clips (`tests/nano/clips`).

use crate::generator::Spec;
use crate::npy::{self, Array};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Largest absolute differences from the goldens that an f32 implementation may have, for every variant. Each is
/// about twice to five times what f32 transformers shows, and still below the effect of the mistakes that only
/// tensors reveal (tanh instead of erf in GELU, 1e-6 instead of 1e-5 in RMSNorm: 7e-4 and more at the adapter).
pub mod tolerance {
    /// The mel filters in f32.
    pub const MEL_FILTERS: f64 = 1e-8;
    /// Log-mel frames.
    pub const MEL: f64 = 1e-4;
    /// Output of the convolution stem.
    pub const CONV_STEM: f64 = 6e-5;
    /// Output of an encoder layer, before the final norm.
    pub const ENC_LAYER: f64 = 6e-4;
    /// Output of the encoder.
    pub const ENC_OUT: f64 = 1.5e-4;
    /// Output of the adapter.
    pub const ADAPTER: f64 = 3e-4;
    /// The embedded delay.
    pub const T_COND: f64 = 3e-6;
    /// The delay's scales per decoder layer.
    pub const ADA: f64 = 3e-6;
    /// Logits of the first 16 generated positions.
    pub const LOGITS: f64 = 2e-3;
}

/// The audio inputs by name.
pub const AUDIO: [&str; 5] = ["speech_a4", "speech_b", "long66", "empty", "one_sample"];

/// Variant and directory of every case.
pub const CASES: [(char, &str); 12] = [
    ('A', "speech_a4"),
    ('A', "long66"),
    ('B', "speech_b"),
    ('B', "empty"),
    ('B', "one_sample"),
    ('C', "speech_a4_delay6"),
    ('C', "speech_a4_delay2"),
    ('C', "speech_a4_delay12"),
    ('C', "speech_a4_delay1"),
    ('C', "speech_a4_delay30"),
    ('D', "speech_b"),
    ('E', "speech_b"),
];

/// `tests/` of this repository.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The directory of the goldens.
pub fn dir() -> PathBuf {
    root().join("goldens")
}

/// Parses the JSON file at `path`.
pub fn json(path: impl AsRef<Path>) -> Value {
    let path = path.as_ref();
    let bytes = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Reads a 16 kHz mono 16-bit WAV; a sample is the stored number / 32768.
fn wav(path: &Path) -> Vec<f32> {
    let reader = hound::WavReader::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let spec = reader.spec();
    assert_eq!(
        (spec.sample_rate, spec.channels, spec.bits_per_sample),
        (16000, 1, 16),
        "{}",
        path.display()
    );
    reader
        .into_samples::<i16>()
        .map(|s| f32::from(s.expect("whole samples")) / 32768.0)
        .collect()
}

/// The samples of one of [`AUDIO`].
pub fn audio(name: &str) -> Vec<f32> {
    let file = |name: &str| wav(&dir().join("audio").join(name));
    match name {
        "speech_a4" => file("speech_a.wav")[..64123].to_vec(),
        "speech_b" => file("speech_b.wav"),
        // Six copies, loud and quiet; the factors are exact in f32.
        "long66" => {
            let once = file("speech_a.wav");
            let gains = [0.625, 0.9375, 0.75, 0.375, 1.0, 0.875];
            gains
                .iter()
                .flat_map(|gain| once.iter().map(move |x| x * gain))
                .collect()
        }
        "empty" => Vec::new(),
        "one_sample" => vec![0.5],
        _ => panic!("no golden audio {name}"),
    }
}

/// One run of one variant: what `run.json` says of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The model.
    pub variant: char,
    /// Name of the case's directory.
    pub case: String,
    /// Name of the audio, for [`audio`].
    pub audio: &'static str,
    /// The delay in tokens.
    pub delay_tokens: usize,
    /// The prompt.
    pub prompt_ids: Vec<u32>,
    /// The generated tokens, with the final 2 if it came.
    pub tokens: Vec<u32>,
    /// The two likeliest ids of every step.
    pub top2: Vec<[u32; 2]>,
    /// The largest logit of every step.
    pub max_logit: Vec<f64>,
    /// Its distance from the second largest.
    pub margin: Vec<f64>,
    /// The sum of all logits of every step.
    pub logit_sum: Vec<f64>,
    /// The sum of their absolute values.
    pub logit_abs_sum: Vec<f64>,
    /// Decoder positions.
    pub audio_tokens: usize,
    /// Mel frames.
    pub mel_frames: usize,
    /// Samples with both paddings.
    pub padded_samples: usize,
    /// SHA-256 of those samples as little-endian f32, in hexadecimal.
    pub padded_sha256: String,
    /// Sum over the adapter's output, and sum of absolute values.
    pub adapter_sums: [f64; 2],
    /// Sum over the encoder's output, and sum of absolute values.
    pub enc_out_sums: [f64; 2],
    /// The bytes of all text tokens.
    pub text_bytes: Vec<u8>,
    /// The text when bytes are joined across control ids before decoding.
    pub text: String,
    /// The text when each run of text ids is decoded by itself, as mistral-common does.
    pub text_by_runs: String,
}

impl Case {
    /// Reads the case in directory `case` of `variant`.
    pub fn read(variant: char, case: &str) -> Self {
        let run = json(dir().join(format!("variant_{variant}/{case}/run.json")));
        let numbers = |key: &str| list(&run[key], float);
        let sums = |key: &str| [float(&run[format!("{key}_sum")]), float(&run[format!("{key}_abs_sum")])];
        Case {
            variant,
            case: case.into(),
            audio: AUDIO
                .into_iter()
                .find(|name| case.starts_with(name))
                .expect("a case is named after its audio"),
            delay_tokens: int(&run["delay_tokens"]),
            prompt_ids: list(&run["prompt_ids"], id),
            tokens: list(&run["tokens"], id),
            top2: list(&run["top2"], |pair| [id(&pair[0]), id(&pair[1])]),
            max_logit: numbers("max_logit"),
            margin: numbers("margin"),
            logit_sum: numbers("logit_sum"),
            logit_abs_sum: numbers("logit_abs_sum"),
            audio_tokens: int(&run["audio_tokens"]),
            mel_frames: int(&run["mel_frames"]),
            padded_samples: int(&run["padded_samples"]),
            padded_sha256: string(&run["padded_sha256_f32le"]),
            adapter_sums: sums("adapter"),
            enc_out_sums: sums("enc_out"),
            text_bytes: hex(&string(&run["text_bytes_hex"])),
            text: string(&run["text_joined_bytes_utf8_lossy"]),
            text_by_runs: string(&run["text_mistral_common_runs"]),
        }
    }

    /// All cases.
    pub fn all() -> Vec<Case> {
        CASES
            .into_iter()
            .map(|(variant, case)| Case::read(variant, case))
            .collect()
    }

    /// The model's dimensions and seed.
    pub fn spec(&self) -> Spec {
        Spec::variant(self.variant)
    }

    /// The samples.
    pub fn samples(&self) -> Vec<f32> {
        audio(self.audio)
    }

    /// The stored array of a stage (`conv_stem`, `enc_layer0`…, `enc_out`, `adapter`, `t_cond`, `ada`, `logits`), if
    /// this case has it.
    pub fn array(&self, stage: &str) -> Option<Array> {
        let path = dir().join(format!("variant_{}/{}/{stage}.npy", self.variant, self.case));
        path.exists().then(|| npy::read(path))
    }
}

/// A clip for the small model, with what the PyTorch implementation made of it.
#[derive(Clone, Debug)]
pub struct Clip {
    /// Name of the WAV file in `tests/nano/clips`.
    pub file: String,
    /// Its samples.
    pub samples: Vec<f32>,
    /// The results at each delay.
    pub delays: Vec<ClipResult>,
}

/// What the small model says to a clip at one delay.
#[derive(Clone, Debug)]
pub struct ClipResult {
    /// The delay in tokens.
    pub delay_tokens: usize,
    /// Token ids from the first generated position to the end of the audio.
    pub tokens: Vec<u32>,
    /// Their text, stripped of space at both ends.
    pub text: String,
    /// The smallest distance of the two largest logits over all steps.
    pub min_margin: f64,
}

/// The directory of the clips.
pub fn clips_dir() -> PathBuf {
    root().join("nano/clips")
}

/// The directory of the small model.
pub fn nano_dir() -> PathBuf {
    root().join("../host/nano")
}

/// All clips.
pub fn clips() -> Vec<Clip> {
    let expected = json(clips_dir().join("expected.json"));
    let clips = list(&expected["clips"], |clip| {
        let file = string(&clip["file"]);
        let samples = wav(&clips_dir().join(&file));
        assert_eq!(samples.len(), int(&clip["samples"]), "{file}");
        let results = clip["delay"].as_object().expect("results by delay").iter();
        let mut delays: Vec<ClipResult> = results
            .map(|(delay, result)| ClipResult {
                delay_tokens: delay.parse().expect("a delay in tokens"),
                tokens: list(&result["tokens"], id),
                text: string(&result["text"]),
                min_margin: float(&result["min_margin"]),
            })
            .collect();
        delays.sort_by_key(|result| result.delay_tokens);
        Clip { file, samples, delays }
    });
    assert!(!clips.is_empty());
    clips
}

fn list<T>(value: &Value, item: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().expect("an array").iter().map(item).collect()
}

fn int(value: &Value) -> usize {
    value.as_u64().expect("a whole number") as usize
}

fn id(value: &Value) -> u32 {
    u32::try_from(int(value)).expect("a token id")
}

fn float(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn string(value: &Value) -> String {
    value.as_str().expect("text").into()
}

/// Bytes from hexadecimal digits.
pub fn hex(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len()).step_by(2);
    pairs
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).expect("hexadecimal digits"))
        .collect()
}
