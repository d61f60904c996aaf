//! What can be wrong with a safetensors file.

use core::fmt::{self, Display, Formatter, Write};

use super::{Dtype, MAX_HEADER_LEN};
use crate::format::json;

/// Most characters of a tensor's name that a message shows.
const SHOWN_CHARS: usize = 120;

/// The place of a tensor's name in the file: the bytes between the quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NameSpan {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl NameSpan {
    /// Bytes of the file before the name.
    pub fn start(&self) -> u64 {
        u64::from(self.start)
    }

    /// The name, given the bytes that were parsed.
    pub fn resolve<'a>(&self, bytes: &'a [u8]) -> Option<json::Str<'a>> {
        let start = usize::try_from(self.start).ok()?;
        let end = start.checked_add(usize::try_from(self.len).ok()?)?;
        bytes.get(start..end).map(json::Str::from_raw)
    }
}

/// A member of a tensor's entry in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// `dtype`
    Dtype,
    /// `shape`
    Shape,
    /// `data_offsets`
    DataOffsets,
}

impl Field {
    pub(super) const ALL: [Self; 3] = [Self::Dtype, Self::Shape, Self::DataOffsets];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Dtype => "dtype",
            Self::Shape => "shape",
            Self::DataOffsets => "data_offsets",
        }
    }
}

/// Why a file, or the use of a tensor in it, was refused.
///
/// Names follow the reference implementation where it has one for the case. `offset` counts from the start of the
/// file; `begin` and `end` are data offsets as the header gives them, counted from the end of the header. A tensor is
/// known by the place of its name; [`Error::explain`] shows the name itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The file is shorter than the 8 bytes of the header's length.
    HeaderTooSmall {
        /// Bytes in the file.
        found: u64,
    },
    /// The header's length is above [`MAX_HEADER_LEN`].
    HeaderTooLarge {
        /// The length that the file claims.
        found: u64,
    },
    /// The header is longer than the file.
    InvalidHeaderLength {
        /// Bytes up to the end of the header.
        expected: u64,
        /// Bytes in the file.
        found: u64,
    },
    /// The header is not UTF-8.
    InvalidHeader {
        /// The first byte that is not.
        offset: u64,
    },
    /// The header's first byte that is not white space is not `{`.
    InvalidHeaderStart {
        /// That byte.
        offset: u64,
    },
    /// The header is not JSON.
    InvalidJson {
        /// What is wrong.
        kind: json::ErrorKind,
        /// Where.
        offset: u64,
    },
    /// `__metadata__` is neither null nor an object of strings, or is there twice.
    InvalidMetadata {
        /// Where.
        offset: u64,
    },
    /// A tensor's entry is not an object.
    InvalidEntry {
        /// Whose.
        tensor: NameSpan,
        /// Where the entry begins.
        offset: u64,
    },
    /// A member of a tensor's entry is of the wrong kind: `dtype` not a string, `shape` not a list of integers from
    /// 0 to 2^64 − 1, `data_offsets` not a list of two such integers.
    InvalidField {
        /// Whose.
        tensor: NameSpan,
        /// Which.
        field: Field,
        /// Where.
        offset: u64,
    },
    /// A tensor's entry lacks a member.
    MissingField {
        /// Whose.
        tensor: NameSpan,
        /// Which.
        field: Field,
    },
    /// A tensor's entry has a member twice.
    DuplicateField {
        /// Whose.
        tensor: NameSpan,
        /// Which.
        field: Field,
        /// Where the second is.
        offset: u64,
    },
    /// The format knows no such element type.
    UnknownDtype {
        /// Whose.
        tensor: NameSpan,
        /// Where the type's name begins.
        offset: u64,
    },
    /// Two tensors of one name.
    DuplicateTensor {
        /// The name where it stands first.
        first: NameSpan,
        /// The name where it stands again.
        second: NameSpan,
    },
    /// More tensors than the caller has entries for.
    TooManyTensors {
        /// Entries needed.
        needed: usize,
        /// Entries given.
        given: usize,
    },
    /// A tensor's data ends before it begins.
    EndBeforeBegin {
        /// Whose.
        tensor: NameSpan,
        /// First data offset.
        begin: u64,
        /// Second data offset.
        end: u64,
    },
    /// The first tensor's data does not begin at 0.
    FirstNotAtZero {
        /// Which.
        tensor: NameSpan,
        /// Its first data offset.
        begin: u64,
    },
    /// Bytes between two tensors belong to neither.
    Hole {
        /// The tensor behind the hole.
        tensor: NameSpan,
        /// Its first data offset.
        begin: u64,
        /// Where the tensor before ends.
        previous_end: u64,
    },
    /// A tensor begins inside the one before.
    Overlap {
        /// The tensor that begins too early.
        tensor: NameSpan,
        /// Its first data offset.
        begin: u64,
        /// Where the tensor before ends.
        previous_end: u64,
    },
    /// The size of a tensor overflows 64 bits, in bits. Dimensions are multiplied in order, so a 0 behind an overflow
    /// does not help.
    ValidationOverflow {
        /// Whose.
        tensor: NameSpan,
    },
    /// A tensor does not end at the end of a byte.
    MisalignedSlice {
        /// Whose.
        tensor: NameSpan,
        /// Bits of the whole tensor.
        bits: u64,
    },
    /// The data offsets do not span as many bytes as shape and element type need.
    TensorInvalidInfo {
        /// Whose.
        tensor: NameSpan,
        /// Bytes that shape and element type need.
        expected: u64,
        /// Bytes that the data offsets span.
        found: u64,
    },
    /// The file ends before the data of its last tensor does.
    Truncated {
        /// Bytes that the header wants.
        expected: u64,
        /// Bytes in the file.
        found: u64,
    },
    /// Bytes behind the data of the last tensor.
    TrailingBytes {
        /// Bytes that the header wants.
        expected: u64,
        /// Bytes in the file.
        found: u64,
    },
    /// A tensor was to be read whose element type cannot be converted without loss.
    UnsupportedDtype {
        /// Which.
        tensor: NameSpan,
        /// Its element type.
        found: Dtype,
    },
    /// A tensor was to be read into a buffer of another length.
    WrongLength {
        /// Which.
        tensor: NameSpan,
        /// Elements of the tensor.
        expected: u64,
        /// Elements of the buffer.
        found: u64,
    },
    /// The data of a tensor is not among the bytes at hand: only the header was given.
    OutOfReach {
        /// Whose.
        tensor: NameSpan,
        /// Bytes that must be at hand, from the start of the file.
        expected: u64,
        /// Bytes at hand.
        found: u64,
    },
}

impl Error {
    pub(super) fn json(error: json::Error) -> Self {
        Self::InvalidJson {
            kind: error.kind,
            offset: super::file_offset(error.offset),
        }
    }

    /// The tensor that the error is about.
    pub fn tensor(&self) -> Option<NameSpan> {
        match *self {
            Self::HeaderTooSmall { .. }
            | Self::HeaderTooLarge { .. }
            | Self::InvalidHeaderLength { .. }
            | Self::InvalidHeader { .. }
            | Self::InvalidHeaderStart { .. }
            | Self::InvalidJson { .. }
            | Self::InvalidMetadata { .. }
            | Self::TooManyTensors { .. }
            | Self::Truncated { .. }
            | Self::TrailingBytes { .. } => None,
            Self::DuplicateTensor { second, .. } => Some(second),
            Self::InvalidEntry { tensor, .. }
            | Self::InvalidField { tensor, .. }
            | Self::MissingField { tensor, .. }
            | Self::DuplicateField { tensor, .. }
            | Self::UnknownDtype { tensor, .. }
            | Self::EndBeforeBegin { tensor, .. }
            | Self::FirstNotAtZero { tensor, .. }
            | Self::Hole { tensor, .. }
            | Self::Overlap { tensor, .. }
            | Self::ValidationOverflow { tensor }
            | Self::MisalignedSlice { tensor, .. }
            | Self::TensorInvalidInfo { tensor, .. }
            | Self::UnsupportedDtype { tensor, .. }
            | Self::WrongLength { tensor, .. }
            | Self::OutOfReach { tensor, .. } => Some(tensor),
        }
    }

    /// Where in the file to look: the byte that cannot be right, or the name of the tensor whose entry cannot. For a
    /// file that is too short its end, for one that is too long the first byte too many.
    pub fn offset(&self) -> u64 {
        match *self {
            Self::HeaderTooLarge { .. } | Self::InvalidHeaderLength { .. } | Self::TooManyTensors { .. } => 0,
            Self::HeaderTooSmall { found } | Self::Truncated { found, .. } | Self::OutOfReach { found, .. } => found,
            Self::TrailingBytes { expected, .. } => expected,
            Self::InvalidHeader { offset }
            | Self::InvalidHeaderStart { offset }
            | Self::InvalidJson { offset, .. }
            | Self::InvalidMetadata { offset }
            | Self::InvalidEntry { offset, .. }
            | Self::InvalidField { offset, .. }
            | Self::DuplicateField { offset, .. }
            | Self::UnknownDtype { offset, .. } => offset,
            Self::DuplicateTensor { second, .. } => second.start(),
            Self::MissingField { tensor, .. }
            | Self::EndBeforeBegin { tensor, .. }
            | Self::FirstNotAtZero { tensor, .. }
            | Self::Hole { tensor, .. }
            | Self::Overlap { tensor, .. }
            | Self::ValidationOverflow { tensor }
            | Self::MisalignedSlice { tensor, .. }
            | Self::TensorInvalidInfo { tensor, .. }
            | Self::UnsupportedDtype { tensor, .. }
            | Self::WrongLength { tensor, .. } => tensor.start(),
        }
    }

    /// The error with the tensor's name in its message. `bytes` are those that were parsed.
    pub fn explain<'a>(&self, bytes: &'a [u8]) -> Explained<'a> {
        Explained { error: *self, bytes }
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.explain(&[]).fmt(f)
    }
}

impl core::error::Error for Error {}

/// An [`Error`] next to the bytes it is about, so that its one line can show names.
#[derive(Clone, Copy, Debug)]
pub struct Explained<'a> {
    error: Error,
    bytes: &'a [u8],
}

impl Explained<'_> {
    fn write_tensor(&self, f: &mut Formatter<'_>, tensor: NameSpan) -> fmt::Result {
        match tensor.resolve(self.bytes) {
            None => write!(f, "tensor named at byte {}: ", tensor.start),
            Some(name) => {
                f.write_str("tensor ")?;
                write_shortened(f, name)?;
                f.write_str(": ")
            }
        }
    }

    /// What the file calls the element type whose string begins at `offset`.
    fn write_dtype(&self, f: &mut Formatter<'_>, offset: u64) -> fmt::Result {
        let text = usize::try_from(offset).ok().and_then(|offset| self.bytes.get(offset..));
        match text.map(|text| json::Reader::new(text).next()) {
            Some(Ok(json::Event::String(name))) => {
                f.write_str(" ")?;
                write_shortened(f, name)
            }
            _ => Ok(()),
        }
    }
}

/// Writes a string from the file on one line, control characters escaped, and says so if it is not whole.
fn write_shortened(f: &mut Formatter<'_>, string: json::Str<'_>) -> fmt::Result {
    let mut chars = string.chars();
    f.write_str("`")?;
    for c in chars.by_ref().take(SHOWN_CHARS) {
        if c.is_control() {
            write!(f, "{}", c.escape_default())
        } else {
            f.write_char(c)
        }?;
    }
    match chars.count() {
        0 => f.write_str("`"),
        more => write!(f, "…` (and {more} characters more)"),
    }
}

impl Display for Explained<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(tensor) = self.error.tensor() {
            self.write_tensor(f, tensor)?;
        }
        match self.error {
            Error::HeaderTooSmall { found } => {
                write!(
                    f,
                    "header too small: file has {found} bytes, the length of the header alone is 8"
                )
            }
            Error::HeaderTooLarge { found } => {
                write!(f, "header too large: {found} bytes claimed, {MAX_HEADER_LEN} allowed")
            }
            Error::InvalidHeaderLength { expected, found } => {
                write!(
                    f,
                    "invalid header length: file has {found} bytes, header wants {expected}"
                )
            }
            Error::InvalidHeader { offset } => write!(f, "invalid UTF-8 in header at byte {offset}"),
            Error::InvalidHeaderStart { offset } => write!(f, "header does not begin with {{, at byte {offset}"),
            Error::InvalidJson { kind, offset } => write!(f, "invalid JSON in header: {kind}, at byte {offset}"),
            Error::InvalidMetadata { offset } => {
                write!(
                    f,
                    "__metadata__ must stand once and be an object of strings, at byte {offset}"
                )
            }
            Error::InvalidEntry { offset, .. } => write!(f, "expected an object, at byte {offset}"),
            Error::InvalidField { field, offset, .. } => {
                let expected = match field {
                    Field::Dtype => "a string",
                    Field::Shape => "a list of whole numbers below 2^64",
                    Field::DataOffsets => "two whole numbers below 2^64",
                };
                write!(f, "{} must be {expected}, at byte {offset}", field.name())
            }
            Error::MissingField { field, .. } => write!(f, "{} is missing", field.name()),
            Error::DuplicateField { field, offset, .. } => {
                write!(f, "duplicate {}, again at byte {offset}", field.name())
            }
            Error::UnknownDtype { offset, .. } => {
                f.write_str("unknown dtype")?;
                self.write_dtype(f, offset)?;
                write!(f, ", at byte {offset}")
            }
            Error::DuplicateTensor { first, second } => {
                write!(
                    f,
                    "duplicate name, at byte {} and again at byte {}",
                    first.start, second.start
                )
            }
            Error::TooManyTensors { needed, given } => {
                write!(f, "file has {needed} tensors, the index has room for {given}")
            }
            Error::EndBeforeBegin { begin, end, .. } => {
                write!(f, "data ends at offset {end}, before it begins at offset {begin}")
            }
            Error::FirstNotAtZero { begin, .. } => {
                write!(f, "data of the first tensor begins at offset {begin}, expected 0")
            }
            Error::Hole {
                begin, previous_end, ..
            } => write!(
                f,
                "hole before its data: it begins at offset {begin}, the tensor before ends at offset {previous_end}"
            ),
            Error::Overlap {
                begin, previous_end, ..
            } => {
                write!(
                    f,
                    "overlap: data begins at offset {begin}, the tensor before ends at offset {previous_end}"
                )
            }
            Error::ValidationOverflow { .. } => f.write_str("shape and dtype overflow a size of 64 bits"),
            Error::MisalignedSlice { bits, .. } => write!(f, "{bits} bits are not a whole number of bytes"),
            Error::TensorInvalidInfo { expected, found, .. } => {
                write!(f, "shape and dtype need {expected} bytes, data_offsets span {found}")
            }
            Error::Truncated { expected, found } => write!(f, "file has {found} bytes, header wants {expected}"),
            Error::TrailingBytes { expected, found } => write!(
                f,
                "trailing bytes after the last tensor: file has {found} bytes, header wants {expected}"
            ),
            Error::UnsupportedDtype { found, .. } => write!(f, "cannot be read from dtype {found}"),
            Error::WrongLength { expected, found, .. } => {
                write!(f, "expected a buffer of {expected} elements, found {found}")
            }
            Error::OutOfReach { expected, found, .. } => {
                write!(f, "data reaches to byte {expected}, only {found} bytes are at hand")
            }
        }
    }
}
