//! Compressed audio as samples, by the decoders of symphonia.
//!
//! What an encoder adds before and after the audio is taken away where the file tells it in a way that symphonia knows:
//! in MP3 (LAME's tag) and Ogg. An M4A tells it in an edit list, which is not read: its audio begins with the encoder's
//! 1024 to 2112 samples, nearly silent.
//!
//! Where time stamps jump, something is missing, and silence takes its place: what follows keeps its time.
//!
//! That a file is cut is seen by the length in its header, or by a last page that is missing (Ogg). An MP3 without a
//! header, and AAC by itself, end anywhere.

use std::io::{ErrorKind, Seek};
use std::path::{Path, PathBuf};

use symphonia::core::codecs::CodecParameters;
use symphonia::core::codecs::audio::well_known::*;
use symphonia::core::codecs::audio::{AudioCodecId, AudioDecoder, AudioDecoderOptions};
use symphonia::core::codecs::registry::CodecRegistry;
use symphonia::core::errors::Error as Failure;
use symphonia::core::formats::probe::{Hint, Probe};
use symphonia::core::formats::{FormatReader, Track, TrackType};
use symphonia::core::io::{MediaSource, MediaSourceStream, ReadOnlySource};
use symphonia::core::packet::Packet;
use symphonia::core::units::Duration;
#[allow(unused_imports, reason = "which of them depends on the features")]
use symphonia::default::{codecs, formats};
use voxtral_core::format::wav::{MAX_MAGNITUDE, MAX_RATE, MIN_RATE};

use super::counted;
use super::sniff::Container;
use super::{AudioError, Opened};
use crate::error::Error;

/// Most samples of silence that take the place of a piece that cannot be decoded: the largest piece of FLAC.
const MOST_SILENCE: u64 = 65_536;

/// Most seconds of silence in a file that take the place of what is missing by its time stamps: these may be wrong.
const MOST_MISSING: f64 = 3600.0;

/// Smaller jumps of time stamps in seconds are rounding.
const LEAST_MISSING: f64 = 1e-3;

/// A file that is decoded piece by piece into mono samples of its own rate.
pub(super) struct Decoded {
    path: PathBuf,
    container: Container,
    reader: Box<dyn FormatReader>,
    track: u32,
    decoder: Box<dyn AudioDecoder>,
    rate: u32,
    /// Samples of padding at the end that the encoder added and that have not been met.
    padding: u64,
    /// The unit of time stamps, and the one that is next: none before the first.
    seconds_per_stamp: f64,
    next_stamp: Option<i64>,
    /// Samples of silence to come before a piece that has been read.
    silence: u64,
    waiting: Option<Packet>,
    /// The channels of one piece, and their mean.
    planes: Vec<Vec<f32>>,
    mono: Vec<f32>,
    /// Samples of `mono` that have been taken.
    taken: usize,
    ended: bool,
    findings: Findings,
}

/// What was odd.
#[derive(Default)]
struct Findings {
    /// Length by the header in seconds, if it has it.
    declared: Option<f64>,
    /// Samples decoded.
    samples: u64,
    /// It ended before its end.
    cut: bool,
    /// Pieces that could not be decoded.
    damaged: u64,
    /// Seconds that are missing by the time stamps, in how many places, and seconds of silence in place of them.
    missing: f64,
    gaps: u64,
    filled: f64,
    /// Time stamp of the first piece in seconds, if it is not the beginning.
    late: f64,
    /// Bytes of a last block that is not whole.
    part: u64,
    /// What the decoder said of the last of them.
    what: Option<&'static str>,
    not_finite: u64,
    too_large: u64,
}

impl Decoded {
    /// Opens a file of a known format and decodes its first samples.
    ///
    /// # Errors
    /// [`Error::Audio`] if nothing in it can be decoded, [`Error::File`] if it cannot be read.
    pub(super) fn open(opened: Opened, container: Container) -> Result<Self, Error> {
        // The index of an MP4 may come last. The others are read from the first byte to the last; with a way to look
        // at its end, the reader of MP3 would guess a length and leave out what comes after it.
        let path = opened.path.clone();
        match container {
            Container::Mp4 if opened.seekable => {}
            #[cfg(feature = "ogg")]
            Container::Ogg => {
                let pages = super::ogg::Pages::new(opened);
                return Self::open_stream(&path, container, Box::new(ReadOnlySource::new(pages)));
            }
            #[cfg(feature = "flac")]
            Container::Flac if opened.seekable => {
                let audio = super::flac::without_tags(opened.file).map_err(|source| Error::File {
                    path: path.clone(),
                    source,
                })?;
                return Self::open_stream(&path, container, Box::new(ReadOnlySource::new(audio)));
            }
            _ => return Self::open_stream(&path, container, Box::new(ReadOnlySource::new(opened))),
        }
        let again = opened.file.try_clone().map_err(|source| opened.refuse(source))?;
        Self::open_stream(&opened.path, container, Box::new(opened.file)).or_else(|error| {
            // One that is cut is refused for its length, and can be read up to there if its index comes first.
            let mut file = again;
            let Ok(()) = file.rewind() else { return Err(error) };
            Self::open_stream(&opened.path, container, Box::new(ReadOnlySource::new(file))).map_err(|_| error)
        })
    }

    /// Opens a WAV whose codec has the format tag `tag`.
    ///
    /// # Errors
    /// As [`open`](Self::open), and those of its header.
    #[cfg(feature = "wav-codecs")]
    pub(super) fn open_wav(opened: Opened, tag: u16) -> Result<Self, Error> {
        let path = opened.path.clone();
        let laid = super::riff::lay_out(opened, tag)?;
        let mut decoded = Self::open_stream(&path, Container::Wav, Box::new(ReadOnlySource::new(laid.source)))?;
        decoded.findings.cut = laid.cut;
        decoded.findings.part = laid.part;
        Ok(decoded)
    }

    fn open_stream(path: &Path, container: Container, source: Box<dyn MediaSource>) -> Result<Self, Error> {
        let fail = |failure| failed(path, container, failure);
        let refuse = |source| Error::Audio {
            path: path.into(),
            source,
        };
        let name = container.name();
        let stream = MediaSourceStream::new(source, Default::default());
        let reader = probe(container)
            .probe(&Hint::new(), stream, Default::default(), Default::default())
            .map_err(fail)?;

        let Some(track) = reader.default_track(TrackType::Audio) else {
            return Err(refuse(match reader.first_track(TrackType::Audio) {
                Some(_) => AudioError::Codec {
                    container: name,
                    codec: "unknown",
                },
                None => AudioError::NoAudio { container: name },
            }));
        };
        let decoder = decoder(track, name).map_err(refuse)?.map_err(fail)?;
        let rate = rate_of(track);
        let mut decoded = Self {
            container,
            track: track.id,
            // What is decoded tells it: half of what the header says, if that counts what is not decoded (HE-AAC).
            rate: 0,
            padding: track.padding.unwrap_or(0).into(),
            seconds_per_stamp: seconds_per_stamp(track),
            next_stamp: None,
            silence: 0,
            waiting: None,
            planes: Vec::new(),
            mono: Vec::new(),
            taken: 0,
            ended: false,
            findings: Findings {
                declared: seconds_of(track),
                ..Findings::default()
            },
            decoder,
            reader,
            path: path.into(),
        };
        while decoded.mono.is_empty() && !decoded.ended {
            decoded.advance()?;
        }
        if decoded.rate == 0 {
            // Without a single sample.
            decoded.rate = rate;
        }
        if !(MIN_RATE..=MAX_RATE).contains(&decoded.rate) {
            let found = decoded.rate;
            return Err(decoded.refuse(AudioError::SampleRate { found }));
        }
        Ok(decoded)
    }

    /// In Hz.
    pub(super) fn rate(&self) -> u32 {
        self.rate
    }

    /// Fills `samples` from the start and says how many there are: 0 at the end of the audio.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(super) fn read(&mut self, samples: &mut [f32]) -> Result<usize, Error> {
        let mut written = 0;
        while written < samples.len() {
            let ready = &self.mono[self.taken..];
            if ready.is_empty() {
                if self.ended {
                    break;
                }
                self.advance()?;
                continue;
            }
            let count = ready.len().min(samples.len() - written);
            samples[written..written + count].copy_from_slice(&ready[..count]);
            self.taken += count;
            written += count;
        }
        Ok(written)
    }

    /// Length of the audio by its header, in seconds.
    pub(super) fn seconds(&self) -> Option<f64> {
        self.findings.declared
    }

    /// What was odd about the file, once it has been read to its end: lines for a person.
    pub(super) fn remarks(&self) -> Vec<String> {
        let found = &self.findings;
        let mut lines = Vec::new();
        let seconds = found.samples as f64 / f64::from(self.rate);
        match found.declared {
            // Less than a millisecond is rounding.
            Some(declared) if self.ended && declared - seconds > 1e-3 => lines.push(format!(
                "the file is cut: its header declares {declared:.3} s of audio, {seconds:.3} s are there"
            )),
            _ if found.cut => lines.push(format!("the file is cut: it ends in the middle, after {seconds:.3} s")),
            _ => {}
        }
        if found.part > 0 && !found.cut {
            lines.push(format!(
                "the last block is not whole, {} dropped",
                counted(found.part, "byte was", "bytes were")
            ));
        }
        lines.extend(self.remarks_so_far());
        lines
    }

    /// A number that changes when [`Decoded::remarks_so_far`] does.
    pub(super) fn oddities(&self) -> u64 {
        let found = &self.findings;
        let others = u64::from(found.late > 0.0) + found.gaps + found.damaged;
        others + found.not_finite + found.too_large
    }

    /// As [`Decoded::remarks`], but for what only says that the audio did not go on.
    pub(super) fn remarks_so_far(&self) -> Vec<String> {
        let found = &self.findings;
        let mut lines = Vec::new();
        if found.late > 0.0 {
            lines.push(format!(
                "the audio begins at {:.3} s by its time stamps; what came before is missing",
                found.late
            ));
        }
        if found.gaps > 0 {
            let end = if found.filled < found.missing {
                format!("; {:.3} s of them are silence, the rest is left out", found.filled)
            } else {
                " and count as silence".into()
            };
            lines.push(format!(
                "{:.3} s of audio are missing in {} places of the file{end}",
                found.missing, found.gaps
            ));
        }
        if found.damaged > 0 {
            lines.push(format!(
                "{} pieces of the file could not be decoded and count as silence ({})",
                found.damaged,
                found.what.unwrap_or("damaged")
            ));
        }
        if found.not_finite > 0 {
            lines.push(format!(
                "{} NaN or infinite and count as 0",
                counted(found.not_finite, "sample was", "samples were")
            ));
        }
        if found.too_large > 0 {
            lines.push(format!(
                "{} far beyond full scale and count as 0",
                counted(found.too_large, "sample was", "samples were")
            ));
        }
        lines
    }

    /// Decodes the next piece into `mono`, which stays empty if there is none in it.
    fn advance(&mut self) -> Result<(), Error> {
        self.mono.clear();
        self.taken = 0;
        if self.silence > 0 {
            let silence = self.silence.min(MOST_SILENCE);
            self.silence -= silence;
            self.mono.resize(silence as usize, 0.0);
            self.findings.samples += silence;
            return Ok(());
        }
        if let Some(packet) = self.waiting.take() {
            return self.decode(packet);
        }
        let packet = match self.reader.next_packet() {
            Ok(Some(packet)) => packet,
            Ok(None) => return self.end(),
            Err(Failure::ResetRequired) => return self.next_stream(),
            Err(Failure::IoError(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                self.findings.cut = true;
                return self.end();
            }
            // There is no way on from here.
            Err(Failure::DecodeError(what) | Failure::Unsupported(what) | Failure::LimitError(what)) => {
                self.findings.cut = true;
                self.findings.what = Some(what);
                return self.end();
            }
            Err(failure) => return Err(failed(&self.path, self.container, failure)),
        };
        if packet.track_id != self.track {
            return Ok(());
        }
        self.keep_time(&packet);
        if self.silence > 0 {
            self.waiting = Some(packet);
            return Ok(());
        }
        self.decode(packet)
    }

    /// Compares the time stamp of a piece with the end of the one before.
    fn keep_time(&mut self, packet: &Packet) {
        let stamp = packet.pts.get();
        let length = [packet.trim_start, packet.dur, packet.trim_end]
            .iter()
            .fold(0u64, |sum, part| sum.saturating_add(part.get()));
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let expected = self.next_stamp.replace(stamp.saturating_add(length));
        let since = |before: i64| stamp.saturating_sub(before) as f64 * self.seconds_per_stamp;
        // What a decoder that begins anew leaves out is missing, too.
        let start = packet.trim_start.get() as f64 * self.seconds_per_stamp;
        if expected.map_or_else(|| since(0) + start, since) < LEAST_MISSING {
            return;
        }
        let seconds = since(expected.unwrap_or(0)) + start;
        let findings = &mut self.findings;
        if expected.is_none() {
            findings.late = seconds;
            return;
        }
        findings.gaps += 1;
        findings.missing += seconds;
        if findings.filled + seconds <= MOST_MISSING {
            findings.filled += seconds;
            self.silence = (seconds * f64::from(self.rate)).round() as u64;
        }
    }

    fn decode(&mut self, mut packet: Packet) -> Result<(), Error> {
        // No more than the padding is cut from the end: a header that declares too little would cost audio.
        if self.container == Container::Mp3 {
            let trim = packet.trim_end.get().min(self.padding);
            self.padding -= trim;
            packet.trim_end = Duration::new(trim);
        }
        match self.decoder.decode(&packet) {
            Ok(buffer) => {
                let rate = buffer.spec().rate();
                if rate != self.rate && buffer.frames() > 0 {
                    if self.rate != 0 {
                        let what = format!("its sample rate changes from {} to {rate} Hz", self.rate);
                        return Err(self.damaged(what));
                    }
                    self.rate = rate;
                }
                buffer.copy_to_vecs_planar(&mut self.planes);
                self.mix();
            }
            // The decoder reads from memory: one of input and output is no fault of the disk.
            Err(failure) => {
                self.findings.damaged += 1;
                self.findings.what = Some(match failure {
                    Failure::DecodeError(what) | Failure::Unsupported(what) | Failure::LimitError(what) => what,
                    _ => "a piece ends too early",
                });
                // Only behind audio, so that a file in which nothing can be decoded has no samples.
                if self.rate != 0 {
                    let silence = packet.dur.get().min(MOST_SILENCE);
                    self.mono.resize(silence as usize, 0.0);
                }
            }
        }
        self.findings.samples += self.mono.len() as u64;
        Ok(())
    }

    /// Averages the channels, in the manner of core's WAV demuxer.
    fn mix(&mut self) {
        let Some(first) = self.planes.first() else { return };
        let channels = self.planes.len() as f64;
        let findings = &mut self.findings;
        self.mono.extend((0..first.len()).map(|frame| {
            let sum = self
                .planes
                .iter()
                .map(|plane| findings.checked(plane[frame]))
                .sum::<f64>();
            (sum / channels) as f32
        }));
    }

    /// An Ogg may have one stream after the other.
    fn next_stream(&mut self) -> Result<(), Error> {
        let name = self.container.name();
        let Some(track) = self.reader.default_track(TrackType::Audio) else {
            return self.end();
        };
        self.decoder = decoder(track, name)
            .map_err(|source| self.refuse(source))?
            .map_err(|failure| failed(&self.path, self.container, failure))?;
        self.track = track.id;
        self.seconds_per_stamp = seconds_per_stamp(track);
        self.findings.declared = self
            .findings
            .declared
            .zip(seconds_of(track))
            .map(|(before, more)| before + more);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        self.ended = true;
        if self.findings.samples == 0 {
            if let Some(what) = self.findings.what {
                return Err(self.damaged(what.into()));
            }
        }
        Ok(())
    }

    fn refuse(&self, source: AudioError) -> Error {
        Error::Audio {
            path: self.path.clone(),
            source,
        }
    }

    fn damaged(&self, what: String) -> Error {
        self.refuse(AudioError::Damaged {
            container: self.container.name(),
            what,
        })
    }
}

impl Findings {
    fn checked(&mut self, sample: f32) -> f64 {
        if sample.abs() <= MAX_MAGNITUDE {
            return sample.into();
        }
        if sample.is_finite() {
            self.too_large += 1;
        } else {
            self.not_finite += 1;
        }
        0.0
    }
}

fn failed(path: &Path, container: Container, failure: Failure) -> Error {
    let what = match failure {
        Failure::IoError(source) if source.kind() != ErrorKind::UnexpectedEof => {
            return Error::File {
                path: path.into(),
                source,
            };
        }
        Failure::IoError(_) => "it ends before any audio".into(),
        // Where a recorder puts it last, a file without it is one that was cut.
        Failure::Unsupported(what) if what.contains("missing moov") => {
            "its index is missing: the file is cut, or it comes last in a pipe, which cannot be gone back in".into()
        }
        Failure::Unsupported(what) if what.contains("no suitable format reader") => {
            "it begins like one, but no audio follows".into()
        }
        Failure::Unsupported(what) if what.contains("not marked as first") => {
            "its first page is missing or damaged".into()
        }
        other => other.to_string(),
    };
    Error::Audio {
        path: path.into(),
        source: AudioError::Damaged {
            container: container.name(),
            what,
        },
    }
}

/// The reader of one format.
fn probe(container: Container) -> Probe {
    let mut probe = Probe::default();
    match container {
        #[cfg(feature = "wav-codecs")]
        Container::Wav => probe.register_format::<formats::WavReader<'_>>(),
        #[cfg(feature = "flac")]
        Container::Flac => probe.register_format::<formats::FlacReader<'_>>(),
        #[cfg(feature = "mp3")]
        Container::Mp3 => probe.register_format::<formats::MpaReader<'_>>(),
        #[cfg(feature = "ogg")]
        Container::Ogg => probe.register_format::<formats::OggReader<'_>>(),
        #[cfg(feature = "m4a")]
        Container::Mp4 => probe.register_format::<formats::IsoMp4Reader<'_>>(),
        #[cfg(feature = "m4a")]
        Container::Adts => probe.register_format::<formats::AdtsReader<'_>>(),
        #[cfg(feature = "aiff")]
        Container::Aiff => probe.register_format::<formats::AiffReader<'_>>(),
        // Never asked for; finds nothing.
        #[allow(unreachable_patterns, reason = "reached if a feature is off")]
        _ => {}
    }
    probe
}

/// The decoder of a track; if it has one that refuses, why.
fn decoder(track: &Track, container: &'static str) -> Result<Result<Box<dyn AudioDecoder>, Failure>, AudioError> {
    let mut registry = CodecRegistry::new();
    #[cfg(feature = "flac")]
    registry.register_audio_decoder::<codecs::FlacDecoder>();
    #[cfg(feature = "mp3")]
    registry.register_audio_decoder::<codecs::MpaDecoder>();
    #[cfg(feature = "ogg")]
    registry.register_audio_decoder::<codecs::VorbisDecoder>();
    #[cfg(feature = "m4a")]
    registry.register_audio_decoder::<codecs::AacDecoder>();
    #[cfg(any(feature = "wav-codecs", feature = "aiff"))]
    registry.register_audio_decoder::<codecs::PcmDecoder>();
    #[cfg(feature = "wav-codecs")]
    registry.register_audio_decoder::<codecs::AdpcmDecoder>();

    let Some(CodecParameters::Audio(parameters)) = &track.codec_params else {
        return Err(AudioError::NoAudio { container });
    };
    if registry.get_audio_decoder(parameters.codec).is_none() {
        return Err(AudioError::Codec {
            container,
            codec: codec_name(parameters.codec),
        });
    }
    let options = AudioDecoderOptions::default().gapless(true);
    Ok(registry.make_audio_decoder(parameters, &options))
}

fn rate_of(track: &Track) -> u32 {
    match &track.codec_params {
        Some(CodecParameters::Audio(parameters)) => parameters.sample_rate.unwrap_or(0),
        _ => 0,
    }
}

/// 0 if it is not known.
fn seconds_per_stamp(track: &Track) -> f64 {
    track
        .time_base
        .map_or(0.0, |base| f64::from(base.numer.get()) / f64::from(base.denom.get()))
}

/// Length by the header.
fn seconds_of(track: &Track) -> Option<f64> {
    let rate = rate_of(track);
    track
        .num_frames
        .filter(|_| rate > 0)
        .map(|frames| frames as f64 / f64::from(rate))
}

fn codec_name(codec: AudioCodecId) -> &'static str {
    match codec {
        CODEC_ID_AAC => "AAC",
        CODEC_ID_AC3 => "AC-3",
        CODEC_ID_AC4 => "AC-4",
        CODEC_ID_ADPCM_G722 => "G.722 ADPCM",
        CODEC_ID_ADPCM_G726 | CODEC_ID_ADPCM_G726LE => "G.726 ADPCM",
        CODEC_ID_ADPCM_IMA_QT | CODEC_ID_ADPCM_IMA_WAV => "IMA ADPCM",
        CODEC_ID_ADPCM_MS => "Microsoft ADPCM",
        CODEC_ID_ALAC => "ALAC",
        CODEC_ID_DCA => "DTS",
        CODEC_ID_EAC3 => "E-AC-3",
        CODEC_ID_FLAC => "FLAC",
        CODEC_ID_MP1 | CODEC_ID_MP2 => "MPEG layer 1 or 2",
        CODEC_ID_MP3 => "MP3",
        CODEC_ID_OPUS => "Opus",
        CODEC_ID_PCM_ALAW => "A-law",
        CODEC_ID_PCM_MULAW => "\u{b5}-law",
        CODEC_ID_SPEEX => "Speex",
        CODEC_ID_VORBIS => "Vorbis",
        CODEC_ID_WMA => "Windows Media",
        CODEC_ID_TRUEHD => "TrueHD",
        _ => "unknown",
    }
}
