//! What a file is, by its first bytes.

use voxtral_core::format::image::Image;
use voxtral_core::format::wav::{WavError, container_name};

use super::{AudioError, Opened};
use crate::error::Error;
use crate::recognise::{Kind, LOOKED_AT};

/// Bytes that are looked at: the first page of an Ogg with the name of its codec.
const HEAD: usize = 64;

/// Bytes of a stream that are looked at for text, and of raw samples for a known beginning.
const TEXT_HEAD: usize = 32;
const RAW_HEAD: usize = 12;

/// Most ID3 tags in a row that are passed over.
const MOST_TAGS: u32 = 16;

/// Formats that there are readers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Wav,
    Flac,
    Mp3,
    Ogg,
    Mp4,
    /// A plain stream of AAC.
    Adts,
    Aiff,
}

impl Container {
    /// The name that errors tell.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Wav => "a WAV",
            Self::Flac => "a FLAC",
            Self::Mp3 => "an MP3",
            Self::Ogg => "an Ogg",
            Self::Mp4 => "an MP4 (M4A)",
            Self::Adts => "an AAC (ADTS)",
            Self::Aiff => "an AIFF",
        }
    }

    /// The cargo feature that it needs.
    pub(super) fn feature(self) -> &'static str {
        match self {
            Self::Wav => "wav-codecs",
            Self::Flac => "flac",
            Self::Mp3 => "mp3",
            Self::Ogg => "ogg",
            Self::Mp4 | Self::Adts => "m4a",
            Self::Aiff => "aiff",
        }
    }

    /// Whether its decoder is built in.
    #[cfg(feature = "decoders")]
    pub(super) fn built_in(self) -> bool {
        match self {
            Self::Wav => cfg!(feature = "wav-codecs"),
            Self::Flac => cfg!(feature = "flac"),
            Self::Mp3 => cfg!(feature = "mp3"),
            Self::Ogg => cfg!(feature = "ogg"),
            Self::Mp4 | Self::Adts => cfg!(feature = "m4a"),
            Self::Aiff => cfg!(feature = "aiff"),
        }
    }
}

/// The format of a file, which is left at its beginning: the one behind ID3 tags.
///
/// # Errors
/// [`Error::Audio`] if it is not known or never read, [`Error::Wav`] if there are no bytes.
pub(super) fn container(opened: &mut Opened) -> Result<Container, Error> {
    let mut tags = 0;
    loop {
        let head = opened.look(HEAD)?;
        if let Some(length) = id3_length(head) {
            if tags == MOST_TAGS {
                return Err(opened.audio(AudioError::Damaged {
                    container: Container::Mp3.name(),
                    what: format!("more than {MOST_TAGS} ID3 tags follow each other"),
                }));
            }
            opened.skip(length)?;
            tags += 1;
            continue;
        }
        let container = match by_head(head) {
            Ok(container) => container,
            // Behind a tag there is an MP3, even if it does not begin with a frame.
            Err(AudioError::Unknown { .. }) if tags > 0 => Container::Mp3,
            Err(_) if head.is_empty() => {
                return Err(Error::Wav {
                    path: opened.path.clone(),
                    source: WavError::Empty,
                });
            }
            Err(error) => return Err(opened.audio(error)),
        };
        opened.unlook()?;
        return Ok(container);
    }
}

/// The error for a file of no known format, if what it is instead is known.
pub(super) fn other(opened: &mut Opened, error: Error) -> Error {
    let unknown = matches!(
        &error,
        Error::Audio {
            source: AudioError::Unknown { .. },
            ..
        }
    );
    if !unknown {
        return error;
    }
    // One more, so that a text which goes on is not taken for a short one.
    match opened.look(LOOKED_AT + 1) {
        Ok(start) if is_safetensors(start) => opened.audio(AudioError::Weights),
        Ok(start) => match Kind::of(start) {
            Some(found) => opened.audio(AudioError::NotAudio { found }),
            None => error,
        },
        Err(error) => error,
    }
}

/// The size of a header in eight bytes, and a JSON object.
fn is_safetensors(start: &[u8]) -> bool {
    match start.split_first_chunk() {
        Some((size, [b'{', json @ ..])) => {
            u64::from_le_bytes(*size) < 1 << 32 && json.trim_ascii_start().starts_with(b"\"")
        }
        _ => false,
    }
}

/// The format of a stream, none for raw samples: what has no beginning that is known. The twelve bits that begin a
/// frame of MP3 or AAC may be a sample as well, and count only if where the frame ends another one begins.
///
/// # Errors
/// As [`container`], but for what is not known.
pub(super) fn container_or_raw(opened: &mut Opened) -> Result<Option<Container>, Error> {
    let tagged = id3_length(opened.look(HEAD)?).is_some();
    match container(opened) {
        Err(Error::Audio {
            source: AudioError::Unknown { .. },
            ..
        }) => match opened.look(HEAD)? {
            head if Image::is_one(head) => Err(opened.audio(AudioError::NotAudio { found: Kind::Image })),
            _ => Ok(None),
        },
        Ok(Container::Mp3 | Container::Adts) if !tagged && !frames_follow(opened)? => Ok(None),
        found => found.map(Some),
    }
}

/// The name of the format that samples begin like, though they are raw by what was said of them.
///
/// # Errors
/// [`Error::File`] if they cannot be read.
pub(super) fn beginning(opened: &mut Opened) -> Result<Option<&'static str>, Error> {
    let head = opened.look(RAW_HEAD)?;
    Ok(match by_head(head) {
        // Of those the first bytes may be a sample.
        Ok(Container::Mp3 | Container::Adts) => None,
        // Nor is the beginning of a name a name.
        Ok(_) if head.len() < RAW_HEAD => None,
        Ok(container) => Some(container.name()),
        Err(AudioError::Format { container } | AudioError::Codec { container, .. }) => Some(container),
        Err(_) => None,
    })
}

/// Whether a stream without a known beginning is text: no sixteen samples of audio are all printable characters.
///
/// # Errors
/// [`Error::File`] if it cannot be read.
pub(super) fn is_text(opened: &mut Opened) -> Result<bool, Error> {
    let head = opened.look(TEXT_HEAD)?;
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    Ok(!head.is_empty() && head.iter().all(is_text))
}

/// The error for a stream that is text.
pub(super) fn text(opened: &mut Opened) -> Error {
    let source = match opened.look(TEXT_HEAD) {
        Ok(head) => match Kind::of(head) {
            Some(found) => AudioError::NotAudio { found },
            None => unknown(head),
        },
        Err(error) => return error,
    };
    opened.audio(source)
}

fn frames_follow(opened: &mut Opened) -> Result<bool, Error> {
    let Some(length) = frame_length(opened.look(HEAD)?) else {
        return Ok(false);
    };
    let next = opened.look(length + HEAD)?.get(length..).unwrap_or_default();
    // A stream of one frame has nothing to compare with.
    Ok(next.is_empty() || frame_length(next).is_some())
}

/// Bytes of a frame of MPEG layer III (ISO 11172-3, 13818-3) or ADTS (ISO 13818-7) by its header.
fn frame_length(head: &[u8]) -> Option<usize> {
    const KBPS_1: [usize; 15] = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
    const KBPS_2: [usize; 15] = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
    const RATES: [usize; 3] = [44_100, 48_000, 32_000];
    let [0xFF, kind, c, d, e, f, ..] = *head else {
        return None;
    };
    let length = match kind {
        0xF0 | 0xF1 | 0xF8 | 0xF9 => usize::from(d & 3) << 11 | usize::from(e) << 3 | usize::from(f >> 5),
        0xE2 | 0xE3 | 0xF2 | 0xF3 | 0xFA | 0xFB => {
            let (kbps, slots, slower) = match kind {
                0xFA | 0xFB => (&KBPS_1, 144, 1),
                0xF2 | 0xF3 => (&KBPS_2, 72, 2),
                _ => (&KBPS_2, 72, 4),
            };
            let rate = RATES.get(usize::from(c >> 2 & 3))? / slower;
            let kbps = kbps.get(usize::from(c >> 4)).filter(|&&kbps| kbps > 0)?;
            slots * kbps * 1000 / rate + usize::from(c >> 1 & 1)
        }
        _ => return None,
    };
    (length > 6).then_some(length)
}

fn by_head(head: &[u8]) -> Result<Container, AudioError> {
    Ok(match head {
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => Container::Wav,
        [b'R', b'F', b'6', b'4' | b'X', ..] | [b'B', b'W', b'6', b'4', ..] => Container::Wav,
        // A WAV that is cut within its first bytes is told as such.
        _ if head.len() < 12 && (head.starts_with(b"RIFF") || b"RIFF".starts_with(head)) && !head.is_empty() => {
            Container::Wav
        }
        [b'f', b'L', b'a', b'C', ..] => Container::Flac,
        [b'O', b'g', b'g', b'S', ..] => match ogg_codec(head) {
            Some(codec) => {
                return Err(AudioError::Codec {
                    container: "an Ogg",
                    codec,
                });
            }
            None => Container::Ogg,
        },
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => Container::Mp4,
        [b'F', b'O', b'R', b'M', _, _, _, _, b'A', b'I', b'F', b'F' | b'C', ..] => Container::Aiff,
        [0xFF, 0xF0 | 0xF1 | 0xF8 | 0xF9, ..] => Container::Adts,
        [0xFF, 0xE2 | 0xE3 | 0xF2 | 0xF3 | 0xFA | 0xFB, ..] => Container::Mp3,
        _ => {
            let length = head.len().min(12);
            return Err(match container_name(&head[..length]) {
                Some(container) => AudioError::Format { container },
                None => unknown(head),
            });
        }
    })
}

fn unknown(head: &[u8]) -> AudioError {
    let mut found = [0; 12];
    let length = head.len().min(found.len());
    found[..length].copy_from_slice(&head[..length]);
    AudioError::Unknown {
        found,
        length: length as u8,
    }
}

/// The codec of an Ogg, if it is one that is not read. Its name begins the first packet, which begins behind 27 bytes of
/// page and one for each of its segments.
fn ogg_codec(head: &[u8]) -> Option<&'static str> {
    let segments = usize::from(*head.get(26)?);
    let packet = head.get(27 + segments..)?;
    [(&b"OpusHead"[..], "Opus"), (b"Speex   ", "Speex")]
        .into_iter()
        .find_map(|(start, codec)| packet.starts_with(start).then_some(codec))
}

/// Bytes of an ID3 tag: ten and what its four bytes of seven bits say, and ten more if it has a footer.
fn id3_length(head: &[u8]) -> Option<u64> {
    let [b'I', b'D', b'3', _, _, flags, s0, s1, s2, s3, ..] = *head else {
        return None;
    };
    let size = [s0, s1, s2, s3]
        .iter()
        .fold(0, |size, byte| size << 7 | u64::from(byte & 0x7F));
    let footer = if flags & 0x10 == 0 { 0 } else { 10 };
    Some(10 + size + footer)
}
