//! A pull reader for JSON (RFC 8259) over borrowed bytes: no allocation, no recursion, depth bounded.
//!
//! It accepts exactly what `serde_json` accepts with its defaults, because the reference implementation of
//! safetensors stands on that crate: at most [`MAX_DEPTH`] open containers, UTF-8 only, no lone surrogate in an
//! escape, no number beyond the range of `f64`, nothing but white space after the value. One difference is left:
//! `serde_json` multiplies its way to a float, so for numbers within a few units of the last place of the largest
//! `f64` the two may disagree about whether they still fit. Here the correctly rounded value decides.
//!
//! ```
//! use voxtral_core::format::json::{Event, Reader};
//!
//! let mut reader = Reader::new(br#"{"dim": 1280, "notes": [1, {"any": "thing"}]}"#);
//! assert_eq!(reader.next()?, Event::BeginObject);
//! let mut dim = None;
//! loop {
//!     match reader.next()? {
//!         Event::Key(key) if key == "dim" => {
//!             if let Event::Number(number) = reader.next()? {
//!                 dim = number.as_u64();
//!             }
//!         }
//!         Event::Key(_) => reader.skip_value()?,
//!         _ => break, // the end of the object
//!     }
//! }
//! assert_eq!(reader.next()?, Event::End);
//! assert_eq!(dim, Some(1280));
//! # Ok::<(), voxtral_core::format::json::Error>(())
//! ```

use core::cmp::Ordering;
use core::fmt;

/// Most containers that may be open at once; one more is refused.
pub const MAX_DEPTH: u8 = 127;

/// Numbers with no more digits before the point, exponent added, than this fit `f64` whatever the digits are.
const ALWAYS_FINITE_DIGITS: u64 = 308;

/// What is wrong with the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The text ends inside the value.
    UnexpectedEnd,
    /// Something else stands where a value has to begin.
    ExpectedValue,
    /// Something else stands where the quote of a key has to be.
    ExpectedKey,
    /// No colon after a key.
    ExpectedColon,
    /// Neither a comma nor the end of the container after a value.
    ExpectedCommaOrEnd,
    /// A comma before the end of a container.
    TrailingComma,
    /// More than white space after the value.
    TrailingData,
    /// An unescaped control character in a string.
    ControlCharacter,
    /// A backslash that begins no known escape.
    InvalidEscape,
    /// A `\u` escape of one half of a surrogate pair without the other half.
    LoneSurrogate,
    /// A string is not UTF-8.
    InvalidUtf8,
    /// A number that breaks the grammar, such as `01`, `1.` or `-`.
    InvalidNumber,
    /// A number that does not fit `f64`, such as `1e999`.
    NumberOutOfRange,
    /// More than [`MAX_DEPTH`] containers open at once.
    TooDeep,
}

/// Why the text was refused, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Bytes before the place, counted from the start of the text.
    pub offset: usize,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnexpectedEnd => "the text ends too early",
            Self::ExpectedValue => "expected a value",
            Self::ExpectedKey => "expected a key in double quotes",
            Self::ExpectedColon => "expected a colon after the key",
            Self::ExpectedCommaOrEnd => "expected a comma or the end of the container",
            Self::TrailingComma => "comma before the end of a container",
            Self::TrailingData => "more text after the value",
            Self::ControlCharacter => "control character in a string",
            Self::InvalidEscape => "unknown escape in a string",
            Self::LoneSurrogate => "half of a surrogate pair in a string",
            Self::InvalidUtf8 => "string is not UTF-8",
            Self::InvalidNumber => "malformed number",
            Self::NumberOutOfRange => "number out of range",
            Self::TooDeep => "more than 127 nested containers",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid JSON at byte {}: {}", self.offset, self.kind)
    }
}

impl core::error::Error for Error {}

/// One step through the text. Colons and commas are checked but not reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// `{`
    BeginObject,
    /// `}`
    EndObject,
    /// `[`
    BeginArray,
    /// `]`
    EndArray,
    /// The key of a member; its value comes next.
    Key(Str<'a>),
    /// A string as a value.
    String(Str<'a>),
    /// A number.
    Number(Number<'a>),
    /// `true` or `false`.
    Bool(bool),
    /// `null`
    Null,
    /// The whole text has been read. Comes again if asked again.
    End,
}

/// What the grammar allows next.
#[derive(Clone, Copy, Debug)]
enum Expect {
    /// A value: at the start, after a colon, after a comma in an array.
    Value,
    /// `]` or the first value.
    FirstValue,
    /// `}` or the first key.
    FirstKey,
    /// After a value: a comma, the end of the container, or the end of the text.
    Next,
    /// Nothing: an error was found, and is reported for ever.
    Failed(Error),
}

/// The pull reader. Copy it to look ahead.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// The text from the first byte of the last event on.
    token: &'a [u8],
    len: usize,
    /// One bit per open container, the innermost lowest: set for an object.
    objects: u128,
    depth: u8,
    expect: Expect,
}

type Rest<'a> = &'a [u8];
/// A kind of error, with what was left of the text when it was found.
type Fault<'a> = (ErrorKind, Rest<'a>);

impl<'a> Reader<'a> {
    /// A reader before the first byte of `bytes`. Nothing is read yet.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            len: bytes.len(),
            objects: 0,
            depth: 0,
            expect: Expect::Value,
        }
    }

    /// Bytes read so far: after an event this is the place just behind it.
    /// (Behind the colon for a key.)
    pub fn offset(&self) -> usize {
        self.len.saturating_sub(self.rest.len())
    }

    /// Bytes before the first byte of the last event: its bracket, opening quote, digit or letter.
    pub fn event_offset(&self) -> usize {
        self.len.saturating_sub(self.token.len())
    }

    /// Containers open at the moment.
    pub fn depth(&self) -> u8 {
        self.depth
    }

    /// The next event. After an error, the same error again.
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator would have to end by itself and drop the error"
    )]
    pub fn next(&mut self) -> Result<Event<'a>, Error> {
        self.step().map_err(|fault| self.fail(fault))
    }

    /// Skips the value that comes next, however large, with the same checks as if it had been read.
    ///
    /// A value must come next, as after a key: in front of a key or the end of a container this is
    /// [`ErrorKind::ExpectedValue`].
    pub fn skip_value(&mut self) -> Result<(), Error> {
        let result = match self.expect {
            Expect::FirstKey => Err((ErrorKind::ExpectedValue, self.rest)),
            Expect::Next if self.objects & 1 == 1 || self.depth == 0 => Err((ErrorKind::ExpectedValue, self.rest)),
            _ => {
                let outer = self.depth;
                self.step().and_then(|first| match first {
                    Event::EndArray | Event::EndObject => Err((ErrorKind::ExpectedValue, self.rest)),
                    _ => self.leave(outer),
                })
            }
        };
        result.map_err(|fault| self.fail(fault))
    }

    /// Skips to behind the end of the innermost open container, with the same checks as if it had been read.
    /// With none open, to the end of the text.
    pub fn skip_container(&mut self) -> Result<(), Error> {
        let result = match self.depth.checked_sub(1) {
            Some(outer) => self.leave(outer),
            None => self.step().map(|_| ()),
        };
        result.map_err(|fault| self.fail(fault))
    }

    /// Reads until no more than `outer` containers are open.
    fn leave(&mut self, outer: u8) -> Result<(), Fault<'a>> {
        while self.depth > outer {
            self.step()?;
        }
        Ok(())
    }

    #[cold]
    fn fail(&mut self, (kind, rest): Fault<'a>) -> Error {
        if let Expect::Failed(error) = self.expect {
            return error;
        }
        let error = Error {
            kind,
            offset: self.len.saturating_sub(rest.len()),
        };
        self.expect = Expect::Failed(error);
        error
    }

    #[inline(always)]
    fn step(&mut self) -> Result<Event<'a>, Fault<'a>> {
        let rest = skip_white_space(self.rest);
        match self.expect {
            Expect::Value => self.value(rest),
            Expect::FirstValue => match rest.split_first() {
                Some((b']', tail)) => Ok(self.end(rest, tail, Event::EndArray)),
                _ => self.value(rest),
            },
            Expect::FirstKey => match rest.split_first() {
                Some((b'}', tail)) => Ok(self.end(rest, tail, Event::EndObject)),
                _ => self.key(rest),
            },
            Expect::Next if self.depth == 0 => {
                self.rest = rest;
                self.token = rest;
                if rest.is_empty() {
                    Ok(Event::End)
                } else {
                    Err((ErrorKind::TrailingData, rest))
                }
            }
            Expect::Next if self.objects & 1 == 1 => match rest.split_first() {
                Some((b',', tail)) => {
                    let tail = skip_white_space(tail);
                    if tail.first() == Some(&b'}') {
                        Err((ErrorKind::TrailingComma, rest))
                    } else {
                        self.key(tail)
                    }
                }
                Some((b'}', tail)) => Ok(self.end(rest, tail, Event::EndObject)),
                Some(_) => Err((ErrorKind::ExpectedCommaOrEnd, rest)),
                None => Err((ErrorKind::UnexpectedEnd, rest)),
            },
            Expect::Next => match rest.split_first() {
                Some((b',', tail)) => {
                    let tail = skip_white_space(tail);
                    if tail.first() == Some(&b']') {
                        Err((ErrorKind::TrailingComma, rest))
                    } else {
                        self.value(tail)
                    }
                }
                Some((b']', tail)) => Ok(self.end(rest, tail, Event::EndArray)),
                Some(_) => Err((ErrorKind::ExpectedCommaOrEnd, rest)),
                None => Err((ErrorKind::UnexpectedEnd, rest)),
            },
            Expect::Failed(error) => Err((error.kind, rest)),
        }
    }

    #[inline(always)]
    fn begin(&mut self, at: Rest<'a>, tail: Rest<'a>, object: bool) -> Result<Event<'a>, Fault<'a>> {
        if self.depth >= MAX_DEPTH {
            return Err((ErrorKind::TooDeep, at));
        }
        self.depth = self.depth.saturating_add(1);
        self.objects = (self.objects << 1) | u128::from(object);
        self.rest = tail;
        if object {
            self.expect = Expect::FirstKey;
            Ok(Event::BeginObject)
        } else {
            self.expect = Expect::FirstValue;
            Ok(Event::BeginArray)
        }
    }

    #[inline(always)]
    fn end(&mut self, at: Rest<'a>, tail: Rest<'a>, event: Event<'a>) -> Event<'a> {
        self.depth = self.depth.saturating_sub(1);
        self.objects >>= 1;
        self.token = at;
        self.rest = tail;
        self.expect = Expect::Next;
        event
    }

    #[inline(always)]
    fn key(&mut self, rest: Rest<'a>) -> Result<Event<'a>, Fault<'a>> {
        let (key, tail) = match rest.split_first() {
            Some((b'"', tail)) => string(tail)?,
            Some(_) => return Err((ErrorKind::ExpectedKey, rest)),
            None => return Err((ErrorKind::UnexpectedEnd, rest)),
        };
        let tail = skip_white_space(tail);
        match tail.split_first() {
            Some((b':', tail)) => self.rest = tail,
            Some(_) => return Err((ErrorKind::ExpectedColon, tail)),
            None => return Err((ErrorKind::UnexpectedEnd, tail)),
        }
        self.token = rest;
        self.expect = Expect::Value;
        Ok(Event::Key(key))
    }

    /// Reads a value whose first byte is that of `rest`.
    #[inline(always)]
    fn value(&mut self, rest: Rest<'a>) -> Result<Event<'a>, Fault<'a>> {
        let Some((&first, tail)) = rest.split_first() else {
            return Err((ErrorKind::UnexpectedEnd, rest));
        };
        self.token = rest;
        let (event, tail) = match first {
            b'"' => {
                let (string, tail) = string(tail)?;
                (Event::String(string), tail)
            }
            b'0'..=b'9' | b'-' => {
                let (number, tail) = number(rest)?;
                (Event::Number(number), tail)
            }
            b'{' => return self.begin(rest, tail, true),
            b'[' => return self.begin(rest, tail, false),
            b'n' => (Event::Null, literal(rest, b"null")?),
            b't' => (Event::Bool(true), literal(rest, b"true")?),
            b'f' => (Event::Bool(false), literal(rest, b"false")?),
            _ => return Err((ErrorKind::ExpectedValue, rest)),
        };
        self.rest = tail;
        self.expect = Expect::Next;
        Ok(event)
    }
}

#[inline(always)]
fn skip_white_space(mut rest: Rest<'_>) -> Rest<'_> {
    while let Some((b' ' | b'\n' | b'\r' | b'\t', tail)) = rest.split_first() {
        rest = tail;
    }
    rest
}

fn literal<'a>(rest: Rest<'a>, word: &[u8]) -> Result<Rest<'a>, Fault<'a>> {
    match rest.strip_prefix(word) {
        Some(tail) => Ok(tail),
        None if word.starts_with(rest) => Err((ErrorKind::UnexpectedEnd, rest)),
        None => Err((ErrorKind::ExpectedValue, rest)),
    }
}

/// The same byte in all eight places.
const fn splat(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The high bit of every byte that a string cannot pass over without a look: quote, backslash, control character.
/// Only the lowest set bit can be trusted, since borrows run upwards.
///
/// The trick is to subtract in all bytes at once: a byte below `n` borrows, and so gets a high bit it did not have.
#[inline(always)]
fn stops(chunk: u64) -> u64 {
    let below = |x: u64, n: u8| x.wrapping_sub(splat(n)) & !x;
    let quote = below(chunk ^ splat(b'"'), 1);
    let backslash = below(chunk ^ splat(b'\\'), 1);
    (quote | backslash | below(chunk, 0x20)) & splat(0x80)
}

/// Reads a string from behind its opening quote to behind its closing one.
#[inline(always)]
fn string(start: Rest<'_>) -> Result<(Str<'_>, Rest<'_>), Fault<'_>> {
    let mut rest = start;
    let mut escaped = false;
    // All bytes seen, or'ed together: whether any of them was not ASCII. It may say so of a byte behind the string,
    // which costs no more than a look.
    let mut seen = 0u64;
    loop {
        while let Some((chunk, tail)) = rest.split_first_chunk::<8>() {
            let chunk = u64::from_le_bytes(*chunk);
            seen |= chunk;
            let stops = stops(chunk);
            if stops != 0 {
                rest = rest.get((stops.trailing_zeros() >> 3) as usize..).unwrap_or_default();
                break;
            }
            rest = tail;
        }
        match rest.split_first() {
            Some((b'"', tail)) => {
                let length = start.len().saturating_sub(rest.len());
                let raw = start.get(..length).unwrap_or_default();
                if seen & splat(0x80) != 0 {
                    check_utf8(raw, start)?;
                }
                return Ok((Str { raw, escaped }, tail));
            }
            Some((b'\\', tail)) => {
                escaped = true;
                rest = skip_escape(tail)?;
            }
            Some((0..0x20, _)) => return Err((ErrorKind::ControlCharacter, rest)),
            Some((&byte, tail)) => {
                seen |= u64::from(byte);
                rest = tail;
            }
            None => return Err((ErrorKind::UnexpectedEnd, rest)),
        }
    }
}

/// Refuses a string that is not UTF-8; `start` is the text from the string's first byte on.
/// Escapes are ASCII, so a string is UTF-8 with them exactly if it is without.
fn check_utf8<'a>(raw: &[u8], start: Rest<'a>) -> Result<(), Fault<'a>> {
    match core::str::from_utf8(raw) {
        Ok(_) => Ok(()),
        Err(error) => Err((
            ErrorKind::InvalidUtf8,
            start.get(error.valid_up_to()..).unwrap_or_default(),
        )),
    }
}

/// Checks an escape; `rest` begins behind the backslash.
fn skip_escape(rest: Rest<'_>) -> Result<Rest<'_>, Fault<'_>> {
    match rest.split_first() {
        Some((b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', tail)) => Ok(tail),
        Some((b'u', digits)) => {
            let (unit, tail) = hex4(digits)?;
            match unit {
                0xDC00..=0xDFFF => Err((ErrorKind::LoneSurrogate, rest)),
                0xD800..=0xDBFF => {
                    let Some(digits) = tail.strip_prefix(br"\u") else {
                        let kind = if br"\u".starts_with(tail) {
                            ErrorKind::UnexpectedEnd
                        } else {
                            ErrorKind::LoneSurrogate
                        };
                        return Err((kind, tail));
                    };
                    match hex4(digits)? {
                        (0xDC00..=0xDFFF, tail) => Ok(tail),
                        _ => Err((ErrorKind::LoneSurrogate, rest)),
                    }
                }
                _ => Ok(tail),
            }
        }
        Some(_) => Err((ErrorKind::InvalidEscape, rest)),
        None => Err((ErrorKind::UnexpectedEnd, rest)),
    }
}

/// The four hexadecimal digits of a `\u` escape.
fn hex4(rest: Rest<'_>) -> Result<(u16, Rest<'_>), Fault<'_>> {
    let mut unit = 0u16;
    let mut tail = rest;
    for _ in 0..4 {
        let Some((&byte, behind)) = tail.split_first() else {
            return Err((ErrorKind::UnexpectedEnd, tail));
        };
        let Some(digit) = char::from(byte).to_digit(16) else {
            return Err((ErrorKind::InvalidEscape, tail));
        };
        unit = (unit << 4) | (digit as u16);
        tail = behind;
    }
    Ok((unit, tail))
}

/// Splits the decimal digits off the front: how many, and the rest.
#[inline(always)]
fn digits(mut rest: Rest<'_>) -> (u64, Rest<'_>) {
    let mut count = 0u64;
    while let Some((b'0'..=b'9', tail)) = rest.split_first() {
        count = count.wrapping_add(1);
        rest = tail;
    }
    (count, rest)
}

/// Reads a number whose first byte is that of `start`.
#[inline(always)]
fn number(start: Rest<'_>) -> Result<(Number<'_>, Rest<'_>), Fault<'_>> {
    let whole = start.strip_prefix(b"-").unwrap_or(start);
    let (mut magnitude, mut rest) = digits(whole);
    if magnitude == 0 || (magnitude > 1 && whole.first() == Some(&b'0')) {
        return Err((
            if whole.is_empty() {
                ErrorKind::UnexpectedEnd
            } else {
                ErrorKind::InvalidNumber
            },
            start,
        ));
    }
    if let Some((b'.', tail)) = rest.split_first() {
        let (count, tail) = digits(tail);
        if count == 0 {
            return Err((
                if tail.is_empty() {
                    ErrorKind::UnexpectedEnd
                } else {
                    ErrorKind::InvalidNumber
                },
                start,
            ));
        }
        rest = tail;
    }
    if let Some((b'e' | b'E', tail)) = rest.split_first() {
        let (negative, tail) = match tail.split_first() {
            Some((b'-', tail)) => (true, tail),
            Some((b'+', tail)) => (false, tail),
            _ => (false, tail),
        };
        let (count, behind) = digits(tail);
        if count == 0 {
            return Err((
                if tail.is_empty() {
                    ErrorKind::UnexpectedEnd
                } else {
                    ErrorKind::InvalidNumber
                },
                start,
            ));
        }
        if !negative {
            magnitude = magnitude.saturating_add(decimal(tail, count).unwrap_or(u64::MAX));
        }
        rest = behind;
    }
    let raw = start.get(..start.len().saturating_sub(rest.len())).unwrap_or_default();
    let number = Number { raw };
    if magnitude > ALWAYS_FINITE_DIGITS && !number.as_f64().is_finite() {
        return Err((ErrorKind::NumberOutOfRange, start));
    }
    Ok((number, rest))
}

/// The value of the first `count` bytes as decimal digits, if they are digits and the value fits.
fn decimal(digits: &[u8], count: u64) -> Option<u64> {
    let mut value = 0u64;
    for &digit in digits.get(..usize::try_from(count).ok()?)? {
        let digit = char::from(digit).to_digit(10)?;
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// A number, kept as it was written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Number<'a> {
    raw: &'a [u8],
}

impl<'a> Number<'a> {
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
        // The grammar of JSON's numbers is part of what `f64` parses, so there is always a value.
        core::str::from_utf8(self.raw)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(f64::NAN)
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
