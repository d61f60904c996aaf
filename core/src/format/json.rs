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

use core::fmt;

mod float;
mod scan;
mod value;

pub use value::{Bytes, Chars, Number, Str};

use scan::{Fault, Rest};

/// Most containers that may be open at once; one more is refused.
pub const MAX_DEPTH: u8 = 127;

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

impl<'a> Reader<'a> {
    /// A reader before the first byte of `bytes`. Nothing is read yet.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            token: bytes,
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
        let rest = scan::skip_white_space(self.rest);
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
                    let tail = scan::skip_white_space(tail);
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
                    let tail = scan::skip_white_space(tail);
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
            Some((b'"', tail)) => scan::string(tail)?,
            Some(_) => return Err((ErrorKind::ExpectedKey, rest)),
            None => return Err((ErrorKind::UnexpectedEnd, rest)),
        };
        let tail = scan::skip_white_space(tail);
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
                let (string, tail) = scan::string(tail)?;
                (Event::String(string), tail)
            }
            b'0'..=b'9' | b'-' => {
                let (number, tail) = scan::number(rest)?;
                (Event::Number(number), tail)
            }
            b'{' => return self.begin(rest, tail, true),
            b'[' => return self.begin(rest, tail, false),
            b'n' => (Event::Null, scan::literal(rest, b"null")?),
            b't' => (Event::Bool(true), scan::literal(rest, b"true")?),
            b'f' => (Event::Bool(false), scan::literal(rest, b"false")?),
            _ => return Err((ErrorKind::ExpectedValue, rest)),
        };
        self.rest = tail;
        self.expect = Expect::Next;
        Ok(event)
    }
}
