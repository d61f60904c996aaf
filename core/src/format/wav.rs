//! WAV by push: bytes in pieces of any size go in, mono samples come out.
//!
//! [`Demuxer`] is small plain data and never looks at a byte twice, so one code serves a file, a pipe that stays
//! open and a slice in flash. Samples keep the rate of the file; channels are averaged.
//!
//! Sizes in a WAV are often wrong, because whoever wrote it could not go back or died. What is believed:
//! * the size of the RIFF chunk is not used at all;
//! * a data chunk of size 0xFFFFFFFF reaches to the end of the stream, one of size 0 as well unless a known chunk
//!   follows it (then it is really empty); of any other size, to that size or to the end of the stream if this
//!   comes first;
//! * in RF64 and BW64 the size 0xFFFFFFFF means the one in the `ds64` chunk;
//! * a chunk of odd size is followed by a pad byte, or not, as the bytes after it tell.
//!
//! ```
//! use voxtral_core::format::wav::Demuxer;
//!
//! static FLASH: [u8; 48] = *b"RIFF\x28\0\0\0WAVEfmt \x10\0\0\0\
//!     \x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data\x04\0\0\0\0\x40\0\xc0";
//! let mut demuxer = Demuxer::new();
//! let mut samples = [0.0; 160];
//! let mut bytes = &FLASH[..];
//! while !bytes.is_empty() {
//!     let progress = demuxer.push(bytes, &mut samples)?;
//!     assert_eq!(samples[..progress.written], [0.5, -0.5]);
//!     bytes = &bytes[progress.consumed..];
//! }
//! assert_eq!(demuxer.finish()?.frames, 2);
//! # Ok::<(), voxtral_core::format::wav::WavError>(())
//! ```

mod error;
mod fmt;

pub use error::{WavError, codec_name, container_name};
pub use fmt::{Encoding, Format, MAX_RATE, MIN_RATE};

use fmt::{FMT_BYTES, FMT_LEAST};

/// Float samples beyond this magnitude are taken as damage and come out as 0; full scale is 1.
pub const MAX_MAGNITUDE: f32 = 64.0;

/// The first names of a WAV; the sizes of the last two may have 64 bits.
const RIFF_NAMES: [&[u8; 4]; 3] = [b"RIFF", b"RF64", b"BW64"];

/// Names that decide what follows an empty data chunk or a chunk of odd size. An ID3 tag is no chunk, but found
/// in the same place.
pub const KNOWN_CHUNKS: [&[u8; 4]; 26] = [
    b"data", b"fmt ", b"fact", b"LIST", b"JUNK", b"junk", b"PAD ", b"FLLR", b"bext", b"iXML", b"_PMX", b"axml",
    b"chna", b"cue ", b"plst", b"smpl", b"inst", b"PEAK", b"DISP", b"afsp", b"acid", b"id3 ", b"ID3 ", b"ID3\x02",
    b"ID3\x03", b"ID3\x04",
];

/// What a call of [`Demuxer::push`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes taken. Fewer than given only when the samples are full, or when there is a `seek`.
    pub consumed: usize,
    /// Samples written.
    pub written: usize,
    /// The next call wants the bytes from this offset of the file on, not those after the ones taken. Only a
    /// demuxer made by [`Demuxer::seekable`] asks for this.
    pub seek: Option<u64>,
}

/// What was found between the first byte and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The format of the file.
    pub format: Format,
    /// Whole frames decoded: mono samples written.
    pub frames: u64,
    /// Bytes of the data chunk as the file declares them; none when it does not know.
    pub declared: Option<u64>,
    /// Bytes of the data chunk that were there.
    pub present: u64,
    /// Bytes of a last frame that is not whole, and was dropped.
    pub cut: u32,
    /// Bytes after the data chunk, its pad byte not counted. They are not audio, and were ignored.
    pub trailing: u64,
    /// Samples (of any channel) that were NaN or infinite, and were taken as 0.
    pub not_finite: u64,
    /// Samples (of any channel) beyond [`MAX_MAGNITUDE`], which were taken as 0.
    pub too_large: u64,
}

impl Summary {
    /// Bytes that the data chunk declares and the stream did not have.
    pub fn missing(&self) -> u64 {
        self.declared
            .map_or(0, |declared| declared.saturating_sub(self.present))
    }
}

/// Where the next byte belongs.
#[derive(Clone, Copy, Debug)]
enum State {
    /// `RIFF`, size, `WAVE`.
    Riff,
    /// Name and size of a chunk. After a chunk of odd size a pad byte may come first.
    Header { after_odd: bool },
    /// The first `wanted` bytes of a chunk that is read; it has `rest` bytes after them.
    Body { chunk: Chunk, wanted: usize, rest: u64 },
    /// A chunk that is not read.
    Skip { left: u64, odd: bool },
    /// The beginning of what follows a data chunk of size 0: a chunk, or audio after all?
    Probe,
    /// Samples.
    Data,
    /// Behind the data chunk.
    After,
    /// Refused; every further call says the same.
    Failed(WavError),
}

/// The chunks whose contents are read before the data.
#[derive(Clone, Copy, Debug)]
enum Chunk {
    Format,
    Sizes64,
}

/// What comes after one step of work.
enum Next {
    /// The next step.
    Step,
    /// The bytes are used up, or the samples are full.
    Wait,
    /// A jump in the source.
    Seek(u64),
}

/// What is left of the caller's slices.
struct Io<'a> {
    bytes: &'a [u8],
    samples: &'a mut [f32],
}

impl<'a> Io<'a> {
    fn take(&mut self, at_most: u64) -> &'a [u8] {
        let count = usize::try_from(at_most).unwrap_or(usize::MAX).min(self.bytes.len());
        let (taken, rest) = self.bytes.split_at_checked(count).unwrap_or_default();
        self.bytes = rest;
        taken
    }
}

/// The demuxer: some 200 bytes of plain data.
#[derive(Clone, Debug)]
pub struct Demuxer {
    state: State,
    seekable: bool,
    /// Offset in the file of the next byte.
    position: u64,
    /// The bytes of a header until they are all there; in the data, bytes held back by [`State::Probe`].
    head: [u8; FMT_BYTES],
    filled: usize,
    /// RF64 or BW64: a size of 0xFFFFFFFF stands in the ds64 chunk.
    wide: bool,
    wide_data_size: Option<u64>,
    format: Option<Format>,
    /// Offset and size of a data chunk that came before the format.
    early_data: Option<(u64, u64)>,
    declared: Option<u64>,
    present: u64,
    trailing: u64,
    frames: u64,
    frame: PartialFrame,
    damage: Damage,
}

/// A frame of which some bytes have come.
#[derive(Clone, Copy, Debug)]
struct PartialFrame {
    sample: [u8; 8],
    filled: usize,
    /// Channels that are whole, and their sum.
    channels: u16,
    sum: f64,
}

impl PartialFrame {
    const EMPTY: Self = Self {
        sample: [0; 8],
        filled: 0,
        channels: 0,
        sum: 0.0,
    };

    /// Takes a byte; the sum over the channels when it was the last of its frame.
    fn push(&mut self, byte: u8, format: &Format, damage: &mut Damage) -> Option<f64> {
        let width = format.encoding.width();
        if let Some(place) = self.sample.get_mut(self.filled) {
            *place = byte;
        }
        self.filled = self.filled.saturating_add(1);
        if self.filled == width {
            let sample = self.sample.get(..width).unwrap_or_default();
            self.sum += damage.checked(format.encoding.decode(sample));
            self.filled = 0;
            self.channels = self.channels.saturating_add(1);
        }
        if self.channels < format.channels {
            return None;
        }
        let sum = self.sum;
        *self = Self::EMPTY;
        Some(sum)
    }

    /// Bytes it has.
    fn bytes(&self, format: &Format) -> u32 {
        let whole = u32::from(self.channels).saturating_mul(format.encoding.width() as u32);
        whole.saturating_add(self.filled as u32)
    }
}

/// Samples that were replaced.
#[derive(Clone, Copy, Debug)]
struct Damage {
    not_finite: u64,
    too_large: u64,
}

impl Damage {
    #[inline(always)]
    fn checked(&mut self, sample: f64) -> f64 {
        if sample.abs() <= f64::from(MAX_MAGNITUDE) {
            return sample;
        }
        let count = if sample.is_finite() {
            &mut self.too_large
        } else {
            &mut self.not_finite
        };
        *count = count.saturating_add(1);
        0.0
    }
}

impl Default for Demuxer {
    fn default() -> Self {
        Self::new()
    }
}

impl Demuxer {
    /// For a source that is read once, from its first byte to its last. A file with its data before its format is
    /// refused with [`WavError::DataBeforeFormat`] as soon as that is seen.
    pub const fn new() -> Self {
        Self {
            state: State::Riff,
            seekable: false,
            position: 0,
            head: [0; FMT_BYTES],
            filled: 0,
            wide: false,
            wide_data_size: None,
            format: None,
            early_data: None,
            declared: None,
            present: 0,
            trailing: 0,
            frames: 0,
            frame: PartialFrame::EMPTY,
            damage: Damage {
                not_finite: 0,
                too_large: 0,
            },
        }
    }

    /// For a source that can be read from any offset: a file, or a slice. [`Progress::seek`] must be obeyed; an
    /// offset beyond the end of the source is simply its end.
    pub const fn seekable() -> Self {
        let mut demuxer = Self::new();
        demuxer.seekable = true;
        demuxer
    }

    /// For samples without any header: the format is what the caller says, and all bytes are data.
    ///
    /// # Errors
    /// [`WavError::NoChannels`], [`WavError::SampleRate`].
    pub fn raw(encoding: Encoding, sample_rate: u32, channels: u16) -> Result<Self, WavError> {
        let format = Format::new(encoding, sample_rate, channels, encoding.bits())?;
        let mut demuxer = Self::new();
        demuxer.format = Some(format);
        demuxer.state = State::Data;
        Ok(demuxer)
    }

    /// The format, once its chunk has been read.
    pub fn format(&self) -> Option<&Format> {
        self.format.as_ref()
    }

    /// Takes bytes and writes mono samples; full scale is -1 to 1.
    ///
    /// Takes all bytes, unless the samples are full before or it asks for a [seek](Progress::seek). Bytes after
    /// the data are taken and ignored.
    ///
    /// # Errors
    /// Whatever is wrong with the header; the demuxer then stays in that error. Data begins only after all has been
    /// checked, so no samples are lost by an error.
    pub fn push(&mut self, bytes: &[u8], samples: &mut [f32]) -> Result<Progress, WavError> {
        let room = samples.len();
        let mut io = Io { bytes, samples };
        let seek = loop {
            match self.step(&mut io) {
                Ok(Next::Step) => {}
                Ok(Next::Wait) => break None,
                Ok(Next::Seek(offset)) => break Some(offset),
                Err(error) => {
                    self.state = State::Failed(error);
                    return Err(error);
                }
            }
        };
        Ok(Progress {
            consumed: bytes.len().saturating_sub(io.bytes.len()),
            written: room.saturating_sub(io.samples.len()),
            seek,
        })
    }

    /// The end of the stream. May be called at any time, and again.
    ///
    /// # Errors
    /// An error of [`push`](Self::push), or that the stream ended before its data began.
    pub fn finish(&self) -> Result<Summary, WavError> {
        let end = self.position;
        let head = self.head.get(..self.filled).unwrap_or_default();
        let pad = self.declared.map_or(0, |size| size % 2);
        match (self.state, self.format) {
            (State::Failed(error), _) => Err(error),
            (State::Riff, _) if head.is_empty() => Err(WavError::Empty),
            (State::Riff, _) if !begins_riff(head) => Err(WavError::not_wav(head)),
            (State::Probe | State::Data | State::After, Some(format)) => Ok(Summary {
                format,
                frames: self.frames,
                declared: self.declared,
                present: self.present,
                cut: self.frame.bytes(&format),
                trailing: self.trailing.saturating_add(self.filled as u64).saturating_sub(pad),
                not_finite: self.damage.not_finite,
                too_large: self.damage.too_large,
            }),
            (_, None) => Err(WavError::NoFormat { end }),
            (_, Some(_)) => Err(WavError::NoData { end }),
        }
    }

    fn step(&mut self, io: &mut Io) -> Result<Next, WavError> {
        match self.state {
            State::Failed(error) => return Err(error),
            State::Riff => {
                if !self.gather(io, 12) {
                    return Ok(Next::Wait);
                }
                let head = self.head.get(..12).unwrap_or_default();
                if !begins_riff(head) {
                    return Err(WavError::not_wav(head));
                }
                self.wide = !head.starts_with(b"RIFF");
                self.expect_header(false);
            }
            State::Header { after_odd: true } => {
                if !self.gather(io, 5) {
                    return Ok(Next::Wait);
                }
                self.state = State::Header { after_odd: false };
                if begins_with_pad(&self.head) {
                    self.head.copy_within(1..5, 0);
                    self.filled = 4;
                }
            }
            State::Header { after_odd: false } => {
                if !self.gather(io, 8) {
                    return Ok(Next::Wait);
                }
                let [n0, n1, n2, n3, s0, s1, s2, s3, ..] = self.head;
                return self.enter(&[n0, n1, n2, n3], u32::from_le_bytes([s0, s1, s2, s3]));
            }
            State::Body { chunk, wanted, rest } => {
                if !self.gather(io, wanted) {
                    return Ok(Next::Wait);
                }
                return self.read_body(chunk, wanted, rest);
            }
            State::Skip { left, odd } => {
                if left == 0 {
                    self.expect_header(odd);
                } else if io.bytes.is_empty() {
                    return Ok(Next::Wait);
                } else {
                    let skipped = io.take(left).len() as u64;
                    self.advance(skipped);
                    let left = left.saturating_sub(skipped);
                    self.state = State::Skip { left, odd };
                }
            }
            State::Probe => {
                let Some(byte) = io.bytes.first() else {
                    return Ok(Next::Wait);
                };
                let held = self.head.get(..self.filled).unwrap_or_default();
                let goes_on = |name: &&[u8; 4]| name.strip_prefix(held).is_some_and(|rest| rest.first() == Some(byte));
                if !KNOWN_CHUNKS.iter().any(goes_on) {
                    // Audio. This byte is left to the data state, so that whoever has given all bytes has got all
                    // samples of the bytes held back, too.
                    self.declared = None;
                    self.state = State::Data;
                } else if self.gather(io, self.filled.saturating_add(1)) && self.filled == 4 {
                    self.state = State::After;
                }
            }
            State::Data => return Ok(self.data(io)),
            State::After => {
                let ignored = io.take(u64::MAX).len() as u64;
                self.advance(ignored);
                self.trailing = self.trailing.saturating_add(ignored);
                return Ok(Next::Wait);
            }
        }
        Ok(Next::Step)
    }

    fn advance(&mut self, bytes: u64) {
        self.position = self.position.saturating_add(bytes);
    }

    /// Fills the head up to `wanted` bytes; whether it has them.
    fn gather(&mut self, io: &mut Io, wanted: usize) -> bool {
        let places = self.head.get_mut(self.filled..wanted).unwrap_or_default();
        let bytes = io.take(places.len() as u64);
        for (place, byte) in places.iter_mut().zip(bytes) {
            *place = *byte;
        }
        self.filled = self.filled.saturating_add(bytes.len());
        self.advance(bytes.len() as u64);
        self.filled >= wanted
    }

    fn expect_header(&mut self, after_odd: bool) {
        self.filled = 0;
        self.state = State::Header { after_odd };
    }

    /// A chunk begins at the position.
    fn enter(&mut self, name: &[u8; 4], size: u32) -> Result<Next, WavError> {
        self.filled = 0;
        let offset = self.position;
        let odd = size % 2 == 1;
        let size64 = u64::from(size);
        let body = |chunk, at_most: usize| {
            let wanted = (size as usize).min(at_most);
            let rest = size64.saturating_sub(wanted as u64);
            State::Body { chunk, wanted, rest }
        };
        self.state = match name {
            b"data" => {
                return self.enter_data(if size == u32::MAX {
                    self.wide_data_size
                } else {
                    Some(size64)
                });
            }
            b"fmt " if size < FMT_LEAST => {
                return Err(WavError::FormatTooShort {
                    offset,
                    needed: FMT_LEAST,
                    found: size,
                });
            }
            // The first one holds.
            b"fmt " if self.format.is_none() => body(Chunk::Format, FMT_BYTES),
            b"ds64" if self.wide && size >= 16 => body(Chunk::Sizes64, 16),
            _ => State::Skip { left: size64, odd },
        };
        Ok(Next::Step)
    }

    fn enter_data(&mut self, size: Option<u64>) -> Result<Next, WavError> {
        let offset = self.position;
        match (self.format, size) {
            (Some(_), _) => {
                self.declared = size;
                self.state = if size == Some(0) { State::Probe } else { State::Data };
                Ok(Next::Step)
            }
            (None, Some(0)) => {
                self.expect_header(false);
                Ok(Next::Step)
            }
            (None, Some(size)) if self.seekable => {
                self.early_data = self.early_data.or(Some((offset, size)));
                self.expect_header(size % 2 == 1);
                self.advance(size);
                Ok(Next::Seek(self.position))
            }
            (None, _) => Err(WavError::DataBeforeFormat { offset }),
        }
    }

    /// The `wanted` first bytes of a chunk are in the head.
    fn read_body(&mut self, chunk: Chunk, wanted: usize, rest: u64) -> Result<Next, WavError> {
        let body = self.head.get(..wanted).unwrap_or_default();
        self.filled = 0;
        let odd = (wanted as u64 ^ rest) & 1 == 1;
        self.state = State::Skip { left: rest, odd };
        match chunk {
            Chunk::Sizes64 => {
                let size = body
                    .get(8..16)
                    .and_then(|size| size.try_into().ok())
                    .map(u64::from_le_bytes);
                self.wide_data_size = size.filter(|size| *size != u64::MAX);
            }
            Chunk::Format => {
                let offset = self.position.saturating_sub(wanted as u64);
                self.format = Some(Format::parse(body, offset)?);
                if let Some((offset, size)) = self.early_data {
                    self.position = offset;
                    self.enter_data(Some(size))?;
                    return Ok(Next::Seek(offset));
                }
            }
        }
        Ok(Next::Step)
    }

    /// Decodes what is held back, then what is given.
    fn data(&mut self, io: &mut Io) -> Next {
        let Some(format) = self.format else { return Next::Wait };
        if self.filled > 0 {
            let held = self.head;
            let held = held.get(..self.filled).unwrap_or_default();
            let taken = self.decode(&format, held, &mut io.samples);
            let held = held.get(taken..).unwrap_or_default();
            self.filled = held.len();
            for (place, byte) in self.head.iter_mut().zip(held) {
                *place = *byte;
            }
            return if held.is_empty() { Next::Step } else { Next::Wait };
        }
        let left = self.declared.map_or(u64::MAX, |size| size.saturating_sub(self.present));
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let within = io.bytes.get(..left).unwrap_or(io.bytes);
        let taken = self.decode(&format, within, &mut io.samples) as u64;
        io.take(taken);
        self.advance(taken);
        if self.declared == Some(self.present) {
            self.state = State::After;
            return Next::Step;
        }
        Next::Wait
    }

    /// Decodes until the bytes are used up or the samples are full; returns the bytes taken.
    fn decode(&mut self, format: &Format, bytes: &[u8], samples: &mut &mut [f32]) -> usize {
        // Neither is 0; written so that the compiler knows it, too.
        let (width, block) = (format.encoding.width().max(1), format.block().max(1));
        let channels = f64::from(format.channels);
        let mut rest = bytes;
        while !samples.is_empty() && !rest.is_empty() {
            let between_frames = self.frame.filled == 0 && self.frame.channels == 0;
            if between_frames && rest.len() >= block {
                let mut frames = 0usize;
                for (frame, out) in rest.chunks_exact(block).zip(samples.iter_mut()) {
                    let mut sum = 0.0;
                    for sample in frame.chunks_exact(width) {
                        sum += self.damage.checked(format.encoding.decode(sample));
                    }
                    *out = mean(sum, channels);
                    frames = frames.saturating_add(1);
                }
                rest = rest.get(frames.saturating_mul(block)..).unwrap_or_default();
                self.skip_samples(samples, frames);
            } else if let Some((byte, after)) = rest.split_first() {
                rest = after;
                if let Some(sum) = self.frame.push(*byte, format, &mut self.damage) {
                    if let Some(out) = samples.first_mut() {
                        *out = mean(sum, channels);
                    }
                    self.skip_samples(samples, 1);
                }
            }
        }
        let taken = bytes.len().saturating_sub(rest.len());
        self.present = self.present.saturating_add(taken as u64);
        taken
    }

    /// The first `count` samples have been written.
    fn skip_samples(&mut self, samples: &mut &mut [f32], count: usize) {
        *samples = core::mem::take(samples).get_mut(count..).unwrap_or_default();
        self.frames = self.frames.saturating_add(count as u64);
    }
}

/// The sum is exact for every integer encoding, and so is the division for one, two, four and eight channels.
#[inline(always)]
fn mean(sum: f64, channels: f64) -> f32 {
    (if channels == 1.0 { sum } else { sum / channels }) as f32
}

/// Whether up to 12 bytes are the beginning of a RIFF chunk of form WAVE.
fn begins_riff(head: &[u8]) -> bool {
    let agree = |bytes: &[u8], name: &[u8; 4]| bytes.iter().zip(name).all(|(byte, of_name)| byte == of_name);
    RIFF_NAMES.iter().any(|name| agree(head, name)) && agree(head.get(8..).unwrap_or_default(), b"WAVE")
}

/// Whether the bytes behind a chunk of odd size begin with a pad byte: a known name one byte later decides; failing
/// that, a byte that no name can begin with is one.
fn begins_with_pad(bytes: &[u8; FMT_BYTES]) -> bool {
    let [first, later @ ..] = bytes;
    KNOWN_CHUNKS.iter().any(|name| later.starts_with(*name)) || !matches!(first, b' '..=b'~')
}
