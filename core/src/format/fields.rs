//! Named values in a tree of JSON objects: asked for by dotted path, each present at most once, refused by name.
//!
//! `params.json` and the small blocks of `tekken.json` are read the same way. A table lists the dotted paths that are
//! wanted, objects before what is in them; `Fields::read` notes the value of each in whatever order the file has
//! them and skips every other key. The values are judged afterwards, so the error for a wrong value does not depend on
//! the order of keys.

use core::fmt;

use super::json::{self, Event, Reader, Str};

/// Why a named value was refused. Offsets are in bytes from the start of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldError {
    /// The bytes are not JSON.
    Json(json::Error),
    /// A key, or the object that should hold it, is not there.
    Missing {
        /// Dotted path of the key.
        key: &'static str,
    },
    /// A key stands twice in one object.
    Duplicate {
        /// Dotted path of the key.
        key: &'static str,
        /// Where the second one begins.
        offset: usize,
    },
    /// A value is of the wrong kind, impossible, or one that the engine does not support.
    Value {
        /// Dotted path of the key; empty for the outermost value.
        key: &'static str,
        /// Where the value begins.
        offset: usize,
        /// What would have been right.
        expected: Expected,
        /// What stands there.
        found: Found,
    },
}

/// What a value should have been.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Expected {
    /// A JSON object.
    Object,
    /// A JSON array.
    Array,
    /// A JSON string.
    String,
    /// `true` or `false`.
    Bool,
    /// `null`, or nothing at all.
    Null,
    /// An integer between two bounds, both included.
    Integer {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// An integer that another one divides.
    MultipleOf {
        /// What the other one is.
        what: &'static str,
        /// The other one.
        value: u64,
    },
    /// A number between two bounds, both included.
    Number {
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
    },
    /// Exactly this truth value.
    ExactlyBool(bool),
    /// Exactly this number.
    ExactlyNumber(f64),
    /// Exactly this string.
    ExactlyString(&'static str),
}

/// What was found in its place.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Found {
    /// `null`.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number written as a non-negative integer.
    Integer(u64),
    /// Any other number.
    Number(f64),
    /// A string, of which the beginning is kept.
    String(Excerpt),
    /// An object.
    Object,
    /// An array.
    Array,
}

/// The first bytes of a string, cut between characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excerpt {
    bytes: [u8; Self::CAPACITY],
    len: usize,
    cut: bool,
}

impl Excerpt {
    /// Longer by a character than any string that is compared, so one that was cut equals none of them.
    const CAPACITY: usize = 32;

    pub(crate) fn new(string: &Str<'_>) -> Self {
        let mut excerpt = Self {
            bytes: [0; Self::CAPACITY],
            len: 0,
            cut: false,
        };
        for character in string.chars() {
            excerpt.push(character);
            if excerpt.cut {
                break;
            }
        }
        excerpt
    }

    fn push(&mut self, character: char) {
        let mut buffer = [0; 4];
        let encoded = character.encode_utf8(&mut buffer).as_bytes();
        let end = self.len.saturating_add(encoded.len());
        match self.bytes.get_mut(self.len..end) {
            Some(room) => {
                for (place, byte) in room.iter_mut().zip(encoded) {
                    *place = *byte;
                }
                self.len = end;
            }
            None => self.cut = true,
        }
    }

    /// The text kept.
    pub fn as_str(&self) -> &str {
        self.bytes
            .get(..self.len)
            .and_then(|bytes| core::str::from_utf8(bytes).ok())
            .unwrap_or("")
    }

    /// Whether more followed.
    pub const fn is_cut(&self) -> bool {
        self.cut
    }
}

/// The values noted, one place for each path of the table.
pub(crate) struct Fields<const N: usize> {
    paths: &'static [&'static str; N],
    values: [Option<Value>; N],
}

/// What is noted of a value: what it is, and where it begins.
#[derive(Clone, Copy)]
pub(crate) struct Value {
    pub(crate) found: Found,
    pub(crate) offset: usize,
}

/// The dotted path of the object a path is in, and the last name.
fn split(path: &'static str) -> (&'static str, &'static str) {
    let dot = path.bytes().rposition(|byte| byte == b'.');
    match dot.and_then(|dot| path.split_at_checked(dot)) {
        Some((object, last)) => (object, last.strip_prefix('.').unwrap_or(last)),
        None => ("", path),
    }
}

impl<const N: usize> Fields<N> {
    /// Reads a whole document. `custom` is asked first for the value of each key of the table: it may read exactly
    /// that value from the reader and say what it was, or answer `None` having touched nothing.
    pub(crate) fn read<'a, E: From<FieldError>>(
        bytes: &'a [u8],
        paths: &'static [&'static str; N],
        mut custom: impl FnMut(&'static str, &mut Reader<'a>) -> Result<Option<Value>, E>,
    ) -> Result<Self, E> {
        let mut fields = Self {
            paths,
            values: [None; N],
        };
        let reader = &mut Reader::new(bytes);
        let first = next(reader)?;
        if first != Event::BeginObject {
            return Err(Value::of(&first, reader).refuse("", Expected::Object).into());
        }
        // The object being read. Only objects of the table are entered, so its path is its whole stack.
        let mut here = "";
        loop {
            match next(reader)? {
                Event::Key(name) => {
                    let known = paths.iter().zip(&mut fields.values).find(|(path, _)| {
                        let (object, last) = split(path);
                        object == here && name == *last
                    });
                    let Some((&key, slot)) = known else {
                        reader.skip_value().map_err(FieldError::Json)?;
                        continue;
                    };
                    if slot.is_some() {
                        let offset = reader.event_offset();
                        return Err(FieldError::Duplicate { key, offset }.into());
                    }
                    if let Some(value) = custom(key, reader)? {
                        *slot = Some(value);
                        continue;
                    }
                    let event = next(reader)?;
                    *slot = Some(Value::of(&event, reader));
                    let holds_others = paths.iter().any(|path| split(path).0 == key);
                    match event {
                        Event::BeginObject if holds_others => here = key,
                        Event::BeginObject | Event::BeginArray => reader.skip_container().map_err(FieldError::Json)?,
                        _ => {}
                    }
                }
                Event::EndObject if here.is_empty() => break,
                Event::EndObject => here = split(here).0,
                // The reader gives nothing else between the values of an object.
                _ => {}
            }
        }
        // Refuses whatever follows the object.
        next(reader)?;
        Ok(fields)
    }

    /// The object of that dotted path; the empty path is the outermost.
    pub(crate) fn object(&self, path: &'static str) -> Object<'_, N> {
        Object { fields: self, path }
    }
}

/// One object of the tree.
#[derive(Clone, Copy)]
pub(crate) struct Object<'f, const N: usize> {
    fields: &'f Fields<N>,
    path: &'static str,
}

impl<const N: usize> Object<'_, N> {
    /// The value of a key, and the key's dotted path. What lacks is named as high up as it lacks.
    fn get(&self, name: &'static str) -> Result<(&'static str, Value), FieldError> {
        let mut found = Err(FieldError::Missing { key: name });
        for (&key, value) in self.fields.paths.iter().zip(&self.fields.values) {
            let above = self
                .path
                .strip_prefix(key)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            if above {
                match value {
                    None => return Err(FieldError::Missing { key }),
                    Some(Value {
                        found: Found::Object, ..
                    }) => {}
                    Some(value) => return Err(value.refuse(key, Expected::Object)),
                }
            } else if split(key) == (self.path, name) {
                found = value.map(|value| (key, value)).ok_or(FieldError::Missing { key });
            }
        }
        found
    }

    /// Whether the key has a value. An absent or null key, or one in an absent or null object, has none.
    pub(crate) fn has(&self, name: &'static str) -> Result<bool, FieldError> {
        match self.get(name) {
            Ok((_, value)) => Ok(value.found != Found::Null),
            Err(FieldError::Missing { .. } | FieldError::Value { found: Found::Null, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// An integer within bounds, both included.
    pub(crate) fn integer(&self, name: &'static str, min: u64, max: u64) -> Result<u64, FieldError> {
        let (key, value) = self.get(name)?;
        match value.found {
            Found::Integer(n) if (min..=max).contains(&n) => Ok(n),
            _ => Err(value.refuse(key, Expected::Integer { min, max })),
        }
    }

    /// A number within bounds, both included.
    pub(crate) fn number(&self, name: &'static str, min: f64, max: f64) -> Result<f64, FieldError> {
        let (key, value) = self.get(name)?;
        match value.found.as_f64() {
            Some(x) if min <= x && x <= max => Ok(x),
            _ => Err(value.refuse(key, Expected::Number { min, max })),
        }
    }

    /// A truth value.
    pub(crate) fn boolean(&self, name: &'static str) -> Result<bool, FieldError> {
        let (key, value) = self.get(name)?;
        match value.found {
            Found::Bool(b) => Ok(b),
            _ => Err(value.refuse(key, Expected::Bool)),
        }
    }

    /// The value must be there and be this one.
    pub(crate) fn fixed(&self, name: &'static str, expected: Expected) -> Result<(), FieldError> {
        let (key, value) = self.get(name)?;
        let right = match expected {
            Expected::ExactlyBool(b) => value.found == Found::Bool(b),
            Expected::ExactlyNumber(x) => value.found.as_f64() == Some(x),
            Expected::ExactlyString(s) => matches!(value.found, Found::String(text) if text.as_str() == s),
            Expected::Array => value.found == Found::Array,
            _ => false,
        };
        if right {
            Ok(())
        } else {
            Err(value.refuse(key, expected))
        }
    }

    /// The value must be this one if there is any.
    pub(crate) fn fixed_if_any(&self, name: &'static str, expected: Expected) -> Result<(), FieldError> {
        if self.has(name)? {
            self.fixed(name, expected)
        } else {
            Ok(())
        }
    }

    /// The error for a value that is wrong for a reason of its own.
    pub(crate) fn refuse(&self, name: &'static str, expected: Expected) -> FieldError {
        match self.get(name) {
            Ok((key, value)) => value.refuse(key, expected),
            Err(error) => error,
        }
    }
}

impl Value {
    /// The value whose first event has just been read.
    pub(crate) fn of(event: &Event<'_>, reader: &Reader<'_>) -> Self {
        let found = match event {
            Event::Bool(b) => Found::Bool(*b),
            Event::Number(number) => match number.as_u64() {
                Some(n) => Found::Integer(n),
                None => Found::Number(number.as_f64()),
            },
            Event::String(string) => Found::String(Excerpt::new(string)),
            Event::BeginObject => Found::Object,
            Event::BeginArray => Found::Array,
            // The others do not begin a value.
            _ => Found::Null,
        };
        Self {
            found,
            offset: reader.event_offset(),
        }
    }

    /// The error that this value is not what it should be.
    pub(crate) fn refuse(&self, key: &'static str, expected: Expected) -> FieldError {
        FieldError::Value {
            key,
            offset: self.offset,
            expected,
            found: self.found,
        }
    }
}

impl Found {
    /// The number, of either kind. Integers beyond 2^53 are rounded.
    fn as_f64(&self) -> Option<f64> {
        match *self {
            Found::Integer(n) => Some(n as f64),
            Found::Number(x) => Some(x),
            _ => None,
        }
    }
}

fn next<'a>(reader: &mut Reader<'a>) -> Result<Event<'a>, FieldError> {
    reader.next().map_err(FieldError::Json)
}

impl From<json::Error> for FieldError {
    fn from(error: json::Error) -> Self {
        FieldError::Json(error)
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldError::Json(error) => error.fmt(f),
            FieldError::Missing { key } => write!(f, "{key} is missing"),
            FieldError::Duplicate { key, offset } => write!(f, "{key} stands there a second time at byte {offset}"),
            FieldError::Value {
                key,
                offset,
                expected,
                found,
            } => {
                let key = if key.is_empty() { "the document" } else { key };
                write!(f, "{key} must be {expected}, but is {found} (at byte {offset})")
            }
        }
    }
}

impl core::error::Error for FieldError {}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Object => f.write_str("an object"),
            Expected::Array => f.write_str("an array"),
            Expected::String => f.write_str("a string"),
            Expected::Bool => f.write_str("true or false"),
            Expected::Null => f.write_str("null"),
            Expected::Integer { min, max } => write!(f, "an integer from {min} to {max}"),
            Expected::MultipleOf { what, value } => write!(f, "a multiple of {what} ({value})"),
            Expected::Number { min, max } => write!(f, "a number from {min:?} to {max:?}"),
            Expected::ExactlyBool(b) => b.fmt(f),
            Expected::ExactlyNumber(x) => x.fmt(f),
            Expected::ExactlyString(s) => write!(f, "\"{s}\""),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Null => f.write_str("null"),
            Found::Bool(b) => b.fmt(f),
            Found::Integer(n) => n.fmt(f),
            Found::Number(x) => write!(f, "{x:?}"),
            Found::String(text) => text.fmt(f),
            Found::Object => f.write_str("an object"),
            Found::Array => f.write_str("an array"),
        }
    }
}

impl fmt::Display for Excerpt {
    /// In quotes, on one line whatever is in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.cut { "…\"" } else { "\"" };
        write!(f, "\"{}{end}", self.as_str().escape_debug())
    }
}
