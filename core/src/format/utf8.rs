//! Bytes that arrive in pieces, out as whole characters.
//!
//! A token's bytes often end in the middle of a character. [`Utf8Joiner`] holds such a tail back (at most three
//! bytes) until the bytes that follow complete it or show that they never will. What is invalid becomes U+FFFD, one
//! for each *maximal subpart* (Unicode 16, §3.9, "U+FFFD Substitution of Maximal Subparts"), which is what Rust's
//! `String::from_utf8_lossy` and Python's `bytes.decode(errors="replace")` do. So the text is the same however the
//! bytes were cut.

/// Joins bytes to characters. Plain data: a copy of it is a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Utf8Joiner {
    /// Bits of the character so far.
    bits: u32,
    /// Bytes held back, 0 to 3.
    held: u8,
    /// Bytes still missing from the character, 0 when nothing is held.
    missing: u8,
    /// The smallest byte that may come next.
    low: u8,
    /// The largest byte that may come next.
    high: u8,
}

/// The characters that one byte released: none, one or two. Two are a U+FFFD for the broken tail and the character
/// of the byte that broke it.
#[derive(Clone, Debug, Default)]
pub struct Released {
    first: Option<char>,
    second: Option<char>,
}

impl Iterator for Released {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        self.first.take().or_else(|| self.second.take())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = usize::from(self.first.is_some()).saturating_add(usize::from(self.second.is_some()));
        (n, Some(n))
    }
}

impl core::iter::FusedIterator for Released {}

impl Utf8Joiner {
    /// A joiner that holds nothing.
    pub const fn new() -> Self {
        Self {
            bits: 0,
            held: 0,
            missing: 0,
            low: 0,
            high: 0,
        }
    }

    /// Takes one byte and gives the characters that are whole now.
    #[must_use = "the characters are given once"]
    pub fn push(&mut self, byte: u8) -> Released {
        if self.missing == 0 {
            return Released {
                first: self.start(byte),
                second: None,
            };
        }
        if (self.low..=self.high).contains(&byte) {
            return Released {
                first: self.carry_on(byte),
                second: None,
            };
        }
        // The tail was a valid beginning, so the whole of it is one maximal subpart; the byte starts afresh.
        *self = Self::new();
        Released {
            first: Some(char::REPLACEMENT_CHARACTER),
            second: self.start(byte),
        }
    }

    /// The end of the text, or of a part of it: a tail held back becomes one U+FFFD. The joiner is as new.
    #[must_use = "a tail held back is given once"]
    pub fn finish(&mut self) -> Option<char> {
        let held = self.held;
        *self = Self::new();
        (held > 0).then_some(char::REPLACEMENT_CHARACTER)
    }

    /// How many bytes are held back, 0 to 3.
    pub const fn held(&self) -> usize {
        self.held as usize
    }

    /// The first byte of a character. The limits of the second byte keep out what is longer than needed (E0, F0),
    /// surrogates (ED) and everything past U+10FFFF (F4): Unicode 16, table 3-7.
    fn start(&mut self, byte: u8) -> Option<char> {
        let (missing, mask, low, high) = match byte {
            0x00..=0x7F => return Some(char::from(byte)),
            0xC2..=0xDF => (1, 0x1F, 0x80, 0xBF),
            0xE0 => (2, 0x0F, 0xA0, 0xBF),
            0xE1..=0xEC | 0xEE | 0xEF => (2, 0x0F, 0x80, 0xBF),
            0xED => (2, 0x0F, 0x80, 0x9F),
            0xF0 => (3, 0x07, 0x90, 0xBF),
            0xF1..=0xF3 => (3, 0x07, 0x80, 0xBF),
            0xF4 => (3, 0x07, 0x80, 0x8F),
            0x80..=0xC1 | 0xF5..=0xFF => return Some(char::REPLACEMENT_CHARACTER),
        };
        *self = Self {
            bits: u32::from(byte & mask),
            held: 1,
            missing,
            low,
            high,
        };
        None
    }

    /// A further byte that fits.
    fn carry_on(&mut self, byte: u8) -> Option<char> {
        let bits = self.bits << 6 | u32::from(byte & 0x3F);
        if self.missing == 1 {
            *self = Self::new();
            // The limits above leave scalar values only.
            return Some(char::from_u32(bits).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        *self = Self {
            bits,
            held: self.held.saturating_add(1),
            missing: self.missing.saturating_sub(1),
            low: 0x80,
            high: 0xBF,
        };
        None
    }
}
