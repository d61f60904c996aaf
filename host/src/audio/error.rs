//! Why a file that is no WAV cannot be decoded.

use std::fmt;

use voxtral_core::format::wav::{MAX_RATE, MIN_RATE, WavError};

use crate::recognise::Kind;

/// What most people have that reads everything.
pub(super) const CONVERT: &str = "convert it with: ffmpeg -i IN -ar 16000 -ac 1 OUT.wav";

/// Audio that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AudioError {
    /// The file begins with `found[..length]`, which no known format does.
    Unknown {
        /// The first bytes.
        found: [u8; 12],
        /// How many there are.
        length: u8,
    },
    /// The file is something else than audio.
    NotAudio {
        /// What it is.
        found: Kind,
    },
    /// The file has weights of a model: safetensors.
    Weights,
    /// A WAV of a codec that is not read.
    WavCodec {
        /// The codec.
        source: WavError,
        /// Why, or what to do.
        hint: &'static str,
    },
    /// The format is known, and not read.
    Format {
        /// Its name.
        container: &'static str,
    },
    /// The format is one that this build of the program was made without.
    LeftOut {
        /// Its name.
        container: &'static str,
        /// The cargo feature that it needs.
        feature: &'static str,
    },
    /// There is no audio in it that can be read: video without sound, for example.
    NoAudio {
        /// The name of the format.
        container: &'static str,
    },
    /// The audio is of a codec that is not read.
    Codec {
        /// The name of the format.
        container: &'static str,
        /// The name of the codec.
        codec: &'static str,
    },
    /// The file contradicts its format.
    Damaged {
        /// The name of the format.
        container: &'static str,
        /// What the decoder says.
        what: String,
    },
    /// A sample rate outside [`MIN_RATE`] to [`MAX_RATE`].
    SampleRate {
        /// In Hz.
        found: u32,
    },
}

impl fmt::Display for AudioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { found, length } => {
                let found = &found[..usize::from(*length).min(found.len())];
                write!(
                    f,
                    "no audio format that is known; it begins with \"{}\"; if it is audio, {CONVERT}",
                    found.escape_ascii()
                )
            }
            Self::NotAudio { found } => {
                write!(f, "no audio but {found}")?;
                match found {
                    Kind::Packed { unpack, .. } => write!(f, "; unpack it with {unpack} first"),
                    Kind::Tar | Kind::Zip => write!(f, "; unpack it first"),
                    _ => Ok(()),
                }
            }
            Self::Weights => write!(
                f,
                "no audio but weights of a model (safetensors); give the directory that they are in with -d"
            ),
            Self::WavCodec { source, hint } => write!(f, "{source}; {hint}"),
            Self::Format { container } => write!(f, "{container}, which is not read; {CONVERT}"),
            Self::LeftOut { container, feature } => write!(
                f,
                "{container}; this build does not read it, it was made without the feature {feature}"
            ),
            Self::NoAudio { container } => {
                write!(f, "{container} without any sound that can be read")
            }
            Self::Codec { container, codec } => {
                write!(f, "{container} with {codec} sound, which is not read; {CONVERT}")
            }
            Self::Damaged { container, what } => write!(f, "{container} that cannot be decoded: {what}"),
            Self::SampleRate { found } => write!(
                f,
                "the audio has a sample rate of {found} Hz; {MIN_RATE} to {MAX_RATE} Hz are read"
            ),
        }
    }
}

impl std::error::Error for AudioError {}
