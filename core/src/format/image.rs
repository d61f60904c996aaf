//! A model packed into one image for flash: its three files, one after the other, behind a header that says where.
//!
//! All numbers are little-endian. The header is 32 bytes, and 32 more for each part:
//!
//! | bytes | |
//! |---|---|
//! | 8 | `VXPACKED` |
//! | 4 | version, 1 |
//! | 4 | number of parts, 1 to 16 |
//! | 8 | length of the image |
//! | 8 | checksum of the header, with zeros in place of these 8 bytes |
//!
//! | bytes of a part | |
//! |---|---|
//! | 4 | kind: 1 weights, 2 params.json, 3 tekken.json, 4 a saved start of utterances; others are passed over |
//! | 4 | zeros |
//! | 8 | offset in the image, a multiple of 64 |
//! | 8 | length |
//! | 8 | checksum of the part |
//!
//! Parts follow each other without overlap. What is between them is not looked at. A part is the file itself, byte for
//! byte: weights are safetensors still.
//!
//! [`Image::open`] reads the header and nothing else, so it costs the same for every model. [`Image::verify`] reads
//! all of it, which for a large flash takes a while: after programming it, or not at all.

use core::fmt;

/// Every part begins at a multiple of this, as the largest vectors and cache lines want it.
pub const ALIGNMENT: u64 = 64;
/// Most parts of an image.
pub const MAX_PARTS: usize = 16;

const MAGIC: &[u8; 8] = b"VXPACKED";
const VERSION: u32 = 1;
const HEADER: usize = 32;
const ENTRY: usize = 32;
/// Where the header's own checksum is.
const CHECKSUM_AT: usize = 24;

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartKind {
    /// `consolidated.safetensors`.
    Weights,
    /// `params.json`.
    Params,
    /// `tekken.json`.
    Tekken,
    /// What [`Session::save_silence`](crate::session::Session::save_silence) wrote; there may be several, for several
    /// options.
    Start,
    /// Something that this version does not know.
    Other(u32),
}

impl PartKind {
    fn of(code: u32) -> Self {
        match code {
            1 => Self::Weights,
            2 => Self::Params,
            3 => Self::Tekken,
            4 => Self::Start,
            other => Self::Other(other),
        }
    }

    fn code(self) -> u32 {
        match self {
            Self::Weights => 1,
            Self::Params => 2,
            Self::Tekken => 3,
            Self::Start => 4,
            Self::Other(code) => code,
        }
    }
}

impl fmt::Display for PartKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weights => f.write_str("weights"),
            Self::Params => f.write_str("params.json"),
            Self::Tekken => f.write_str("tekken.json"),
            Self::Start => f.write_str("saved start"),
            Self::Other(code) => write!(f, "part of kind {code}"),
        }
    }
}

/// Why an image was refused. Offsets and lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageError {
    /// The bytes do not begin as an image does.
    NoImage,
    /// Another version of the format.
    Version {
        /// That of this code.
        expected: u32,
        /// That of the image.
        found: u32,
    },
    /// No part, or more than [`MAX_PARTS`].
    Parts {
        /// How many the header has.
        found: u32,
    },
    /// There are fewer bytes than the header says.
    Truncated {
        /// Bytes that are wanted.
        expected: u64,
        /// Bytes that were given.
        found: u64,
    },
    /// The header is damaged: its checksum is another.
    Header,
    /// A part is not aligned, overlaps the one before it or reaches beyond the image.
    Place {
        /// Which part, counted from 0.
        index: usize,
        /// Where it is said to begin.
        offset: u64,
        /// How long it is said to be.
        len: u64,
    },
    /// A part that there must be one of is missing.
    Missing {
        /// Which.
        kind: PartKind,
    },
    /// A part that there must be one of is there twice.
    Duplicate {
        /// Which.
        kind: PartKind,
    },
    /// A part is damaged: its checksum is another.
    Damaged {
        /// Which.
        kind: PartKind,
        /// Where it begins.
        offset: u64,
    },
    /// The storage for a header is too small, or not as long as the number of parts wants.
    Storage {
        /// Bytes that are wanted.
        expected: usize,
        /// Bytes that were given.
        found: usize,
    },
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoImage => f.write_str("this is no packed model"),
            Self::Version { expected, found } => write!(f, "version {found} of a packed model, {expected} is known"),
            Self::Parts { found } => write!(f, "a packed model of {found} parts, 1 to {MAX_PARTS} are possible"),
            Self::Truncated { expected, found } => {
                write!(f, "the packed model is cut: {found} bytes of {expected}")
            }
            Self::Header => f.write_str("the header of the packed model is damaged"),
            Self::Place { index, offset, len } => write!(
                f,
                "part {index} of the packed model cannot lie at byte {offset} with {len} bytes"
            ),
            Self::Missing { kind } => write!(f, "the packed model has no {kind}"),
            Self::Duplicate { kind } => write!(f, "the packed model has two parts for {kind}"),
            Self::Damaged { kind, offset } => {
                write!(f, "the {kind} at byte {offset} of the packed model is damaged")
            }
            Self::Storage { expected, found } => {
                write!(
                    f,
                    "the header of the packed model has {expected} bytes, {found} were given"
                )
            }
        }
    }
}

impl core::error::Error for ImageError {}

/// Where a part is, and what its bytes come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub kind: PartKind,
    /// Where it begins.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// [`checksum`] of its bytes.
    pub checksum: u64,
}

/// A packed model: a view of its bytes, whose header was checked.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    bytes: &'a [u8],
    parts: usize,
}

impl<'a> Image<'a> {
    /// Whether bytes begin as an image does.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// Checks the header. `bytes` may go on behind the image, as a flash does.
    ///
    /// # Errors
    /// [`ImageError`]; the parts' contents are not looked at.
    pub fn open(bytes: &'a [u8]) -> Result<Self, ImageError> {
        let cut = |expected: usize| ImageError::Truncated {
            expected: expected as u64,
            found: bytes.len() as u64,
        };
        if !Self::is_one(bytes) {
            return Err(ImageError::NoImage);
        }
        let start = bytes.get(..HEADER).ok_or(cut(HEADER))?;
        let version = word32(start, 8);
        if version != VERSION {
            return Err(ImageError::Version {
                expected: VERSION,
                found: version,
            });
        }
        let found = word32(start, 12);
        let parts = found as usize;
        if !(1..=MAX_PARTS).contains(&parts) {
            return Err(ImageError::Parts { found });
        }
        let header = bytes.get(..header_len(parts)).ok_or(cut(header_len(parts)))?;
        if header_checksum(header) != word64(header, CHECKSUM_AT) {
            return Err(ImageError::Header);
        }
        let len = word64(header, 16);
        let image = usize::try_from(len).ok().and_then(|len| bytes.get(..len));
        let bytes = image.ok_or(ImageError::Truncated {
            expected: len,
            found: bytes.len() as u64,
        })?;
        let image = Self { bytes, parts };
        image.check(header.len() as u64)?;
        Ok(image)
    }

    fn check(&self, header: u64) -> Result<(), ImageError> {
        let mut end = header;
        for (index, part) in self.parts().enumerate() {
            let Part { offset, len, kind, .. } = part;
            let behind = offset
                .checked_add(len)
                .filter(|&behind| behind <= self.bytes.len() as u64);
            end = behind
                .filter(|_| offset >= end && offset % ALIGNMENT == 0)
                .ok_or(ImageError::Place { index, offset, len })?;
            let single = matches!(kind, PartKind::Weights | PartKind::Params | PartKind::Tekken);
            if single && self.parts().take(index).any(|other| other.kind == kind) {
                return Err(ImageError::Duplicate { kind });
            }
        }
        for kind in [PartKind::Weights, PartKind::Params, PartKind::Tekken] {
            if self.parts().all(|part| part.kind != kind) {
                return Err(ImageError::Missing { kind });
            }
        }
        Ok(())
    }

    /// Length of the image in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never: an image has a header.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The parts, in the order in which they lie.
    pub fn parts(&self) -> impl Iterator<Item = Part> + use<'a> {
        let entries = self.bytes.get(HEADER..header_len(self.parts)).unwrap_or_default();
        entries.chunks_exact(ENTRY).map(|entry| Part {
            kind: PartKind::of(word32(entry, 0)),
            offset: word64(entry, 8),
            len: word64(entry, 16),
            checksum: word64(entry, 24),
        })
    }

    /// The bytes of a part of this image; none if it is of another.
    pub fn bytes(&self, part: &Part) -> &'a [u8] {
        let range = || {
            let start = usize::try_from(part.offset).ok()?;
            self.bytes
                .get(start..start.checked_add(usize::try_from(part.len).ok()?)?)
        };
        range().unwrap_or_default()
    }

    fn single(&self, kind: PartKind) -> &'a [u8] {
        let part = self.parts().find(|part| part.kind == kind);
        part.map(|part| self.bytes(&part)).unwrap_or_default()
    }

    /// `consolidated.safetensors`.
    pub fn weights(&self) -> &'a [u8] {
        self.single(PartKind::Weights)
    }

    /// `params.json`.
    pub fn params(&self) -> &'a [u8] {
        self.single(PartKind::Params)
    }

    /// `tekken.json`.
    pub fn tekken(&self) -> &'a [u8] {
        self.single(PartKind::Tekken)
    }

    /// The saved starts of utterances. Which of them is for a session,
    /// [`Session::restore_silence`](crate::session::Session::restore_silence) says by taking it.
    pub fn starts(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let image = *self;
        self.parts()
            .filter(|part| part.kind == PartKind::Start)
            .map(move |part| image.bytes(&part))
    }

    /// Reads every part, and compares its checksum.
    ///
    /// # Errors
    /// [`ImageError::Damaged`] for the first that has another.
    pub fn verify(&self) -> Result<(), ImageError> {
        for part in self.parts() {
            if checksum(self.bytes(&part)) != part.checksum {
                let Part { kind, offset, .. } = part;
                return Err(ImageError::Damaged { kind, offset });
            }
        }
        Ok(())
    }
}

/// Bytes of the header of an image of so many parts.
pub const fn header_len(parts: usize) -> usize {
    parts.saturating_mul(ENTRY).saturating_add(HEADER)
}

/// Gives each part its place, one behind the other, and writes the header. Says how long the image is; the offsets are
/// in `parts` then.
///
/// # Errors
/// [`ImageError::Storage`] unless `header` has [`header_len`] bytes; [`ImageError::Parts`] for none or too many;
/// [`ImageError::Place`] for lengths whose sum is no length.
pub fn write_header(parts: &mut [Part], header: &mut [u8]) -> Result<u64, ImageError> {
    let (expected, found) = (header_len(parts.len()), header.len());
    if !(1..=MAX_PARTS).contains(&parts.len()) {
        let found = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        return Err(ImageError::Parts { found });
    }
    if found != expected {
        return Err(ImageError::Storage { expected, found });
    }
    header.fill(0);
    let mut end = expected as u64;
    for (index, part) in parts.iter_mut().enumerate() {
        let place = || {
            let offset = end.checked_next_multiple_of(ALIGNMENT)?;
            Some((offset, offset.checked_add(part.len)?))
        };
        let (offset, behind) = place().ok_or(ImageError::Place {
            index,
            offset: end,
            len: part.len,
        })?;
        part.offset = offset;
        end = behind;
        let at = header_len(index);
        put(header, at, &part.kind.code().to_le_bytes());
        put(header, at.saturating_add(8), &offset.to_le_bytes());
        put(header, at.saturating_add(16), &part.len.to_le_bytes());
        put(header, at.saturating_add(24), &part.checksum.to_le_bytes());
    }
    put(header, 0, MAGIC);
    put(header, 8, &VERSION.to_le_bytes());
    put(header, 12, &(parts.len() as u32).to_le_bytes());
    put(header, 16, &end.to_le_bytes());
    let sum = header_checksum(header);
    put(header, CHECKSUM_AT, &sum.to_le_bytes());
    Ok(end)
}

/// FNV-1a in steps of 8 bytes, the last ones filled up with zeros, and the length.
pub fn checksum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(word)
    });
    fnv(words.chain([bytes.len() as u64]))
}

/// The checksum of a header, which does not count itself.
fn header_checksum(header: &[u8]) -> u64 {
    let places = (0usize..).step_by(8).take(header.len().div_ceil(8));
    fnv(places.map(|at| if at == CHECKSUM_AT { 0 } else { word64(header, at) }))
}

fn fnv(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0xCBF2_9CE4_8422_2325, |hash, word| {
        (hash ^ word).wrapping_mul(0x0100_0000_01B3)
    })
}

fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    to.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
}

/// The number at a place, which is inside.
fn word32(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |word| u32::from_le_bytes(*word))
}

/// The number at a place, which is inside.
fn word64(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |word| u64::from_le_bytes(*word))
}
