//! An Ogg of which damaged pages are left out, and seen to be missing (RFC 3533).
//!
//! The reader of symphonia lets the page behind a gap begin where the last one before it ended. Where pages are missing
//! the pages of the header are given once more: with them a stream begins anew, and its time is the one that its
//! first page tells.

use std::collections::HashMap;
use std::io::{self, Read};

/// Bytes of the head of a page, before the sizes of its segments.
const HEAD: usize = 27;

/// Most bytes of header pages that are kept to be given again.
const MOST_HEADERS: usize = 1 << 18;

/// Most gaps behind which the header is given again: a bound on the work for a hostile file.
const MOST_GAPS: u32 = 1000;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 14;

/// The whole pages of a stream.
pub(super) struct Pages<R> {
    source: R,
    /// Bytes that are not given yet, of which those before `start` are done with.
    bytes: Vec<u8>,
    start: usize,
    /// Pages to give, and how much of them is given.
    ready: Vec<u8>,
    given: usize,
    headers: Vec<u8>,
    in_headers: bool,
    /// The number of the last page of each stream.
    numbers: HashMap<u32, u32>,
    gaps: u32,
}

impl<R: Read> Pages<R> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source,
            bytes: Vec::new(),
            start: 0,
            ready: Vec::new(),
            given: 0,
            headers: Vec::new(),
            in_headers: false,
            numbers: HashMap::new(),
            gaps: 0,
        }
    }

    /// Whether there are `count` bytes, which are read if necessary.
    fn has(&mut self, count: usize) -> io::Result<bool> {
        while self.bytes.len() - self.start < count {
            self.bytes.drain(..self.start);
            self.start = 0;
            // Not until so many are there: a pipe may give fewer, and more only later.
            let held = self.bytes.len();
            self.bytes.resize(held + PIECE, 0);
            let read = self.source.read(&mut self.bytes[held..]);
            self.bytes.truncate(held + read.as_ref().map_or(0, |read| *read));
            match read {
                Ok(0) => return Ok(false),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(true)
    }

    /// Makes the next page ready; nothing is at the end.
    fn advance(&mut self) -> io::Result<()> {
        self.ready.clear();
        self.given = 0;
        while self.has(HEAD)? {
            let head = &self.bytes[self.start..];
            if !head.starts_with(b"OggS\0") {
                self.start += 1;
                continue;
            }
            let segments = usize::from(head[HEAD - 1]);
            if !self.has(HEAD + segments)? {
                self.start += 1;
                continue;
            }
            let sizes = &self.bytes[self.start + HEAD..][..segments];
            let length = HEAD + segments + sizes.iter().map(|size| usize::from(*size)).sum::<usize>();
            if !self.has(length)? || !is_whole(&self.bytes[self.start..][..length]) {
                self.start += 1;
                continue;
            }
            self.give(length);
            break;
        }
        Ok(())
    }

    /// Makes the page of `length` bytes ready.
    fn give(&mut self, length: usize) {
        let page = &self.bytes[self.start..][..length];
        self.start += length;
        let granule = i64::from_le_bytes(array(page, 6));
        let serial = u32::from_le_bytes(array(page, 14));
        let number = u32::from_le_bytes(array(page, 18));
        let first = page[5] & 2 != 0;
        if first && !self.in_headers {
            self.headers.clear();
            self.numbers.clear();
            self.in_headers = true;
        }
        let before = self.numbers.insert(serial, number);
        if self.in_headers && (first || granule == 0) && self.headers.len() + length <= MOST_HEADERS {
            self.headers.extend_from_slice(page);
        } else {
            let gap = before.is_some_and(|before| number > before.saturating_add(1));
            if gap && !self.in_headers && self.gaps < MOST_GAPS {
                self.gaps += 1;
                self.ready.extend_from_slice(&self.headers);
            }
            self.in_headers = false;
        }
        self.ready.extend_from_slice(page);
    }
}

impl<R: Read> Read for Pages<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.ready.len() {
            self.advance()?;
        }
        let rest = &self.ready[self.given..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        Ok(count)
    }
}

fn array<const N: usize>(page: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&page[at..at + N]);
    bytes
}

/// Whether the checksum of a page is right: polynomial 0x04C11DB7, over the page with zeros in place of the checksum.
fn is_whole(page: &[u8]) -> bool {
    const TABLE: [u32; 256] = table();
    let sum = page.iter().enumerate().fold(0u32, |sum, (at, byte)| {
        let byte = if (22..26).contains(&at) { 0 } else { *byte };
        sum << 8 ^ TABLE[usize::from((sum >> 24) as u8 ^ byte)]
    });
    sum == u32::from_le_bytes(array(page, 22))
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut sum = (index as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            sum = sum << 1 ^ if sum >> 31 == 1 { 0x04C1_1DB7 } else { 0 };
            bit += 1;
        }
        table[index] = sum;
        index += 1;
    }
    table
}
