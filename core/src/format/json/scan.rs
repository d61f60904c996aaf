//! The tokens of JSON: each function takes the text from some byte on, and gives back what is behind the token.

use super::{ErrorKind, Number, Str, float};

/// Text not yet read.
pub(super) type Rest<'a> = &'a [u8];

/// A kind of error, with what was left of the text when it was found.
pub(super) type Fault<'a> = (ErrorKind, Rest<'a>);

/// Numbers with no more digits before the point, exponent added, than this fit `f64` whatever the digits are.
const ALWAYS_FINITE_DIGITS: u64 = 308;

#[inline(always)]
pub(super) fn skip_white_space(mut rest: Rest<'_>) -> Rest<'_> {
    while let Some((b' ' | b'\n' | b'\r' | b'\t', tail)) = rest.split_first() {
        rest = tail;
    }
    rest
}

pub(super) fn literal<'a>(rest: Rest<'a>, word: &[u8]) -> Result<Rest<'a>, Fault<'a>> {
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
pub(super) fn string(start: Rest<'_>) -> Result<(Str<'_>, Rest<'_>), Fault<'_>> {
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
                return Ok((Str::new(raw, escaped), tail));
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
pub(super) fn hex4(rest: Rest<'_>) -> Result<(u16, Rest<'_>), Fault<'_>> {
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
pub(super) fn number(start: Rest<'_>) -> Result<(Number<'_>, Rest<'_>), Fault<'_>> {
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
    let number = Number::new(raw);
    if magnitude > ALWAYS_FINITE_DIGITS && !float::is_finite(raw) {
        return Err((ErrorKind::NumberOutOfRange, start));
    }
    Ok((number, rest))
}

/// The value of the first `count` bytes as decimal digits, if they are digits and the value fits.
pub(super) fn decimal(digits: &[u8], count: u64) -> Option<u64> {
    let mut value = 0u64;
    for &digit in digits.get(..usize::try_from(count).ok()?)? {
        let digit = char::from(digit).to_digit(10)?;
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}
