//! WAV files as samples.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use voxtral_core::audio::SAMPLE_RATE;
use voxtral_core::format::wav::{Demuxer, Summary};

use crate::error::Error;

/// Bytes that are read at a time.
const BUFFER: usize = 1 << 16;

/// A WAV file, read as mono samples of the model's rate.
pub struct WavFile {
    path: PathBuf,
    file: File,
    demuxer: Demuxer,
    buffer: Box<[u8]>,
    /// Bytes of `buffer` that the demuxer has not taken.
    pending: std::ops::Range<usize>,
}

impl WavFile {
    /// Opens a file. Its header is read with the first samples.
    ///
    /// # Errors
    /// [`Error::File`] if the system refuses.
    pub fn open(path: &Path) -> Result<Self, Error> {
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
            demuxer: Demuxer::seekable(),
            buffer: vec![0; BUFFER].into_boxed_slice(),
            pending: 0..0,
        })
    }

    /// Fills `samples` from the start and says how many there are: 0 at the end of the audio.
    ///
    /// # Errors
    /// [`Error::Wav`] if the file is no WAV that can be decoded, [`Error::SampleRate`] if it has another rate than
    /// the model, [`Error::File`] if it cannot be read.
    pub fn read(&mut self, samples: &mut [f32]) -> Result<usize, Error> {
        let mut written = 0;
        while written < samples.len() {
            if self.pending.is_empty() {
                let read = self.fill()?;
                if read == 0 {
                    self.summary()?;
                    break;
                }
                self.pending = 0..read;
            }
            let progress = self
                .demuxer
                .push(&self.buffer[self.pending.clone()], &mut samples[written..])
                .map_err(|source| Error::Wav {
                    path: self.path.clone(),
                    source,
                })?;
            written += progress.written;
            self.pending.start += progress.consumed;
            if let Some(offset) = progress.seek {
                self.file
                    .seek(SeekFrom::Start(offset))
                    .map_err(|source| self.refuse(source))?;
                self.pending = 0..0;
            }
            if let Some(format) = self.demuxer.format() {
                if format.sample_rate as usize != SAMPLE_RATE {
                    return Err(Error::SampleRate {
                        path: self.path.clone(),
                        rate: format.sample_rate,
                    });
                }
            }
        }
        Ok(written)
    }

    /// What was odd about the file, once it has been read to its end: lines for a person.
    ///
    /// # Errors
    /// [`Error::Wav`] if the file ended before its audio began.
    pub fn remarks(&self) -> Result<Vec<String>, Error> {
        let summary = self.summary()?;
        let mut lines = Vec::new();
        if summary.missing() > 0 {
            lines.push(format!(
                "the file is cut: its header declares {} bytes of audio, {} are there",
                summary.declared.unwrap_or_default(),
                summary.present
            ));
        }
        if summary.cut > 0 {
            lines.push(format!(
                "the last sample is not whole, {} bytes were dropped",
                summary.cut
            ));
        }
        if summary.not_finite > 0 {
            lines.push(format!(
                "{} samples were NaN or infinite and count as 0",
                summary.not_finite
            ));
        }
        if summary.too_large > 0 {
            lines.push(format!(
                "{} samples were far beyond full scale and count as 0",
                summary.too_large
            ));
        }
        Ok(lines)
    }

    fn summary(&self) -> Result<Summary, Error> {
        self.demuxer.finish().map_err(|source| Error::Wav {
            path: self.path.clone(),
            source,
        })
    }

    fn fill(&mut self) -> Result<usize, Error> {
        loop {
            match self.file.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map_err(|source| self.refuse(source)),
            }
        }
    }

    fn refuse(&self, source: io::Error) -> Error {
        Error::File {
            path: self.path.clone(),
            source,
        }
    }
}
