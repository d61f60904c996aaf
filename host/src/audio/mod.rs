//! Audio files and pipes as samples: mono, 16 kHz.
//!
//! ```text
//! file, pipe ── first bytes ──┬─ WAV (core's demuxer) ──┐
//!                             └─ decode: all others ────┴─ mean of the channels ── resample ── 16 kHz
//! ```
//!
//! The format is told by the first bytes, never by the name. In a file what is not known is refused: nothing is taken
//! for raw samples. Standard input without any known beginning is raw samples.

#[cfg(feature = "decoders")]
mod decode;
mod error;
#[cfg(feature = "flac")]
mod flac;
#[cfg(all(feature = "mic", target_os = "linux"))]
mod microphone;
#[cfg(feature = "ogg")]
mod ogg;
mod resample;
#[cfg(feature = "wav-codecs")]
mod riff;
mod sniff;
mod tail;
mod wav;

pub use error::AudioError;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use voxtral_core::audio::SAMPLE_RATE;
use voxtral_core::format::wav::{Encoding, WavError};

use crate::error::Error;
use crate::patience::Patient;
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

/// Samples without a header: what standard input is taken for unless its first bytes say something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw {
    /// How a sample is stored.
    pub encoding: Encoding,
    /// Frames per second.
    pub rate: u32,
    /// Samples per frame.
    pub channels: u16,
}

impl Default for Raw {
    /// The model's own: s16le, 16 kHz, mono.
    fn default() -> Self {
        Self {
            encoding: Encoding::PcmS16,
            rate: SAMPLE_RATE as u32,
            channels: 1,
        }
    }
}

/// An audio file, read as mono samples of the model's rate. Memory does not grow with its length.
pub struct AudioFile {
    source: Source,
    resampler: Option<Resampler>,
    /// What was taken for raw samples and does not begin like them.
    mistaken: Option<&'static str>,
}

impl AudioFile {
    /// Opens a file or a pipe and reads its header.
    ///
    /// # Errors
    /// [`Error::File`] if the system refuses, [`Error::Wav`] or [`Error::Audio`] if it is no audio that can be decoded.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self::new(Source::open(path)?))
    }

    /// Standard input. Its first bytes tell the format, however they arrive; unless they are known it is raw samples
    /// as [`Raw::default`] has them. Waits for the first bytes.
    ///
    /// # Errors
    /// As [`AudioFile::open`].
    pub fn stdin() -> Result<Self, Error> {
        Ok(Self::new(Source::stdin()?))
    }

    /// Standard input as raw samples, whatever its first bytes are.
    ///
    /// # Errors
    /// [`Error::File`] if the system refuses, [`Error::Wav`] for a rate or number of channels that cannot be.
    pub fn raw_stdin(raw: Raw) -> Result<Self, Error> {
        Self::raw(Opened::stdin()?, raw)
    }

    /// A file or a pipe as raw samples, whatever its first bytes are.
    ///
    /// # Errors
    /// As [`AudioFile::raw_stdin`].
    pub fn open_raw(path: &Path, raw: Raw) -> Result<Self, Error> {
        Self::raw(Opened::open(path)?, raw)
    }

    fn raw(mut opened: Opened, raw: Raw) -> Result<Self, Error> {
        let mistaken = sniff::beginning(&mut opened)?;
        let wav = WavFile::raw(opened, raw)?;
        Ok(Self {
            mistaken,
            ..Self::new(Source::Wav(Box::new(wav)))
        })
    }

    /// A microphone by its name in ALSA (`default`). It has no end.
    ///
    /// # Errors
    /// [`Error::File`] if there is none, [`Error::NoMicrophone`] if this build has no feature `mic`.
    pub fn microphone(device: &str) -> Result<Self, Error> {
        #[cfg(all(feature = "mic", target_os = "linux"))]
        {
            let microphone = microphone::Microphone::open(device)?;
            Ok(Self::new(Source::Microphone(Box::new(microphone))))
        }
        #[cfg(not(all(feature = "mic", target_os = "linux")))]
        {
            let _ = device;
            Err(Error::NoMicrophone)
        }
    }

    /// Whether whoever writes the audio waits until it is read; a microphone does not.
    pub(crate) fn waits(&self) -> bool {
        match &self.source {
            #[cfg(all(feature = "mic", target_os = "linux"))]
            Source::Microphone(_) => false,
            _ => true,
        }
    }

    /// Samples that were lost before they could be read, since this was last asked.
    pub(crate) fn take_lost(&mut self) -> u64 {
        match &mut self.source {
            #[cfg(all(feature = "mic", target_os = "linux"))]
            Source::Microphone(microphone) => {
                let rate = u64::from(microphone.rate());
                microphone.take_lost() * SAMPLE_RATE as u64 / rate
            }
            _ => 0,
        }
    }

    fn new(source: Source) -> Self {
        let rate = source.rate();
        let resampler = (rate as usize != SAMPLE_RATE).then(|| Resampler::new(rate));
        Self {
            source,
            resampler,
            mistaken: None,
        }
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
            #[cfg(all(feature = "mic", target_os = "linux"))]
            Source::Microphone(_) => None,
        }
    }

    /// What was odd about the file, once it has been read to its end: lines for a person.
    ///
    /// # Errors
    /// [`Error::Wav`] if the file ended before its audio began.
    pub fn remarks(&self) -> Result<Vec<String>, Error> {
        let mut lines = self.mistaken_line();
        lines.extend(match &self.source {
            Source::Wav(wav) => wav.remarks()?,
            #[cfg(feature = "decoders")]
            Source::Decoded(decoded) => decoded.remarks(),
            #[cfg(all(feature = "mic", target_os = "linux"))]
            Source::Microphone(_) => Vec::new(),
        });
        Ok(lines)
    }

    /// [`AudioFile::remarks`], each with the file in front of it.
    ///
    /// # Errors
    /// As [`AudioFile::remarks`].
    pub(crate) fn remarks_on(&self, path: &Path) -> Result<impl Iterator<Item = String>, Error> {
        let lines = self.remarks()?.into_iter();
        Ok(lines.map(move |line| format!("{}: {line}", path.display())))
    }

    /// What was odd about the audio so far, but for what only says that it did not go on.
    pub(crate) fn remarks_so_far(&self) -> Vec<String> {
        let mut lines = self.mistaken_line();
        match &self.source {
            Source::Wav(wav) => lines.extend(wav.remarks_so_far()),
            #[cfg(feature = "decoders")]
            Source::Decoded(decoded) => lines.extend(decoded.remarks_so_far()),
            #[cfg(all(feature = "mic", target_os = "linux"))]
            Source::Microphone(_) => {}
        }
        lines
    }

    /// A number that changes when [`AudioFile::remarks_so_far`] does.
    pub(crate) fn oddities(&self) -> u64 {
        u64::from(self.mistaken.is_some())
            + match &self.source {
                Source::Wav(wav) => wav.oddities(),
                #[cfg(feature = "decoders")]
                Source::Decoded(decoded) => decoded.oddities(),
                #[cfg(all(feature = "mic", target_os = "linux"))]
                Source::Microphone(_) => 0,
            }
    }

    fn mistaken_line(&self) -> Vec<String> {
        let line = |name| {
            format!("it begins like {name}, and was taken as raw samples, as --format, --rate and --channels ask for")
        };
        self.mistaken.map(line).into_iter().collect()
    }
}

/// Where samples come from: mono, at the rate of the file.
enum Source {
    Wav(Box<WavFile>),
    #[cfg(feature = "decoders")]
    Decoded(Box<decode::Decoded>),
    #[cfg(all(feature = "mic", target_os = "linux"))]
    Microphone(Box<microphone::Microphone>),
}

impl Source {
    fn open(path: &Path) -> Result<Self, Error> {
        let mut file = Opened::open(path)?;
        match sniff::container(&mut file) {
            Ok(container) => Self::of(file, container),
            Err(error) => Err(sniff::other(&mut file, error)),
        }
    }

    fn stdin() -> Result<Self, Error> {
        let mut input = Opened::stdin()?;
        match sniff::container_or_raw(&mut input)? {
            Some(container) => Self::of(input, container),
            None if sniff::is_text(&mut input)? => Err(sniff::text(&mut input)),
            None => Ok(Self::Wav(Box::new(WavFile::raw(input, Raw::default())?))),
        }
    }

    fn of(file: Opened, container: Container) -> Result<Self, Error> {
        if container == Container::Wav {
            let path = file.seekable.then(|| file.path.clone());
            return match WavFile::open(file) {
                Ok(wav) => Ok(Self::Wav(Box::new(wav))),
                Err(Error::Wav {
                    path: name,
                    source: source @ (WavError::Codec { .. } | WavError::SubFormat { .. }),
                }) => Self::compressed_wav(path.as_deref(), name, source),
                Err(error) => Err(error),
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

    /// A WAV that core's demuxer refuses because of its codec, for which there may be a decoder; `path` is none if
    /// what has been read of it is gone.
    fn compressed_wav(path: Option<&Path>, name: PathBuf, source: WavError) -> Result<Self, Error> {
        #[cfg(feature = "wav-codecs")]
        let hint = match (source, path) {
            (WavError::Codec { tag }, Some(path)) if riff::is_decoded(tag) => {
                let decoded = decode::Decoded::open_wav(Opened::open(path)?, tag)?;
                return Ok(Self::Decoded(Box::new(decoded)));
            }
            (WavError::Codec { tag }, None) if riff::is_decoded(tag) => "give it as a file, not through a pipe",
            _ => error::CONVERT,
        };
        #[cfg(not(feature = "wav-codecs"))]
        let hint = match (source, path) {
            (WavError::Codec { tag: 2 | 6 | 7 | 0x11 }, _) => "this build was made without the feature wav-codecs",
            _ => error::CONVERT,
        };
        Err(Error::Audio {
            path: name,
            source: AudioError::WavCodec { source, hint },
        })
    }

    /// In Hz.
    fn rate(&self) -> u32 {
        match self {
            Self::Wav(wav) => wav.rate(),
            #[cfg(feature = "decoders")]
            Self::Decoded(decoded) => decoded.rate(),
            #[cfg(all(feature = "mic", target_os = "linux"))]
            Self::Microphone(microphone) => microphone.rate(),
        }
    }

    fn read(&mut self, samples: &mut [f32]) -> Result<usize, Error> {
        match self {
            Self::Wav(wav) => wav.read(samples),
            #[cfg(feature = "decoders")]
            Self::Decoded(decoded) => decoded.read(samples),
            #[cfg(all(feature = "mic", target_os = "linux"))]
            Self::Microphone(microphone) => microphone.read(samples),
        }
    }
}

/// A file with the name that errors tell. What is no regular file is read once, from its first byte to its last.
struct Opened {
    path: PathBuf,
    file: File,
    seekable: bool,
    /// Bytes that were looked at and are still to be read.
    ahead: Vec<u8>,
}

impl Opened {
    fn open(path: &Path) -> Result<Self, Error> {
        let refuse = |source| Error::File {
            path: path.into(),
            source,
        };
        let file = File::open(path).map_err(refuse)?;
        let kind = file.metadata().map_err(refuse)?.file_type();
        if kind.is_dir() {
            return Err(refuse(io::Error::new(
                io::ErrorKind::IsADirectory,
                "is a directory, not an audio file",
            )));
        }
        Ok(Self {
            path: path.into(),
            file,
            seekable: kind.is_file(),
            ahead: Vec::new(),
        })
    }

    /// Standard input, which is never gone back in, even where it is a file.
    fn stdin() -> Result<Self, Error> {
        let path = PathBuf::from("standard input");
        match io::stdin().as_fd().try_clone_to_owned() {
            Ok(input) => Ok(Self {
                path,
                file: input.into(),
                seekable: false,
                ahead: Vec::new(),
            }),
            Err(source) => Err(Error::File { path, source }),
        }
    }

    /// The next bytes, `count` unless the end comes before, which stay to be read.
    fn look(&mut self, count: usize) -> Result<&[u8], Error> {
        let missing = count.saturating_sub(self.ahead.len()) as u64;
        if let Err(source) = Patient(&self.file).take(missing).read_to_end(&mut self.ahead) {
            return Err(self.refuse(source));
        }
        Ok(&self.ahead[..count.min(self.ahead.len())])
    }

    /// Leaves out the next bytes, as far as there are any.
    fn skip(&mut self, count: u64) -> Result<(), Error> {
        let ahead = usize::try_from(count).map_or(self.ahead.len(), |count| count.min(self.ahead.len()));
        self.ahead.drain(..ahead);
        let rest = count - ahead as u64;
        let skipped = match i64::try_from(rest) {
            Ok(rest) if self.seekable => self.file.seek(SeekFrom::Current(rest)),
            _ => io::copy(&mut Patient(&self.file).take(rest), &mut io::sink()),
        };
        skipped.map(|_| ()).map_err(|source| self.refuse(source))
    }

    /// Whether what comes next can be left out without reading it: standard input may be a file, too.
    fn can_skip(&self) -> bool {
        self.ahead.is_empty() && self.file.metadata().is_ok_and(|file| file.is_file())
    }

    /// Goes back to before the bytes that were only looked at, so that the file itself can be read, if it is one.
    fn unlook(&mut self) -> Result<(), Error> {
        if self.seekable {
            let back = -(self.ahead.len() as i64);
            if let Err(source) = self.file.seek(SeekFrom::Current(back)) {
                return Err(self.refuse(source));
            }
            self.ahead.clear();
        }
        Ok(())
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

impl Read for Opened {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ahead.is_empty() {
            return Patient(&self.file).read(buffer);
        }
        let count = self.ahead.len().min(buffer.len());
        for (place, byte) in buffer.iter_mut().zip(self.ahead.drain(..count)) {
            *place = byte;
        }
        Ok(count)
    }
}

/// A number and what is counted, of one or of many.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
