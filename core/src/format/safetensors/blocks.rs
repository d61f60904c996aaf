//! Weights in blocks as tensors of bytes: what `__metadata__` says of them.
//!
//! The format has no element type for quantised weights. A matrix whose elements share scales is stored as a U8 tensor
//! under its own name and of shape `[rows, bytes of a row]`, so any reader can list, copy and check it. What the bytes
//! mean stands in `__metadata__`, a pair for each such tensor:
//!
//! ```text
//! "voxtral.blocks.<name of the tensor>": "<scheme>/<version> <rows>x<columns>"     for example "q8/1 5120x1280"
//! ```
//!
//! A tensor without a pair is what its dtype says. Schemes and versions are for [`crate::model::Binding`] to know,
//! which also checks that the scheme makes rows of that many columns as long as the tensor's shape says; here the text
//! is only taken apart. Pairs about tensors that are not there mean nothing. Of two pairs for one tensor the last
//! counts, as with all metadata.

use core::fmt::{self, Write};

use super::{METADATA_BLOCKS, Tensor};
use crate::format::json::Str;

/// Most bytes of a scheme's name that are kept.
const LABEL_LEN: usize = 16;

/// A scheme and its version, such as `q8/1`. Plain data, for errors to carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    bytes: [u8; LABEL_LEN],
    /// Bytes of the name, which may be more than are kept.
    len: usize,
}

impl Label {
    /// The label of that name.
    pub fn new(name: &str) -> Self {
        name.bytes().collect()
    }
}

impl FromIterator<u8> for Label {
    fn from_iter<I: IntoIterator<Item = u8>>(name: I) -> Self {
        let (mut bytes, mut len) = ([0; LABEL_LEN], 0usize);
        for byte in name {
            if let Some(place) = bytes.get_mut(len) {
                *place = byte;
            }
            len = len.saturating_add(1);
        }
        Self { bytes, len }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.bytes.iter().take(self.len) {
            let shown = byte.is_ascii_graphic();
            f.write_char(if shown { char::from(byte) } else { '?' })?;
        }
        f.write_str(if self.len > LABEL_LEN { "…" } else { "" })
    }
}

/// How a matrix is stored in a tensor of bytes. `Display` writes it as it stands in `__metadata__`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// Scheme and version.
    pub label: Label,
    /// Rows of the matrix.
    pub rows: u64,
    /// Columns of the matrix.
    pub cols: u64,
}

impl Blocks {
    /// What stands in front of a tensor's name in the key of its pair.
    pub const KEY: &'static str = METADATA_BLOCKS;

    fn parse(text: Str<'_>) -> Option<Self> {
        let mut bytes = text.bytes();
        let label: Label = bytes.by_ref().take_while(|&byte| byte != b' ').collect();
        let rows = number(bytes.by_ref().take_while(|&byte| byte != b'x'))?;
        let cols = number(bytes)?;
        (label.len > 0).then_some(Self { label, rows, cols })
    }
}

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}x{}", self.label, self.rows, self.cols)
    }
}

/// A number of decimal digits, at least one.
fn number(digits: impl Iterator<Item = u8>) -> Option<u64> {
    let mut value = None;
    for byte in digits {
        let digit = byte.checked_sub(b'0').filter(|&digit| digit < 10)?;
        value = Some(value.unwrap_or(0u64).checked_mul(10)?.checked_add(u64::from(digit))?);
    }
    value
}

impl<'a> Tensor<'a> {
    /// What `__metadata__` says of the tensor's storage, if it says anything; `Some(Err(text))` if that is not of the
    /// form above.
    pub fn blocks(&self) -> Option<Result<Blocks, Str<'a>>> {
        let text = self.entry.blocks?.resolve(self.bytes)?;
        Some(Blocks::parse(text).ok_or(text))
    }
}
