//! Strings and numbers as they stand in the text, decoded when asked.

use core::cmp::Ordering;
use core::fmt;

use super::float;
use super::scan::{Rest, decimal, hex4};

/// A number, kept as it was written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Number<'a> {
    raw: &'a [u8],
}

impl<'a> Number<'a> {
    /// `raw` follows the grammar of numbers.
    pub(super) fn new(raw: &'a [u8]) -> Self {
        Self { raw }
    }

    /// The bytes of the number.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// The exact value, if it is written as an integer that fits: `8.0`, `8e0` and `-0` are not.
    pub fn as_u64(&self) -> Option<u64> {
        decimal(self.raw, self.raw.len() as u64)
    }

    /// The nearest `f64`, ties to even. Always finite.
    pub fn as_f64(&self) -> f64 {
        float::parse(self.raw)
    }
}

impl fmt::Debug for Number<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(core::str::from_utf8(self.raw).unwrap_or_default())
    }
}

/// A string between its quotes, escapes not yet decoded but checked. Compares by its decoded bytes.
#[derive(Clone, Copy)]
pub struct Str<'a> {
    raw: &'a [u8],
    escaped: bool,
}

impl<'a> Str<'a> {
    /// `raw` has been checked; `escaped` says whether a backslash is in it.
    pub(super) fn new(raw: &'a [u8], escaped: bool) -> Self {
        Self { raw, escaped }
    }

    /// The string whose bytes between the quotes are `raw`, as [`Str::raw`] gave them. For other bytes the
    /// meaning is unspecified, but nothing worse.
    pub fn from_raw(raw: &'a [u8]) -> Self {
        Self {
            raw,
            escaped: raw.contains(&b'\\'),
        }
    }

    /// The bytes between the quotes as they are in the text. Valid UTF-8.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Whether decoding changes anything.
    pub fn has_escapes(&self) -> bool {
        self.escaped
    }

    /// The string in place, if it has no escapes.
    pub fn as_str(&self) -> Option<&'a str> {
        if self.escaped {
            None
        } else {
            core::str::from_utf8(self.raw).ok()
        }
    }

    /// The decoded string as UTF-8 bytes.
    pub fn bytes(&self) -> Bytes<'a> {
        Bytes {
            rest: self.raw,
            pending: [0; 4],
            left: 0,
        }
    }

    /// The decoded string by characters.
    pub fn chars(&self) -> Chars<'a> {
        Chars { bytes: self.bytes() }
    }
}

impl PartialEq for Str<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Str<'_> {}

impl PartialEq<str> for Str<'_> {
    fn eq(&self, other: &str) -> bool {
        if self.escaped {
            self.bytes().eq(other.bytes())
        } else {
            self.raw == other.as_bytes()
        }
    }
}

impl PartialEq<&str> for Str<'_> {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

impl PartialOrd<str> for Str<'_> {
    fn partial_cmp(&self, other: &str) -> Option<Ordering> {
        Some(if self.escaped {
            self.bytes().cmp(other.bytes())
        } else {
            self.raw.cmp(other.as_bytes())
        })
    }
}

impl Ord for Str<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.escaped || other.escaped {
            self.bytes().cmp(other.bytes())
        } else {
            self.raw.cmp(other.raw)
        }
    }
}

impl PartialOrd for Str<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.chars().try_for_each(|c| fmt::Write::write_char(f, c))
    }
}

impl fmt::Debug for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", core::str::from_utf8(self.raw).unwrap_or_default())
    }
}

/// Decoded bytes of a [`Str`].
#[derive(Clone, Debug)]
pub struct Bytes<'a> {
    rest: &'a [u8],
    /// The character of the last escape; its last `left` bytes are still to come.
    pending: [u8; 4],
    left: u8,
}

impl Iterator for Bytes<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            let [a, b, c, d] = self.pending;
            self.pending = [b, c, d, 0];
            return Some(a);
        }
        let (&first, tail) = self.rest.split_first()?;
        self.rest = tail;
        if first != b'\\' {
            return Some(first);
        }
        let (&escape, tail) = tail.split_first()?;
        self.rest = tail;
        Some(match escape {
            b'b' => 0x08,
            b'f' => 0x0C,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let (character, tail) = unicode_escape(tail)?;
                self.rest = tail;
                let mut utf8 = [0; 4];
                let length = character.encode_utf8(&mut utf8).len();
                let [first, b, c, d] = utf8;
                self.pending = [b, c, d, 0];
                self.left = (length as u8).saturating_sub(1);
                first
            }
            itself => itself,
        })
    }
}

/// The character of a checked `\u` escape, pairs joined; `rest` begins behind the `u`.
fn unicode_escape(rest: Rest<'_>) -> Option<(char, Rest<'_>)> {
    let (unit, tail) = hex4(rest).ok()?;
    if let Some(character) = char::from_u32(u32::from(unit)) {
        return Some((character, tail));
    }
    let (second, tail) = hex4(tail.strip_prefix(br"\u")?).ok()?;
    let character = char::decode_utf16([unit, second]).next()?.ok()?;
    Some((character, tail))
}

/// Decoded characters of a [`Str`].
#[derive(Clone, Debug)]
pub struct Chars<'a> {
    bytes: Bytes<'a>,
}

impl Iterator for Chars<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let first = self.bytes.next()?;
        // Count of continuation bytes and the payload of the first byte (RFC 3629, section 3).
        let (more, mut code) = match first {
            0..0x80 => (0, u32::from(first)),
            0x80..0xE0 => (1, u32::from(first & 0x1F)),
            0xE0..0xF0 => (2, u32::from(first & 0x0F)),
            0xF0.. => (3, u32::from(first & 0x07)),
        };
        for _ in 0..more {
            code = (code << 6) | u32::from(self.bytes.next()? & 0x3F);
        }
        Some(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}
