//! The JSON reader and `serde_json` on the same bytes.

use std::collections::BTreeMap;

use serde_json::Value;
use voxtral_core::format::json::{self, Event, Reader, Str};

/// A whole text as a value, built from events.
fn read(text: &[u8]) -> Result<Value, json::Error> {
    let mut reader = Reader::new(text);
    let first = reader.next()?;
    let value = value(&mut reader, first)?;
    assert_eq!(reader.depth(), 0);
    assert_eq!(reader.next()?, Event::End);
    assert_eq!(reader.next()?, Event::End, "the end is the end again");
    assert_eq!(reader.offset(), text.len());
    Ok(value)
}

fn text(string: Str<'_>) -> String {
    let decoded = String::from_utf8(string.bytes().collect()).expect("decoded strings are UTF-8");
    assert_eq!(string.chars().collect::<String>(), decoded);
    assert_eq!(string.to_string(), decoded);
    assert_eq!(string, decoded.as_str());
    assert_eq!(Str::from_raw(string.raw()), string);
    assert_eq!(Str::from_raw(string.raw()).has_escapes(), string.has_escapes());
    assert_eq!(string.as_str(), (!string.has_escapes()).then_some(decoded.as_str()));
    decoded
}

fn value(reader: &mut Reader<'_>, first: Event<'_>) -> Result<Value, json::Error> {
    Ok(match first {
        Event::Null => Value::Null,
        Event::Bool(bool) => Value::Bool(bool),
        Event::String(string) => Value::String(text(string)),
        Event::Number(number) => match number.as_u64() {
            Some(integer) => integer.into(),
            None => number.as_f64().into(),
        },
        Event::BeginArray => {
            let mut array = Vec::new();
            loop {
                match reader.next()? {
                    Event::EndArray => break Value::Array(array),
                    event => array.push(value(reader, event)?),
                }
            }
        }
        Event::BeginObject => {
            let mut object = serde_json::Map::new();
            loop {
                match reader.next()? {
                    Event::EndObject => break Value::Object(object),
                    Event::Key(key) => {
                        let event = reader.next()?;
                        object.insert(text(key), value(reader, event)?);
                    }
                    other => unreachable!("{other:?} where a key belongs"),
                }
            }
        }
        other => unreachable!("{other:?} where a value belongs"),
    })
}

/// Reads without looking, by [`Reader::skip_value`].
fn skip(text: &[u8]) -> Result<(), json::Error> {
    let mut reader = Reader::new(text);
    reader.skip_value()?;
    reader.next().map(|end| assert_eq!(end, Event::End))
}

/// Equal up to the rounding of floats: `serde_json` multiplies by powers of ten and may miss the nearest value.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(a), Value::Number(b)) if a.is_u64() || b.is_u64() => a == b,
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            a == b || (a - b).abs() <= 1e-14 * a.abs() + 1e-322
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            let (a, b): (BTreeMap<_, _>, BTreeMap<_, _>) = (a.iter().collect(), b.iter().collect());
            a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a.0 == b.0 && same(a.1, b.1))
        }
        _ => ours == theirs,
    }
}

/// One text, both readers, one verdict.
#[track_caller]
pub fn agree(text: &[u8]) -> Result<Value, json::Error> {
    let ours = read(text);
    let theirs = serde_json::from_slice::<Value>(text);
    let shown = String::from_utf8_lossy(text);
    match (&ours, &theirs) {
        (Ok(a), Ok(b)) => assert!(same(a, b), "{shown}: {a} here, {b} in serde_json"),
        (Err(_), Err(_)) => {}
        (a, b) => panic!("{shown}: {a:?} here, {b:?} in serde_json"),
    }
    assert_eq!(skip(text), ours.clone().map(|_| ()), "{shown}: skipped and read differ");
    if let Err(error) = ours {
        assert!(error.offset <= text.len());
    }
    ours
}
