//! WAV files as samples.

use std::io::{self, Read, Seek, SeekFrom};

use voxtral_core::format::wav::{Demuxer, Summary, WavError};

use super::{Opened, Raw};
use crate::error::Error;

/// Bytes that are read at a time.
const BUFFER: usize = 1 << 16;

/// A WAV file, read as mono samples of its own rate.
pub(super) struct WavFile {
    opened: Opened,
    demuxer: Demuxer,
    buffer: Box<[u8]>,
    /// Bytes of `buffer` that the demuxer has not taken.
    pending: std::ops::Range<usize>,
    rate: u32,
}

impl WavFile {
    /// Reads the header of a file that is at its beginning.
    ///
    /// # Errors
    /// [`Error::Wav`] if it is no WAV that can be decoded, [`Error::File`] if it cannot be read.
    pub(super) fn open(opened: Opened) -> Result<Self, Error> {
        let demuxer = if opened.seekable {
            Demuxer::seekable()
        } else {
            Demuxer::new()
        };
        let mut wav = Self::new(opened, demuxer);
        // No place for samples: this ends with the format known, or with the file.
        while wav.demuxer.format().is_none() && wav.advance(&mut [])?.is_some() {}
        wav.rate = match wav.demuxer.format() {
            Some(format) => format.sample_rate,
            None => wav.summary()?.format.sample_rate,
        };
        Ok(wav)
    }

    /// Samples without a header.
    ///
    /// # Errors
    /// [`Error::Wav`] for a rate or number of channels that cannot be.
    pub(super) fn raw(opened: Opened, raw: Raw) -> Result<Self, Error> {
        let demuxer = match Demuxer::raw(raw.encoding, raw.rate, raw.channels) {
            Ok(demuxer) => demuxer,
            Err(source) => {
                return Err(Error::Wav {
                    path: opened.path,
                    source,
                });
            }
        };
        let mut wav = Self::new(opened, demuxer);
        wav.rate = raw.rate;
        Ok(wav)
    }

    fn new(opened: Opened, demuxer: Demuxer) -> Self {
        Self {
            opened,
            demuxer,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            pending: 0..0,
            rate: 0,
        }
    }

    /// In Hz.
    pub(super) fn rate(&self) -> u32 {
        self.rate
    }

    /// Fills `samples` from the start and says how many there are: 0 at the end of the audio.
    ///
    /// # Errors
    /// [`Error::Wav`] if the file ended before its audio began, [`Error::File`] if it cannot be read.
    pub(super) fn read(&mut self, samples: &mut [f32]) -> Result<usize, Error> {
        let mut written = 0;
        while written < samples.len() {
            match self.advance(&mut samples[written..])? {
                Some(count) => written += count,
                None => {
                    self.summary()?;
                    break;
                }
            }
        }
        Ok(written)
    }

    /// Gives bytes to the demuxer, and says how many samples it wrote; none at the end of the file.
    fn advance(&mut self, samples: &mut [f32]) -> Result<Option<usize>, Error> {
        if self.pending.is_empty() {
            let read = self.fill()?;
            if read == 0 {
                return Ok(None);
            }
            self.pending = 0..read;
        }
        let progress = self
            .demuxer
            .push(&self.buffer[self.pending.clone()], samples)
            .map_err(|source| self.wav(source))?;
        self.pending.start += progress.consumed;
        if let Some(offset) = progress.seek {
            self.opened
                .file
                .seek(SeekFrom::Start(offset))
                .map_err(|source| self.opened.refuse(source))?;
            self.pending = 0..0;
        }
        Ok(Some(progress.written))
    }

    /// Length of the audio by its header, in seconds. Known once the data has begun.
    pub(super) fn seconds(&self) -> Option<f64> {
        let Summary { format, declared, .. } = self.demuxer.finish().ok()?;
        let frames = declared? / format.block() as u64;
        Some(frames as f64 / f64::from(format.sample_rate))
    }

    /// What was odd about the file, once it has been read to its end: lines for a person.
    ///
    /// # Errors
    /// [`Error::Wav`] if the file ended before its audio began.
    pub(super) fn remarks(&self) -> Result<Vec<String>, Error> {
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
        self.demuxer.finish().map_err(|source| self.wav(source))
    }

    fn fill(&mut self) -> Result<usize, Error> {
        loop {
            match self.opened.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map_err(|source| self.opened.refuse(source)),
            }
        }
    }

    fn wav(&self, source: WavError) -> Error {
        Error::Wav {
            path: self.opened.path.clone(),
            source,
        }
    }
}
