//! A WAV with a codec, laid out anew for its decoder.
//!
//! The reader of symphonia refuses sizes that are wrong and headers of an unusual length. So it gets a header that is
//! right, with the size that the audio has, and the audio behind it. What is believed of the file's sizes is what
//! core's demuxer believes.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};

use voxtral_core::format::wav::{KNOWN_CHUNKS, WavError};

use super::Opened;
use crate::error::Error;

const MS_ADPCM: u16 = 0x0002;
const A_LAW: u16 = 0x0006;
const MU_LAW: u16 = 0x0007;
const IMA_ADPCM: u16 = 0x0011;

/// Most bytes of a format chunk that are read.
const MOST_FORMAT: u64 = 1024;

/// The file as its decoder gets it.
pub(super) struct Laid {
    pub(super) source: io::Chain<Cursor<Vec<u8>>, io::Take<File>>,
    /// The header declares more audio than there is.
    pub(super) cut: bool,
    /// Bytes of a last block that is not whole.
    pub(super) part: u64,
}

/// Whether there is a decoder for a format tag.
pub(super) fn is_decoded(tag: u16) -> bool {
    [MS_ADPCM, A_LAW, MU_LAW, IMA_ADPCM].contains(&tag)
}

/// Lays out a file whose format is `tag`, directly or by its sub-format.
///
/// # Errors
/// [`Error::Wav`] if it has no format or no data, [`Error::File`] if it cannot be read.
pub(super) fn lay_out(mut opened: Opened, tag: u16) -> Result<Laid, Error> {
    let path = opened.path.clone();
    match find(&mut opened.file) {
        Ok((Some(format), Some(data), end)) if format.len() >= 16 => {
            laid(opened.file, tag, format, data, end).map_err(|source| Error::File { path, source })
        }
        Ok((format, _, end)) => {
            let source = match format {
                Some(_) => WavError::NoData { end },
                None => WavError::NoFormat { end },
            };
            Err(Error::Wav { path, source })
        }
        Err(source) => Err(Error::File { path, source }),
    }
}

/// Where the samples begin, and how many bytes the header declares: none when it does not know.
struct Data {
    offset: u64,
    declared: Option<u64>,
}

/// The format chunk, the data and the length of the file.
fn find(file: &mut File) -> io::Result<(Option<Vec<u8>>, Option<Data>, u64)> {
    let end = file.metadata()?.len();
    let wide = read_at(file, 0, 4)? != b"RIFF";
    let (mut format, mut data, mut wide_size) = (None, None, None);
    let mut at = 12;
    while format.is_none() || data.is_none() {
        let head = read_at(file, at, 8)?;
        let &[n0, n1, n2, n3, s0, s1, s2, s3] = head.as_slice() else {
            break;
        };
        let mut size = u64::from(u32::from_le_bytes([s0, s1, s2, s3]));
        let body = at + 8;
        match &[n0, n1, n2, n3] {
            b"fmt " if format.is_none() => format = Some(read_at(file, body, size.min(MOST_FORMAT))?),
            b"ds64" if wide => {
                let sizes = read_at(file, body, 16)?;
                wide_size = sizes
                    .last_chunk()
                    .filter(|_| sizes.len() == 16)
                    .map(|size| u64::from_le_bytes(*size));
            }
            b"data" if data.is_none() => {
                let declared = match size {
                    0xFFFF_FFFF => wide_size,
                    0 if is_chunk(&read_at(file, body, 4)?) => Some(0),
                    0 => None,
                    size => Some(size),
                };
                data = Some(Data { offset: body, declared });
                size = declared.unwrap_or(u64::MAX);
            }
            _ => {}
        }
        at = match body.checked_add(size) {
            Some(next) if next < end => next,
            _ => break,
        };
        // Not every writer pads a chunk of odd size.
        if size % 2 == 1 && !is_chunk(&read_at(file, at, 4)?) {
            at += 1;
        }
    }
    Ok((format, data, end))
}

fn is_chunk(name: &[u8]) -> bool {
    KNOWN_CHUNKS.iter().any(|known| known.as_slice() == name)
}

fn laid(mut file: File, tag: u16, mut format: Vec<u8>, data: Data, end: u64) -> io::Result<Laid> {
    let there = end.saturating_sub(data.offset);
    let length = data.declared.map_or(there, |declared| declared.min(there));

    format[..2].copy_from_slice(&tag.to_le_bytes());
    let mut block = u64::from(u16::from_le_bytes([format[12], format[13]]));
    if tag == A_LAW || tag == MU_LAW {
        // Sixteen bytes, and zero that follow.
        format.truncate(16);
        format.extend([0, 0]);
        block = u64::from(u16::from_le_bytes([format[2], format[3]]));
    }
    let format_size = format.len() as u32;
    format.resize(format.len().next_multiple_of(2), 0);

    // "WAVE", and two heads of chunks.
    let around = 4 + 8 + format.len() as u64 + 8;
    // What does not fit 32 bits has no size, and is read to its end.
    let (riff, size) = match u32::try_from(around + length) {
        Ok(riff) if riff < u32::MAX => (riff, length as u32),
        _ => (u32::MAX, u32::MAX),
    };
    let head = [
        &b"RIFF"[..],
        &riff.to_le_bytes(),
        b"WAVEfmt ",
        &format_size.to_le_bytes(),
        &format,
        b"data",
        &size.to_le_bytes(),
    ]
    .concat();
    file.seek(SeekFrom::Start(data.offset))?;
    Ok(Laid {
        source: Cursor::new(head).chain(file.take(length)),
        cut: data.declared.is_some_and(|declared| declared > there),
        part: length.checked_rem(block).unwrap_or(0),
    })
}

/// Up to `count` bytes from an offset.
fn read_at(file: &mut File, offset: u64, count: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(count).read_to_end(&mut bytes)?;
    Ok(bytes)
}
