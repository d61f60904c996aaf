//! The `fmt ` chunk, and the samples that it describes.

use super::WavError;

/// Bytes of the chunk that mean something, and the least that it must have.
pub(super) const FMT_BYTES: usize = 40;
pub(super) const FMT_LEAST: u32 = 16;

/// Lowest sample rate that is believed, in Hz.
pub const MIN_RATE: u32 = 1_000;
/// Highest sample rate that is believed, in Hz.
pub const MAX_RATE: u32 = 768_000;

const PCM: u16 = 0x0001;
const FLOAT: u16 = 0x0003;
const EXTENSIBLE: u16 = 0xFFFE;

/// What follows the tag in the sub-format of WAVE_FORMAT_EXTENSIBLE: {0000tttt-0000-0010-8000-00AA00389B71}.
const GUID_TAIL: [u8; 14] = [
    0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x80, 0x00, 0x00, 0xAA, 0x00, 0x38, 0x9B, 0x71,
];

/// How a sample is stored, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Unsigned bytes around 128.
    PcmU8,
    /// Signed, 16 bits.
    PcmS16,
    /// Signed, 24 bits in three bytes.
    PcmS24,
    /// Signed, 32 bits.
    PcmS32,
    /// IEEE single precision.
    Float32,
    /// IEEE double precision.
    Float64,
}

impl Encoding {
    fn new(tag: u16, bits: u16) -> Option<Self> {
        match (tag, bits) {
            (PCM, 8) => Some(Self::PcmU8),
            (PCM, 16) => Some(Self::PcmS16),
            (PCM, 24) => Some(Self::PcmS24),
            (PCM, 32) => Some(Self::PcmS32),
            (FLOAT, 32) => Some(Self::Float32),
            (FLOAT, 64) => Some(Self::Float64),
            _ => None,
        }
    }

    /// Bytes of a sample.
    pub const fn width(self) -> usize {
        match self {
            Self::PcmU8 => 1,
            Self::PcmS16 => 2,
            Self::PcmS24 => 3,
            Self::PcmS32 | Self::Float32 => 4,
            Self::Float64 => 8,
        }
    }

    /// Bits of a sample.
    pub const fn bits(self) -> u16 {
        match self {
            Self::PcmU8 => 8,
            Self::PcmS16 => 16,
            Self::PcmS24 => 24,
            Self::PcmS32 | Self::Float32 => 32,
            Self::Float64 => 64,
        }
    }

    /// The value of [`width`](Self::width) bytes; integers are scaled by a power of two to -1..1, exactly.
    #[inline(always)]
    pub(super) fn decode(self, bytes: &[u8]) -> f64 {
        match (self, bytes) {
            (Self::PcmU8, [a]) => f64::from(a.wrapping_sub(128) as i8) / 128.0,
            (Self::PcmS16, [a, b]) => f64::from(i16::from_le_bytes([*a, *b])) / 32_768.0,
            // In the upper bytes of 32 bits the sign is in its place.
            (Self::PcmS24, [a, b, c]) => f64::from(i32::from_le_bytes([0, *a, *b, *c])) / 2_147_483_648.0,
            (Self::PcmS32, [a, b, c, d]) => f64::from(i32::from_le_bytes([*a, *b, *c, *d])) / 2_147_483_648.0,
            (Self::Float32, [a, b, c, d]) => f64::from(f32::from_le_bytes([*a, *b, *c, *d])),
            (Self::Float64, [a, b, c, d, e, f, g, h]) => f64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
            _ => 0.0,
        }
    }
}

/// The format of a WAV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// How a sample is stored.
    pub encoding: Encoding,
    /// Frames per second, [`MIN_RATE`] to [`MAX_RATE`].
    pub sample_rate: u32,
    /// Samples per frame, at least 1.
    pub channels: u16,
    /// Bits of a sample that mean something: the upper ones. The lower ones are decoded like the others.
    pub valid_bits: u16,
}

impl Format {
    pub(super) fn new(encoding: Encoding, sample_rate: u32, channels: u16, valid_bits: u16) -> Result<Self, WavError> {
        if channels == 0 {
            return Err(WavError::NoChannels);
        }
        if !(MIN_RATE..=MAX_RATE).contains(&sample_rate) {
            return Err(WavError::SampleRate { found: sample_rate });
        }
        Ok(Self {
            encoding,
            sample_rate,
            channels,
            valid_bits,
        })
    }

    /// Bytes of a frame.
    pub fn block(&self) -> usize {
        usize::from(self.channels).saturating_mul(self.encoding.width())
    }

    /// Reads the first bytes (up to [`FMT_BYTES`]) of a chunk whose body is at `offset`.
    pub(super) fn parse(chunk: &[u8], offset: u64) -> Result<Self, WavError> {
        let too_short = |needed| WavError::FormatTooShort {
            offset,
            needed,
            found: chunk.len() as u32,
        };
        let Some(&[t0, t1, c0, c1, r0, r1, r2, r3, _, _, _, _, a0, a1, b0, b1]) = chunk.first_chunk() else {
            return Err(too_short(FMT_LEAST));
        };
        let channels = u16::from_le_bytes([c0, c1]);
        let sample_rate = u32::from_le_bytes([r0, r1, r2, r3]);
        let block_align = u16::from_le_bytes([a0, a1]);
        let bits = u16::from_le_bytes([b0, b1]);
        let mut tag = u16::from_le_bytes([t0, t1]);
        let mut valid_bits = bits;
        if tag == EXTENSIBLE {
            // Two bytes of extension size, valid bits, four bytes of speaker positions, sub-format.
            let Some(&[_, _, v0, v1, _, _, _, _, s0, s1, ref tail @ ..]) =
                chunk.get(16..).and_then(|b| b.first_chunk::<24>())
            else {
                return Err(too_short(FMT_BYTES as u32));
            };
            if *tail != GUID_TAIL {
                let mut guid = [s0, s1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                for (place, byte) in guid.iter_mut().skip(2).zip(tail) {
                    *place = *byte;
                }
                return Err(WavError::SubFormat { guid });
            }
            tag = u16::from_le_bytes([s0, s1]);
            let stated = u16::from_le_bytes([v0, v1]);
            if stated != 0 {
                valid_bits = stated;
            }
        }
        if tag != PCM && tag != FLOAT {
            return Err(WavError::Codec { tag });
        }
        let float = tag == FLOAT;
        let encoding = Encoding::new(tag, bits).ok_or(WavError::Bits { float, found: bits })?;
        if valid_bits > bits {
            return Err(WavError::ValidBits {
                bits,
                found: valid_bits,
            });
        }
        let format = Self::new(encoding, sample_rate, channels, valid_bits)?;
        if usize::from(block_align) != format.block() {
            return Err(WavError::BlockAlign {
                expected: format.block() as u32,
                found: block_align,
            });
        }
        Ok(format)
    }
}
