//! Base64 (RFC 4648, section 4) in a JSON string, out as bytes.
//!
//! Only the one way to write given bytes is accepted: the standard alphabet, padded to whole groups of four, no stray
//! bits before the padding, nothing in between.

use super::json::{Bytes, Str};

/// The string is not base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Invalid;

/// The decoded bytes. Ends after the first error.
#[derive(Clone, Debug)]
pub(crate) struct Decoder<'a> {
    symbols: Bytes<'a>,
    /// Bytes of the last group, those still to come first.
    bytes: [u8; 3],
    /// How many are still to come.
    left: u8,
    done: bool,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(string: Str<'a>) -> Self {
        Self {
            symbols: string.bytes(),
            bytes: [0; 3],
            left: 0,
            done: false,
        }
    }

    /// Reads the next four symbols. Leaves none to come at the end of the string.
    fn group(&mut self) -> Result<(), Invalid> {
        let Some(first) = self.symbols.next() else {
            self.done = true;
            return Ok(());
        };
        let mut symbol = || self.symbols.next().ok_or(Invalid);
        let (second, third, fourth) = (symbol()?, symbol()?, symbol()?);
        self.left = match (third, fourth) {
            (b'=', b'=') => 1,
            (_, b'=') => 2,
            _ => 3,
        };
        if self.left < 3 && self.symbols.next().is_some() {
            return Err(Invalid);
        }
        let third = if self.left < 2 { 0 } else { six_bits(third)? };
        let fourth = if self.left < 3 { 0 } else { six_bits(fourth)? };
        let bits = six_bits(first)? << 18 | six_bits(second)? << 12 | third << 6 | fourth;
        let [_, a, b, c] = bits.to_be_bytes();
        // The bits that the padding leaves over are zero.
        if (self.left < 2 && b != 0) || (self.left < 3 && c != 0) {
            return Err(Invalid);
        }
        self.bytes = [a, b, c];
        Ok(())
    }
}

impl Iterator for Decoder<'_> {
    type Item = Result<u8, Invalid>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 && !self.done {
            if let Err(invalid) = self.group() {
                self.left = 0;
                self.done = true;
                return Some(Err(invalid));
            }
        }
        self.left = self.left.checked_sub(1)?;
        let [first, second, third] = self.bytes;
        self.bytes = [second, third, 0];
        Some(Ok(first))
    }
}

fn six_bits(symbol: u8) -> Result<u32, Invalid> {
    let value = match symbol {
        b'A'..=b'Z' => symbol.wrapping_sub(b'A'),
        b'a'..=b'z' => symbol.wrapping_sub(b'a').wrapping_add(26),
        b'0'..=b'9' => symbol.wrapping_sub(b'0').wrapping_add(52),
        b'+' => 62,
        b'/' => 63,
        _ => return Err(Invalid),
    };
    Ok(u32::from(value))
}
