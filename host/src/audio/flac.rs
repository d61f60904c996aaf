//! A FLAC without what other programs put behind it.
//!
//! The reader of symphonia takes all bytes up to the end of the file as the last frame, and drops it because its
//! checksum is wrong then.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};

/// Zeros that follow the audio. The checksum of a frame and its checksum is zero and stays so over zeros, so that a
/// frame with two or more zeros behind it is right again, and one that ends in zeros is not hurt.
const ZEROS: [u8; 2] = [0; 2];

/// Bytes of an ID3v1 tag.
const ID3V1: u64 = 128;

/// Bytes of the footer of an APEv2 tag, and of its header.
const APE: u64 = 32;

/// The rest of the file without the tags at its end.
pub(super) fn without_tags(mut file: File) -> io::Result<io::Chain<io::Take<File>, Cursor<&'static [u8]>>> {
    let start = file.stream_position()?;
    let mut end = file.metadata()?.len().max(start);
    while let Some(tag) = tag_length(&mut file, start, end)? {
        end -= tag;
    }
    let mut last = [1];
    if end > start {
        file.seek(SeekFrom::Start(end - 1))?;
        file.read_exact(&mut last)?;
    }
    let zeros: &[u8] = if last == [0] { &ZEROS } else { &[] };
    file.seek(SeekFrom::Start(start))?;
    Ok(file.take(end - start).chain(Cursor::new(zeros)))
}

/// Bytes of the tag that ends at `end`.
fn tag_length(file: &mut File, start: u64, end: u64) -> io::Result<Option<u64>> {
    let room = end - start;
    let mut head = [0; 3];
    if room >= ID3V1 {
        file.seek(SeekFrom::Start(end - ID3V1))?;
        file.read_exact(&mut head)?;
        if head == *b"TAG" {
            return Ok(Some(ID3V1));
        }
    }
    let mut footer = [0; APE as usize];
    if room >= APE {
        file.seek(SeekFrom::Start(end - APE))?;
        file.read_exact(&mut footer)?;
        if footer.starts_with(b"APETAGEX") {
            // The size has the footer in it; the highest of the flags tells of a header.
            let size = u64::from(u32::from_le_bytes([footer[12], footer[13], footer[14], footer[15]]));
            let header = if footer[23] & 0x80 == 0 { 0 } else { APE };
            return Ok(Some(size + header).filter(|length| (APE..=room).contains(length)));
        }
    }
    Ok(None)
}
