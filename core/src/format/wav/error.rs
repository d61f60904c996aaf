//! What can be wrong with a WAV, and the names of what it may be instead.

use core::fmt;

use super::fmt::{MAX_RATE, MIN_RATE};

/// Why a WAV cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WavError {
    /// There is not a single byte.
    Empty,
    /// It begins with `found[..length]`, which is not a WAV; [`container_name`] may know what it is.
    NotWav {
        /// The first bytes.
        found: [u8; 12],
        /// How many there are.
        length: u8,
    },
    /// It ended, at byte `end`, before a format chunk.
    NoFormat {
        /// Offset of the end.
        end: u64,
    },
    /// It has a format and ended, at byte `end`, before a data chunk.
    NoData {
        /// Offset of the end.
        end: u64,
    },
    /// The samples begin at byte `offset`, and the format has not been seen: it can only be found in a source that
    /// can be read twice, and if the size of the data is known.
    DataBeforeFormat {
        /// Offset of the first sample.
        offset: u64,
    },
    /// The format chunk is too small.
    FormatTooShort {
        /// Offset of its body.
        offset: u64,
        /// Bytes needed by its kind.
        needed: u32,
        /// Bytes it has.
        found: u32,
    },
    /// Samples are compressed; [`codec_name`] may know the name.
    Codec {
        /// The format tag.
        tag: u16,
    },
    /// The sub-format of an extensible format is not one of Microsoft's.
    SubFormat {
        /// As it is stored.
        guid: [u8; 16],
    },
    /// Samples of a size that does not exist.
    Bits {
        /// Floating point or integer.
        float: bool,
        /// Bits per sample.
        found: u16,
    },
    /// More valid bits than bits.
    ValidBits {
        /// Bits per sample.
        bits: u16,
        /// Valid bits per sample.
        found: u16,
    },
    /// No channels.
    NoChannels,
    /// The size of a frame contradicts channels and bits.
    BlockAlign {
        /// Bytes by channels and bits.
        expected: u32,
        /// Bytes stated.
        found: u16,
    },
    /// A sample rate outside [`MIN_RATE`] to [`MAX_RATE`].
    SampleRate {
        /// In Hz.
        found: u32,
    },
}

impl WavError {
    pub(super) fn not_wav(head: &[u8]) -> Self {
        let mut found = [0; 12];
        for (place, byte) in found.iter_mut().zip(head) {
            *place = *byte;
        }
        Self::NotWav {
            found,
            length: head.len().min(12) as u8,
        }
    }
}

impl fmt::Display for WavError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Empty => write!(f, "the audio is empty: not a single byte"),
            Self::NotWav { found, length } => {
                let found = found.get(..length.into()).unwrap_or_default();
                write!(f, "not a WAV but ")?;
                match container_name(found) {
                    Some(name) => write!(f, "{name}"),
                    None => write!(f, "something that begins with \"{}\"", found.escape_ascii()),
                }
            }
            Self::NoFormat { end } => write!(f, "the WAV ends at byte {end}, before its format chunk"),
            Self::NoData { end } => write!(f, "the WAV ends at byte {end}, before its data chunk"),
            Self::DataBeforeFormat { offset } => write!(
                f,
                "the samples of the WAV (at byte {offset}) come before its format chunk; that needs a file, not a \
                 pipe, and a data chunk of known size"
            ),
            Self::FormatTooShort { offset, needed, found } => write!(
                f,
                "the format chunk of the WAV (at byte {offset}) has {found} bytes; its kind needs {needed}"
            ),
            Self::Codec { tag } => match codec_name(tag) {
                Some(name) => write!(
                    f,
                    "the WAV is compressed as {name} (format 0x{tag:04X}), which is not read"
                ),
                None => write!(f, "the WAV has the unknown format 0x{tag:04X}, which is not read"),
            },
            Self::SubFormat { guid } => {
                write!(f, "the WAV has an unknown sub-format (")?;
                for byte in guid {
                    write!(f, "{byte:02X}")?;
                }
                write!(f, "), which is not read")
            }
            Self::Bits { float, found } => {
                let (kind, known) = if float {
                    ("float", "32 and 64")
                } else {
                    ("integer", "8, 16, 24 and 32")
                };
                write!(f, "the WAV has {kind} samples of {found} bits; {known} are read")
            }
            Self::ValidBits { bits, found } => write!(f, "the WAV has {found} valid bits in samples of {bits} bits"),
            Self::NoChannels => write!(f, "the WAV has 0 channels"),
            Self::BlockAlign { expected, found } => write!(
                f,
                "the WAV has frames (block align) of {found} bytes; channels and bits make {expected}"
            ),
            Self::SampleRate { found } => write!(
                f,
                "the WAV has a sample rate of {found} Hz; {MIN_RATE} to {MAX_RATE} Hz are read"
            ),
        }
    }
}

impl core::error::Error for WavError {}

/// The name of a codec by its format tag.
pub fn codec_name(tag: u16) -> Option<&'static str> {
    Some(match tag {
        0x0002 => "Microsoft ADPCM",
        0x0006 => "A-law",
        0x0007 => "\u{b5}-law",
        0x0011 => "IMA ADPCM",
        0x0014 | 0x0040 | 0x0045 | 0x0064 => "G.726 ADPCM",
        0x0022 => "TrueSpeech",
        0x0028 | 0x0065 => "G.722 ADPCM",
        0x0031 | 0x0032 => "GSM 06.10",
        0x0038 | 0x0057 | 0x0058 => "AMR",
        0x0042 => "G.723.1",
        0x0050 => "MPEG layer 1 or 2",
        0x0055 => "MP3",
        0x0083 => "G.729",
        0x0092 | 0x2000 => "AC-3",
        0x00FF | 0x1600 | 0x1601 | 0x1602 | 0x1610 | 0xA106 => "AAC",
        0x0160..=0x0163 => "Windows Media Audio",
        0x0270 => "ATRAC3",
        0x2001 => "DTS",
        0x566F | 0x674F..=0x6751 | 0x676F..=0x6771 => "Vorbis",
        0x704F => "Opus",
        0xA109 => "Speex",
        0xF1AC => "FLAC",
        _ => return None,
    })
}

/// What a file is that begins like this, by its first 12 bytes; none if that cannot be told, or if it is a WAV.
pub fn container_name(start: &[u8]) -> Option<&'static str> {
    Some(match start {
        [b'I', b'D', b'3', ..] => "an MP3 (ID3 tag)",
        [b'f', b'L', b'a', b'C', ..] => "FLAC",
        [b'O', b'g', b'g', b'S', ..] => "Ogg (Vorbis or Opus)",
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => "an MP4 (M4A)",
        [0x1A, 0x45, 0xDF, 0xA3, ..] => "Matroska (WebM)",
        [b'R', b'I', b'F', b'X', ..] => "a big-endian WAV (RIFX)",
        [b'r', b'i', b'f', b'f', ..] => "a Sony Wave64",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'A', b'V', b'I', b' '] => "an AVI",
        [b'F', b'O', b'R', b'M', _, _, _, _, b'A', b'I', b'F', b'F' | b'C'] => "an AIFF",
        [b'c', b'a', b'f', b'f', ..] => "a Core Audio file",
        [b'.', b's', b'n', b'd', ..] => "a Sun audio file",
        [0x30, 0x26, 0xB2, 0x75, ..] => "Windows Media (ASF)",
        [b'#', b'!', b'A', b'M', b'R', ..] => "AMR",
        [0xFF, 0xF0 | 0xF1 | 0xF8 | 0xF9, ..] => "AAC (ADTS)",
        [0xFF, 0xE2 | 0xE3 | 0xF2 | 0xF3 | 0xFA | 0xFB, ..] => "an MP3",
        _ => return None,
    })
}
