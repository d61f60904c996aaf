//! Audio files as samples: mono, 16 kHz.
//!
//! ```text
//! file ── first bytes ──┬─ WAV (core's demuxer) ──┐
//!                       └─ decode: all others ────┴─ mean of the channels ── resample ── 16 kHz
//! ```
//!
//! The format is told by the first bytes, never by the name. What is not known is refused: nothing is taken for raw
//! samples.

#[cfg(feature = "decoders")]
mod decode;
mod error;
mod resample;
mod sniff;
mod wav;

pub use error::AudioError;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use voxtral_core::audio::SAMPLE_RATE;

use crate::error::Error;
use resample::Resampler;
use sniff::Container;
use wav::WavFile;

/// The formats that are built in, by the names that people know.
pub const fn formats() -> &'static [&'static str] {
    &[
        "WAV",
        #[cfg(feature = "wav-codecs")]
        "WAV (A-law, \u{b5}-law, ADPCM)",
        #[cfg(feature = "flac")]
        "FLAC",
        #[cfg(feature = "mp3")]
        "MP3",
        #[cfg(feature = "ogg")]
        "Ogg Vorbis",
        #[cfg(feature = "m4a")]
        "M4A (AAC)",
        #[cfg(feature = "aiff")]
        "AIFF",
    ]
}

/// An audio file, read as mono samples of the model's rate. Memory does not grow with its length.
pub struct AudioFile {
    source: Source,
    resampler: Option<Resampler>,
}

impl AudioFile {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`Error::File`] if the system refuses, [`Error::Wav`] or [`Error::Audio`] if it is no audio that can be decoded.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let source = Source::open(path)?;
        let rate = source.rate();
        let resampler = (rate as usize != SAMPLE_RATE).then(|| Resampler::new(rate));
        Ok(Self { source, resampler })
    }

    /// Fills `samples` (16 kHz, full scale is -1 to 1) from the start and says how many there are: 0 at the end of the
    /// audio.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be read, [`Error::Audio`] if nothing in it can be decoded.
    pub fn read(&mut self, samples: &mut [f32]) -> Result<usize, Error> {
        match &mut self.resampler {
            None => self.source.read(samples),
            Some(resampler) => resampler.read(samples, |samples| self.source.read(samples)),
        }
    }

    /// Length of the audio in seconds, as far as the file tells it and once samples have been read.
    pub fn seconds(&self) -> Option<f64> {
        match &self.source {
            Source::Wav(wav) => wav.seconds(),
            #[cfg(feature = "decoders")]
            Source::Decoded(decoded) => decoded.seconds(),
        }
    }

    /// What was odd about the file, once it has been read to its end: lines for a person.
    ///
    /// # Errors
    /// [`Error::Wav`] if the file ended before its audio began.
    pub fn remarks(&self) -> Result<Vec<String>, Error> {
        match &self.source {
            Source::Wav(wav) => wav.remarks(),
            #[cfg(feature = "decoders")]
            Source::Decoded(decoded) => Ok(decoded.remarks()),
        }
    }
}

/// Where samples come from: mono, at the rate of the file.
enum Source {
    Wav(Box<WavFile>),
    #[cfg(feature = "decoders")]
    Decoded(Box<decode::Decoded>),
}

impl Source {
    fn open(path: &Path) -> Result<Self, Error> {
        let mut file = Opened::open(path)?;
        let container = sniff::container(&mut file)?;
        if container == Container::Wav {
            return match WavFile::open(file) {
                Ok(wav) => Ok(Self::Wav(Box::new(wav))),
                Err(error) => Self::compressed_wav(path, error),
            };
        }
        #[cfg(feature = "decoders")]
        if container.built_in() {
            return Ok(Self::Decoded(Box::new(decode::Decoded::open(file, container)?)));
        }
        Err(file.audio(AudioError::LeftOut {
            container: container.name(),
            feature: container.feature(),
        }))
    }

    /// A WAV that core's demuxer refuses with `error`. If that is because of its codec, there may be a decoder.
    #[cfg(feature = "wav-codecs")]
    fn compressed_wav(path: &Path, error: Error) -> Result<Self, Error> {
        use voxtral_core::format::wav::WavError;
        let Error::Wav {
            source: WavError::Codec { .. },
            ..
        } = error
        else {
            return Err(error);
        };
        match decode::Decoded::open(Opened::open(path)?, Container::Wav) {
            Ok(decoded) => Ok(Self::Decoded(Box::new(decoded))),
            // The demuxer's error names the codec.
            Err(_) => Err(error),
        }
    }

    #[cfg(not(feature = "wav-codecs"))]
    fn compressed_wav(_: &Path, error: Error) -> Result<Self, Error> {
        Err(error)
    }

    /// In Hz.
    fn rate(&self) -> u32 {
        match self {
            Self::Wav(wav) => wav.rate(),
            #[cfg(feature = "decoders")]
            Self::Decoded(decoded) => decoded.rate(),
        }
    }

    fn read(&mut self, samples: &mut [f32]) -> Result<usize, Error> {
        match self {
            Self::Wav(wav) => wav.read(samples),
            #[cfg(feature = "decoders")]
            Self::Decoded(decoded) => decoded.read(samples),
        }
    }
}

/// A file with the name that errors tell.
struct Opened {
    path: PathBuf,
    file: File,
}

impl Opened {
    fn open(path: &Path) -> Result<Self, Error> {
        let refuse = |source| Error::File {
            path: path.into(),
            source,
        };
        let file = File::open(path).map_err(refuse)?;
        if file.metadata().map_err(refuse)?.is_dir() {
            return Err(refuse(io::Error::new(
                io::ErrorKind::IsADirectory,
                "is a directory, not an audio file",
            )));
        }
        Ok(Self {
            path: path.into(),
            file,
        })
    }

    fn refuse(&self, source: io::Error) -> Error {
        Error::File {
            path: self.path.clone(),
            source,
        }
    }

    fn audio(&self, source: AudioError) -> Error {
        Error::Audio {
            path: self.path.clone(),
            source,
        }
    }
}
