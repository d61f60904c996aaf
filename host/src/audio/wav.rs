//! WAV files as samples.

use std::io::{self, Read, Seek, SeekFrom};

use voxtral_core::format::wav::{Demuxer, Progress, Summary, WavError};

use super::tail::Tail;
use super::{Opened, Raw, counted};
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
    /// Bytes that the demuxer took of a data chunk of size 0, until they tell whether it is empty.
    probed: Vec<u8>,
    /// Behind the data chunk: what is there.
    tail: Option<Tail>,
}

/// Bytes behind a data chunk of size 0 that tell whether it is empty: the name of a chunk.
const PROBED: usize = 4;

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
            probed: Vec::new(),
            tail: None,
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

    /// Gives bytes to the demuxer, and says how many samples it wrote; none at the end of the audio.
    fn advance(&mut self, samples: &mut [f32]) -> Result<Option<usize>, Error> {
        if self.pending.is_empty() {
            let read = self.fill()?;
            if read == 0 {
                return Ok(None);
            }
            self.pending = 0..read;
        }
        if self.demuxer.finish().is_err() {
            return self.advance_header().map(Some);
        }
        // Bytes that the demuxer may have: none behind the data, which it would only count.
        let Summary { declared, present, .. } = self.summary()?;
        let most = match declared {
            None => usize::MAX,
            Some(0) => PROBED - self.probed.len(),
            Some(declared) => usize::try_from(declared - present).unwrap_or(usize::MAX),
        };
        if most == 0 {
            self.pass_tail()?;
            return Ok(None);
        }
        let begin = self.pending.start;
        let progress = self.push(most, samples)?;
        if declared == Some(0) {
            self.probed
                .extend_from_slice(&self.buffer[begin..begin + progress.consumed]);
        }
        Ok(Some(progress.written))
    }

    /// Gives bytes to the demuxer that stop where the data begins.
    fn advance_header(&mut self) -> Result<usize, Error> {
        let (before, pending) = (self.demuxer.clone(), self.pending.clone());
        // No place for samples, so that data stays.
        self.push(usize::MAX, &mut [])?;
        let is_empty = |summary: Summary| summary.declared == Some(0);
        if self.demuxer.finish().is_ok_and(is_empty) {
            // It took what is behind its beginning as well: again, to that only.
            (self.demuxer, self.pending) = (before, pending);
            while self.demuxer.finish().is_err() && !self.pending.is_empty() {
                self.push(1, &mut [])?;
            }
        }
        Ok(0)
    }

    /// Gives up to `most` of the pending bytes to the demuxer.
    fn push(&mut self, most: usize, samples: &mut [f32]) -> Result<Progress, Error> {
        let count = most.min(self.pending.len());
        let bytes = &self.buffer[self.pending.start..self.pending.start + count];
        let progress = self.demuxer.push(bytes, samples).map_err(|source| self.wav(source))?;
        self.pending.start += progress.consumed;
        if let Some(offset) = progress.seek {
            self.opened
                .file
                .seek(SeekFrom::Start(offset))
                .map_err(|source| self.opened.refuse(source))?;
            self.pending = 0..0;
        }
        Ok(progress)
    }

    /// Behind the data: goes on to the end of the file, to tell what is there. Of a file only the heads of chunks are
    /// read.
    fn pass_tail(&mut self) -> Result<(), Error> {
        let summary = self.summary()?;
        let mut tail = Tail::new(summary.declared.is_some_and(|size| size % 2 == 1));
        tail.push(&self.probed);
        loop {
            tail.push(&self.buffer[self.pending.clone()]);
            self.pending = 0..0;
            if self.opened.can_skip() {
                let refuse = |source| self.opened.refuse(source);
                let mut file = &self.opened.file;
                let at = file.stream_position().map_err(refuse)?;
                let left = file.metadata().map_err(refuse)?.len().saturating_sub(at);
                let skipped = tail.skip(left);
                file.seek(SeekFrom::Start(at + skipped)).map_err(refuse)?;
            }
            let read = self.fill()?;
            if read == 0 {
                break;
            }
            self.pending = 0..read;
        }
        self.tail = Some(tail);
        Ok(())
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
                "the file is cut: its header declares {} of audio, {} are there",
                counted(summary.declared.unwrap_or_default(), "byte", "bytes"),
                summary.present
            ));
        }
        if summary.cut > 0 {
            let bytes_were = counted(summary.cut.into(), "byte was", "bytes were");
            lines.push(format!("the last sample is not whole, {bytes_were} dropped"));
        }
        lines.extend(self.remarks_so_far());
        Ok(lines)
    }

    /// As [`WavFile::remarks`], but for what only says that the audio did not go on.
    pub(super) fn remarks_so_far(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let Ok(summary) = self.demuxer.finish() else {
            return lines;
        };
        if summary.not_finite > 0 {
            lines.push(format!(
                "{} NaN or infinite and count as 0",
                counted(summary.not_finite, "sample was", "samples were")
            ));
        }
        if summary.too_large > 0 {
            lines.push(format!(
                "{} far beyond full scale and count as 0",
                counted(summary.too_large, "sample was", "samples were")
            ));
        }
        match self.tail.as_ref().map_or(0, Tail::stray) {
            0 => {}
            1 => lines.push("1 byte behind the audio is no part of the WAV and was not listened to".into()),
            stray => lines.push(format!(
                "{stray} bytes behind the audio are no part of the WAV and were not listened to"
            )),
        }
        lines
    }

    /// A number that changes when [`WavFile::remarks_so_far`] does, but for what is behind the data.
    pub(super) fn oddities(&self) -> u64 {
        let summary = self.demuxer.finish();
        summary.map_or(0, |summary| summary.not_finite + summary.too_large)
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
