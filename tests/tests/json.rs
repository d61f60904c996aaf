//! The JSON reader against `serde_json`: the same texts accepted, the same values read.

use proptest::prelude::*;
use voxtral_core::format::json::{self, ErrorKind, Event, Reader};
use voxtral_tests::agreement::json::agree;

#[track_caller]
fn refused(text: &[u8], kind: ErrorKind, offset: usize) {
    assert_eq!(
        agree(text),
        Err(json::Error { kind, offset }),
        "{}",
        String::from_utf8_lossy(text)
    );
}

/// S12: 100 000 nested `[`; unquoted keys; trailing comma; second JSON value after the first: error, bounded stack.
#[test]
fn s12_hostile_structure_is_refused_with_bounded_stack() {
    refused(&b"[".repeat(100_000), ErrorKind::TooDeep, 127);
    refused(&br#"{"a":"#.repeat(100_000), ErrorKind::TooDeep, 127 * 5);
    refused(b"{a:1}", ErrorKind::ExpectedKey, 1);
    refused(b"[1,]", ErrorKind::TrailingComma, 2);
    refused(br#"{"a":1,}"#, ErrorKind::TrailingComma, 6);
    refused(b"{} {}", ErrorKind::TrailingData, 3);
    refused(b"1 2", ErrorKind::TrailingData, 2);
}

/// serde_json's default: 127 open containers, not 128.
#[test]
fn depth_127_is_accepted_and_128_refused() {
    for depth in [1, 63, 64, 65, 126, 127] {
        agree(&[b"[".repeat(depth), b"]".repeat(depth)].concat()).unwrap();
        agree(&[br#"{"a":"#.repeat(depth), b"0".to_vec(), b"}".repeat(depth)].concat()).unwrap();
        let mixed = [br#"[{"a":"#.repeat(depth / 2), b"0".to_vec(), b"}]".repeat(depth / 2)].concat();
        agree(&mixed).unwrap();
    }
    refused(&[b"[".repeat(128), b"]".repeat(128)].concat(), ErrorKind::TooDeep, 127);
    // A container closed in the wrong way, at every depth.
    for depth in 1..=127 {
        refused(
            &[b"[".repeat(depth), b"}".repeat(depth)].concat(),
            ErrorKind::ExpectedValue,
            depth,
        );
    }
}

#[test]
fn each_kind_of_error_says_where() {
    use ErrorKind::*;
    let table: &[(&[u8], ErrorKind, usize)] = &[
        (b"", UnexpectedEnd, 0),
        (b"  ", UnexpectedEnd, 2),
        (b"[1", UnexpectedEnd, 2),
        (b"[1,", UnexpectedEnd, 3),
        (br#"{"a""#, UnexpectedEnd, 4),
        (br#""abc"#, UnexpectedEnd, 4),
        (br#""\u12"#, UnexpectedEnd, 5),
        (b"nul", UnexpectedEnd, 0),
        (b"-", UnexpectedEnd, 0),
        (b"nulx", ExpectedValue, 0),
        (b"]", ExpectedValue, 0),
        (b"'a'", ExpectedValue, 0),
        (b"\xEF\xBB\xBF1", ExpectedValue, 0),
        (b"[,1]", ExpectedValue, 1),
        (b"[1,,1]", ExpectedValue, 3),
        (b"{1:1}", ExpectedKey, 1),
        (br#"{"a" 1}"#, ExpectedColon, 5),
        (br#"{"a":1 "b":2}"#, ExpectedCommaOrEnd, 7),
        (b"[1 2]", ExpectedCommaOrEnd, 3),
        (b"\"a\x00\"", ControlCharacter, 2),
        (b"\"123456789\n\"", ControlCharacter, 10),
        (br#""\x""#, InvalidEscape, 2),
        (br#""\u+123""#, InvalidEscape, 3),
        (br#""\ud800""#, LoneSurrogate, 7),
        (br#""\ud800\n""#, LoneSurrogate, 7),
        (br#""\udc00""#, LoneSurrogate, 2),
        (br#""\ud800\u0041""#, LoneSurrogate, 2),
        (br#""\ud800\ud800""#, LoneSurrogate, 2),
        (b"\"a\xff\"", InvalidUtf8, 2),
        (b"\"\xed\xa0\x80\"", InvalidUtf8, 1),
        (b"\"\xc3\\n\xa9\"", InvalidUtf8, 1),
        (b"01", InvalidNumber, 0),
        (b"-a", InvalidNumber, 0),
        (b"1.x", InvalidNumber, 0),
        (b"1e+x", InvalidNumber, 0),
        (b"+1", ExpectedValue, 0),
        (b".5", ExpectedValue, 0),
        (b"NaN", ExpectedValue, 0),
        (b"1e999", NumberOutOfRange, 0),
        (b"-1e309", NumberOutOfRange, 0),
    ];
    for &(text, kind, offset) in table {
        refused(text, kind, offset);
    }
}

#[test]
fn an_error_is_reported_again_and_the_reader_stays_still() {
    let mut reader = Reader::new(b"[1, x, 2]");
    assert_eq!(reader.next(), Ok(Event::BeginArray));
    assert!(matches!(reader.next(), Ok(Event::Number(_))));
    let error = reader.next().unwrap_err();
    assert_eq!(
        error,
        json::Error {
            kind: ErrorKind::ExpectedValue,
            offset: 4
        }
    );
    assert_eq!(reader.next(), Err(error));
    assert_eq!(reader.skip_value(), Err(error));
    assert_eq!(reader.skip_container(), Err(error));
    assert_eq!(error.to_string(), "invalid JSON at byte 4: expected a value");
}

#[test]
fn numbers_are_exact_integers_or_nearest_floats() {
    let number = |text: &'static str| match Reader::new(text.as_bytes()).next().unwrap() {
        Event::Number(number) => number,
        other => panic!("{other:?}"),
    };
    for (text, integer) in [
        ("0", Some(0)),
        ("8", Some(8)),
        ("9007199254740993", Some(9_007_199_254_740_993)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", None),
        ("184467440737095516150", None),
        ("8.0", None),
        ("8e0", None),
        ("-0", None),
        ("-8", None),
    ] {
        assert_eq!(number(text).as_u64(), integer, "{text}");
        assert_eq!(serde_json::from_str::<u64>(text).ok(), integer, "{text} in serde_json");
    }
    for text in [
        "1e-05",
        "0.1",
        "1E+2",
        "-0",
        "123456789012345678901234567890",
        "5e-324",
        "1e-999",
        "2.5e-8",
        "1e308",
    ] {
        assert_eq!(
            number(text).as_f64().to_bits(),
            text.parse::<f64>().unwrap().to_bits(),
            "{text}"
        );
    }
    for text in [
        "0e999",
        "0.0e99999999999999999999",
        "1e-99999999999999999999",
        "1e308",
        "17e307",
        "-0.0",
    ] {
        agree(text.as_bytes()).unwrap();
    }
    // Many digits in front of the point, taken back by the exponent.
    agree(&[b"1".repeat(400), b"e-300".to_vec()].concat()).unwrap();
    refused(&b"1".repeat(400), ErrorKind::NumberOutOfRange, 0);
    // The largest numbers have 309 digits, but not all of 309 digits fit.
    agree(&b"1".repeat(309)).unwrap();
    refused(&b"9".repeat(309), ErrorKind::NumberOutOfRange, 0);
    agree(b"1.1e308").unwrap();
    refused(b"9.9e308", ErrorKind::NumberOutOfRange, 0);
}

#[test]
fn surrogates_pair_up_to_the_edges_of_their_ranges() {
    let edges = [0x0000, 0xD7FF, 0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0xE000, 0xFFFF];
    for first in edges {
        for second in edges {
            let well_formed = String::from_utf16(&[first, second]).is_ok();
            assert_eq!(
                agree(format!("\"\\u{first:04x}\\u{second:04X}\"").as_bytes()).is_ok(),
                well_formed
            );
        }
    }
}

#[test]
fn strings_compare_by_what_they_mean() {
    let string = |text: &'static str| match Reader::new(text.as_bytes()).next().unwrap() {
        Event::String(string) => string,
        other => panic!("{other:?}"),
    };
    let plain = string(r#""a/é😀""#);
    let escaped = string(r#""\u0061\/\u00E9\ud83d\uDE00""#);
    assert_eq!(plain, escaped);
    assert_eq!(escaped, "a/é😀");
    assert!(escaped.has_escapes() && !plain.has_escapes());
    assert_eq!(plain.as_str(), Some("a/é😀"));
    assert_eq!(escaped.as_str(), None);
    assert!(string(r#""\u0061""#) < string(r#""b""#) && string(r#""a""#) < string(r#""a\u0000""#));
    assert_ne!(string(r#""a""#), string(r#""a\n""#));
    assert!(escaped < *"b" && escaped > *"a" && plain < *"b" && plain > *"a");
}

#[test]
fn each_event_says_where_it_begins_and_ends() {
    let text = br#" { "a" : [ -1.5 , "x" ] , "b":null } "#;
    let mut reader = Reader::new(text);
    for expected in ["{", "\"a\" :", "[", "-1.5", "\"x\"", "]", "\"b\":", "null", "}", ""] {
        reader.next().unwrap();
        let span = &text[reader.event_offset()..reader.offset()];
        assert_eq!(std::str::from_utf8(span).unwrap(), expected);
    }
}

#[test]
fn skipping_leaves_the_reader_behind_the_value() {
    let mut reader = Reader::new(br#"{"a": [1, {"x": "]}"}, []], "b": 2, "c": {"d": [3, [4]], "e": 5}, "f": []}"#);
    let key = |reader: &mut Reader<'static>, name: &str| match reader.next() {
        Ok(Event::Key(key)) => assert_eq!(key, name),
        other => panic!("{other:?} instead of {name}"),
    };
    assert_eq!(reader.next(), Ok(Event::BeginObject));
    key(&mut reader, "a");
    reader.skip_value().unwrap();
    key(&mut reader, "b");
    reader.skip_value().unwrap();
    key(&mut reader, "c");
    assert_eq!(reader.next(), Ok(Event::BeginObject));
    key(&mut reader, "d");
    assert_eq!(reader.next(), Ok(Event::BeginArray));
    reader.skip_value().unwrap();
    reader.skip_value().unwrap();
    let mut lookahead = reader;
    assert_eq!(lookahead.skip_value().unwrap_err().kind, ErrorKind::ExpectedValue);
    reader.skip_container().unwrap();
    key(&mut reader, "e");
    reader.skip_value().unwrap();
    let mut lookahead = reader;
    assert_eq!(lookahead.skip_value().unwrap_err().kind, ErrorKind::ExpectedValue);
    reader.skip_container().unwrap();
    key(&mut reader, "f");
    assert_eq!(reader.next(), Ok(Event::BeginArray));
    let mut lookahead = reader;
    assert_eq!(lookahead.skip_value().unwrap_err().kind, ErrorKind::ExpectedValue);
    reader.skip_container().unwrap();
    let mut lookahead = reader;
    lookahead.skip_container().unwrap();
    assert_eq!(lookahead.next(), Ok(Event::End));
    assert_eq!(reader.next(), Ok(Event::EndObject));
    let mut lookahead = reader;
    assert_eq!(lookahead.skip_value().unwrap_err().kind, ErrorKind::ExpectedValue);
    assert_eq!(reader.next(), Ok(Event::End));
}

/// Every prefix and every change of one byte of a text that has a bit of everything.
#[test]
fn every_prefix_and_every_changed_byte() {
    let text = r#" {"a":[1,-2.5e+1,0,true,false,null,"é\u00e9\ud83d\ude00\n"],"":{} ,"b":[[],{"c":"x"}]} "#.as_bytes();
    agree(text).unwrap();
    for end in 0..text.len() {
        let _ = agree(&text[..end]);
    }
    let mut changed = text.to_vec();
    for place in 0..text.len() {
        for byte in 0..=255 {
            changed[place] = byte;
            let _ = agree(&changed);
        }
        changed[place] = text[place];
    }
}

/// Every pair of bytes as a whole text, and inside a string long enough for the fast path.
#[test]
fn every_pair_of_bytes() {
    for first in 0..=255 {
        for second in 0..=255 {
            let _ = agree(&[first, second]);
            let _ = agree(&[b"\"12345", &[first, second][..], b"890123456\""].concat());
        }
    }
}

/// Pieces that make texts which are nearly JSON.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "\"\\u00e9\"",
        "\"\\ud83d\\ude00\"",
        "\\",
        "\\u",
        "d800",
        "é",
        "😀",
        "0",
        "1",
        "9",
        "-",
        ".",
        "e",
        "E",
        "+",
        "1e5",
        "12",
        "null",
        "true",
        "false",
        " ",
        "\n",
        "\t",
        "\r",
        "\u{1}",
        "\"k\":",
        "x",
        "longer than eight bytes",
        "309",
        "1e308",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat().into_bytes())
}

/// Any JSON value, as text with varying spaces and escapes.
fn document() -> impl Strategy<Value = String> {
    let string = prop_oneof![
        "[a-zé😀\u{7f}-\u{9f}]{0,12}".prop_map(|s| format!("\"{s}\"")),
        any::<String>().prop_map(|s| serde_json::to_string(&s).unwrap()),
        prop::collection::vec(any::<char>(), 0..6).prop_map(|chars| {
            let units: Vec<u16> = chars
                .iter()
                .flat_map(|c| c.encode_utf16(&mut [0; 2]).to_vec())
                .collect();
            format!(
                "\"{}\"",
                units.iter().map(|u| format!("\\u{u:04x}")).collect::<String>()
            )
        }),
    ]
    .boxed();
    let number = prop_oneof![
        "-?(0|[1-9][0-9]{0,24})",
        "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,24})?([eE](-[0-3]?|\\+?[01]?)[0-9]{1,2})?"
    ];
    let space = || "[ \n\r\t]{0,2}";
    let leaf = prop_oneof![
        string.clone(),
        number,
        prop::sample::select(vec!["null", "true", "false"]).prop_map(String::from)
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        let spaced = (space(), inner, space())
            .prop_map(|(a, value, b)| a + &value + &b)
            .boxed();
        let member = (space(), string.clone(), space(), spaced.clone())
            .prop_map(|(a, key, b, value)| a + &key + &b + ":" + &value);
        prop_oneof![
            prop::collection::vec(spaced, 0..6).prop_map(|values| format!("[{}]", values.join(","))),
            prop::collection::vec(member, 0..6).prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    })
}

fn cases(usual: u32) -> ProptestConfig {
    ProptestConfig {
        cases: voxtral_tests::random::cases(usual),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let _ = agree(&bytes);
    }

    #[test]
    fn nearly_json(text in pieces()) {
        let _ = agree(&text);
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn documents_and_their_mutations(
        text in document(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 1..30),
    ) {
        prop_assert!(agree(text.as_bytes()).is_ok());
        for (place, byte, kind) in edits {
            let mut bytes = text.clone().into_bytes();
            let place = place.index(bytes.len());
            match kind {
                0 => bytes[place] = byte,
                1 => { bytes.remove(place); }
                2 => bytes.insert(place, byte),
                _ => bytes.insert(place, b"{}[],:\"\\"[usize::from(byte) % 8]),
            }
            let _ = agree(&bytes);
        }
    }

    #[test]
    fn order_of_strings_is_the_order_of_decoded_bytes(a in any::<String>(), b in any::<String>()) {
        let (x, y) = (serde_json::to_string(&a).unwrap(), serde_json::to_string(&b).unwrap());
        let strings = (Reader::new(x.as_bytes()).next(), Reader::new(y.as_bytes()).next());
        let (Ok(Event::String(x)), Ok(Event::String(y))) = strings else { panic!() };
        prop_assert_eq!(x.cmp(&y), a.as_bytes().cmp(b.as_bytes()));
        prop_assert_eq!(x == y, a == b);
    }
}
