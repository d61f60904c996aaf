//! S1 to S8: sizes, places, names, types and metadata.

use voxtral_core::format::json::ErrorKind;
use voxtral_core::format::safetensors::{self as st, Dtype, Error, Field};

use super::{SMALL, agree, file, one, parse};

#[test]
fn s01_every_prefix_is_refused_with_the_sizes() {
    let whole = file(SMALL, 12);
    let header_end = (8 + SMALL.len()) as u64;
    assert_eq!(agree(&whole), Ok(()));
    for end in 0..whole.len() {
        let found = end as u64;
        let expected = match found {
            0..8 => Error::HeaderTooSmall { found },
            _ if found < header_end => Error::InvalidHeaderLength {
                expected: header_end,
                found,
            },
            _ => Error::Truncated {
                expected: header_end + 12,
                found,
            },
        };
        assert_eq!(agree(&whole[..end]), Err(expected));
        if end >= 8 {
            let wanted = if found < header_end {
                header_end
            } else {
                header_end + 12
            };
            assert!(
                expected
                    .to_string()
                    .ends_with(&format!("file has {end} bytes, header wants {wanted}"))
            );
        }
    }
}

#[test]
fn s02_header_lengths_are_refused_before_anything_is_sized_by_them() {
    let with_length = |length: u64| [&length.to_le_bytes()[..], b"{}      "].concat();
    assert_eq!(agree(&with_length(8)), Ok(()));
    assert_eq!(
        agree(&with_length(2)),
        Err(Error::TrailingBytes {
            expected: 10,
            found: 16
        })
    );
    assert_eq!(agree(&with_length(0)), Err(Error::InvalidHeaderStart { offset: 8 }));
    let unexpected_end = Error::InvalidJson {
        kind: ErrorKind::UnexpectedEnd,
        offset: 9,
    };
    assert_eq!(agree(&with_length(1)), Err(unexpected_end));
    assert_eq!(
        agree(&with_length(9)),
        Err(Error::InvalidHeaderLength {
            expected: 17,
            found: 16
        })
    );
    let longest = Error::InvalidHeaderLength {
        expected: 100_000_008,
        found: 16,
    };
    assert_eq!(agree(&with_length(100_000_000)), Err(longest));
    for length in [100_000_001, 1 << 32, 1 << 63, u64::MAX] {
        let error = Error::HeaderTooLarge { found: length };
        assert_eq!(agree(&with_length(length)), Err(error));
        assert_eq!(st::prefix_len(&with_length(length)), Err(error));
        assert!(error.to_string().contains("100000000 allowed"), "{error}");
    }
    assert_eq!(st::prefix_len(&100_000_000u64.to_le_bytes()), Ok(100_000_008));
}

#[test]
fn s03_which_of_trailing_hole_first_overlap_and_where() {
    let two = |a: &str, b: &str, data_len| {
        let a = format!(r#""a":{{"dtype":"U8","shape":[4],"data_offsets":{a}}}"#);
        let b = format!(r#""b":{{"dtype":"U8","shape":[4],"data_offsets":{b}}}"#);
        // In both orders of the header the same.
        let (one, other) = (
            file(format!("{{{a},{b}}}"), data_len),
            file(format!("{{{b},{a}}}"), data_len),
        );
        let (verdict, again) = (agree(&one), agree(&other));
        let line = |file: &[u8], verdict: Result<(), Error>| verdict.map_err(|error| error.explain(file).to_string());
        assert_eq!(line(&one, verdict), line(&other, again));
        line(&one, verdict)
    };
    assert_eq!(two("[0,4]", "[4,8]", 8), Ok(()));
    let refused = |text: &str| Err(text.to_string());
    assert_eq!(
        two("[0,4]", "[4,8]", 10),
        refused("trailing bytes after the last tensor: file has 123 bytes, header wants 121")
    );
    assert_eq!(
        two("[0,4]", "[5,9]", 9),
        refused("tensor `b`: hole before its data: it begins at offset 5, the tensor before ends at offset 4")
    );
    assert_eq!(
        two("[1,5]", "[5,9]", 9),
        refused("tensor `a`: data of the first tensor begins at offset 1, expected 0")
    );
    assert_eq!(
        two("[0,4]", "[3,7]", 7),
        refused("tensor `b`: overlap: data begins at offset 3, the tensor before ends at offset 4")
    );
    assert_eq!(
        two("[0,4]", "[4,8]", 7),
        refused("file has 120 bytes, header wants 121")
    );
    assert!(matches!(agree(&file("{}", 1)), Err(Error::TrailingBytes { .. })));
    // Two at one place: the one that stands second in the header is named.
    let entry = r#"{"dtype":"U8","shape":[4],"data_offsets":[0,4]}"#;
    let file = file(format!(r#"{{"b":{entry},"a":{entry}}}"#), 4);
    let line = agree(&file).unwrap_err().explain(&file).to_string();
    assert_eq!(
        line,
        "tensor `a`: overlap: data begins at offset 0, the tensor before ends at offset 4"
    );
}

#[test]
fn s04_duplicate_names_are_refused_also_behind_escapes() {
    let entry = r#"{"dtype":"U8","shape":[4],"data_offsets":[0,4]}"#;
    let other = r#"{"dtype":"U8","shape":[4],"data_offsets":[4,8]}"#;
    for (a, b) in [
        ("name", "name"),
        ("name", r"n\u0061me"),
        (r"\u006e\u0061me", "name"),
        ("é😀", r"\u00e9\ud83d\ude00"),
    ] {
        for second in [entry, other] {
            let file = file(
                format!(r#"{{"{a}":{entry},"x":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}},"{b}":{second}}}"#),
                4,
            );
            let error = agree(&file).unwrap_err();
            assert!(matches!(error, Error::DuplicateTensor { .. }), "{error:?}");
            let line = error.explain(&file).to_string();
            let places = (9 + 1, file.windows(b.len()).rposition(|w| w == b.as_bytes()).unwrap());
            assert!(
                line.contains("duplicate")
                    && line.contains(&format!("at byte {} and again at byte {}", places.0, places.1)),
                "{line}"
            );
        }
    }
    // Names that differ in what they mean although they look alike.
    agree(&file(format!(r#"{{"a":{entry},"\\u0061":{other}}}"#), 8)).unwrap();
}

#[test]
fn s05_sizes_that_do_not_fit_are_refused_without_wrapping_or_rounding() {
    let refused = |file: Vec<u8>| agree(&file).unwrap_err();
    let size = |file| match refused(file) {
        Error::TensorInvalidInfo { expected, found, .. } => (expected, found),
        other => panic!("{other:?}"),
    };
    assert_eq!(size(one(r#""F32""#, "[1000,1000]", "[0,4]", 4)), (4_000_000, 4));
    assert_eq!(
        size(one(r#""U8""#, "[9007199254740993]", "[0,8]", 8)),
        (9_007_199_254_740_993, 8)
    );
    assert_eq!(size(one(r#""U8""#, "[2]", "[0,3]", 3)), (2, 3));
    for (dtype, shape) in [
        (r#""U8""#, "[4294967296,4294967296]"),
        (r#""F32""#, "[4294967296,4294967296]"),
        (r#""U8""#, "[9223372036854775808,2,0]"),
        (r#""F64""#, "[576460752303423488]"), // 2^59 elements: 2^65 bits
    ] {
        let error = refused(one(dtype, shape, "[0,0]", 0));
        assert!(matches!(error, Error::ValidationOverflow { .. }), "{shape}: {error:?}");
    }
    for number in [
        "-1",
        "-0",
        "1.5",
        "4.0",
        "4e0",
        "18446744073709551616",
        "1e999",
        "\"4\"",
        "null",
        "[4]",
        "{}",
    ] {
        for file in [
            one(r#""U8""#, &format!("[{number},4]"), "[0,4]", 4),
            one(r#""U8""#, "[4]", &format!("[0,{number}]"), 4),
            one(r#""U8""#, "[4]", &format!("[{number},4]"), 4),
        ] {
            let error = refused(file);
            let known = matches!(
                error,
                Error::InvalidField { .. }
                    | Error::InvalidJson {
                        kind: ErrorKind::NumberOutOfRange,
                        ..
                    }
            );
            assert!(known, "{number}: {error:?}");
        }
    }
    // 2^53 and 2^53 + 1 are two numbers: as f64 they would be one.
    let error = refused(one(r#""U8""#, "[9007199254740993]", "[0,9007199254740992]", 0));
    assert!(matches!(
        error,
        Error::TensorInvalidInfo {
            expected: 9_007_199_254_740_993,
            found: 9_007_199_254_740_992,
            ..
        }
    ));
    let error = refused(one(r#""U8""#, "[9007199254740993]", "[0,9007199254740993]", 0));
    assert!(matches!(error, Error::Truncated { .. }), "{error:?}");
    let backwards = file(
        r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"t":{"dtype":"U8","shape":[2],"data_offsets":[4,2]}}"#,
        4,
    );
    assert!(matches!(
        refused(backwards),
        Error::EndBeforeBegin { begin: 4, end: 2, .. }
    ));
    // A list of one, of three, of none; not a list.
    for offsets in ["[0]", "[0,4,4]", "[]", "4", "{}"] {
        let error = refused(one(r#""U8""#, "[4]", offsets, 4));
        assert!(
            matches!(
                error,
                Error::InvalidField {
                    field: Field::DataOffsets,
                    ..
                }
            ),
            "{offsets}: {error:?}"
        );
    }
    // The sum of all sizes goes beyond 64 bits only with the length of the header: no wrap there either.
    let eighth = u64::MAX / 8;
    let parts: Vec<String> = (0..8u64)
        .map(|i| {
            format!(
                r#""{i}":{{"dtype":"U8","shape":[{eighth}],"data_offsets":[{},{}]}}"#,
                i * eighth,
                (i + 1) * eighth
            )
        })
        .collect();
    let file = file(format!("{{{}}}", parts.join(",")), 0);
    assert!(matches!(
        parse(&file, |_| ()),
        Err(Error::Truncated { expected: u64::MAX, .. })
    ));
}

#[test]
fn s06_empty_tensors_and_scalars() {
    for (shape, dtype) in [("[0]", "F32"), ("[4,0]", "BF16"), ("[0,4]", "F4"), ("[0,0,0]", "U8")] {
        agree(&one(&format!("\"{dtype}\""), shape, "[0,0]", 0)).unwrap();
    }
    agree(&one(r#""F32""#, "[]", "[0,4]", 4)).unwrap();
    assert!(matches!(
        agree(&one(r#""F32""#, "[1]", "[0,0]", 0)),
        Err(Error::TensorInvalidInfo {
            expected: 4,
            found: 0,
            ..
        })
    ));
    assert!(matches!(
        agree(&one(r#""F32""#, "[]", "[0,0]", 0)),
        Err(Error::TensorInvalidInfo {
            expected: 4,
            found: 0,
            ..
        })
    ));
    // Several empty ones at one place, in front, between and behind.
    let empty = |name, at| format!(r#""{name}":{{"dtype":"F32","shape":[0],"data_offsets":[{at},{at}]}}"#);
    let full = |name, at, end| format!(r#""{name}":{{"dtype":"U8","shape":[2],"data_offsets":[{at},{end}]}}"#);
    let entries = [
        empty("e", 4),
        full("b", 2, 4),
        empty("c", 2),
        empty("a", 0),
        full("d", 0, 2),
        empty("f", 2),
        empty("g", 4),
    ];
    agree(&file(format!("{{{}}}", entries.join(",")), 4)).unwrap();
    // Inside another tensor an empty one has no place.
    let inside = [full("a", 0, 2), empty("b", 1)];
    assert!(matches!(
        agree(&file(format!("{{{}}}", inside.join(",")), 2)),
        Err(Error::Overlap { .. })
    ));
}

#[test]
fn s07_known_types_are_listed_and_unknown_ones_refused() {
    for dtype in Dtype::ALL {
        let bytes = dtype.bits() as usize; // eight elements
        let good = one(&format!("\"{dtype}\""), "[2,4]", &format!("[0,{bytes}]"), bytes);
        agree(&good).unwrap();
        let bad = one(
            &format!("\"{dtype}\""),
            "[2,4]",
            &format!("[0,{}]", bytes + 1),
            bytes + 1,
        );
        assert!(matches!(agree(&bad), Err(Error::TensorInvalidInfo { .. })));
        parse(&good, |header| {
            let tensor = header.get("t").unwrap();
            assert_eq!(tensor.dtype(), dtype);
            let readable = matches!(dtype, Dtype::Bf16 | Dtype::F16 | Dtype::F32);
            let unsupported = Error::UnsupportedDtype {
                tensor: tensor.name_span(),
                found: dtype,
            };
            assert_eq!(
                tensor.read_f32(&mut [0.0; 8]),
                if readable { Ok(()) } else { Err(unsupported) }
            );
            assert_eq!(
                tensor.read_bf16(&mut [0; 8]),
                if dtype == Dtype::Bf16 { Ok(()) } else { Err(unsupported) }
            );
            assert_eq!(
                unsupported.explain(&good).to_string(),
                format!("tensor `t`: cannot be read from dtype {dtype}")
            );
        })
        .unwrap();
    }
    for unknown in ["Q4_0", "bf16", "BF16 ", "", "F128", "BF1", "\\u0000"] {
        let file = one(&format!("\"{unknown}\""), "[2]", "[0,4]", 4);
        let error = agree(&file).unwrap_err();
        assert!(matches!(error, Error::UnknownDtype { offset: 22, .. }), "{error:?}");
        assert!(
            error
                .explain(&file)
                .to_string()
                .starts_with("tensor `t`: unknown dtype `"),
            "{}",
            error.explain(&file)
        );
    }
    // Escapes in the type's name mean nothing special.
    agree(&one(r#""\u0042F16""#, "[2]", "[0,4]", 4)).unwrap();
    for wrong in ["3", "null", r#"{"F32":{}}"#, r#"{"F32":1}"#, "[\"F32\"]", "true"] {
        assert!(matches!(
            agree(&one(wrong, "[1]", "[0,4]", 4)),
            Err(Error::InvalidField {
                field: Field::Dtype,
                ..
            })
        ));
    }
}

#[test]
fn s08_metadata_is_read_whatever_its_strings_hold() {
    let tensor = r#""t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    for metadata in [
        r#"{}"#,
        r#"{"a":"}{][,:","b\"c":"\"\\\u00e9\n","":""}"#,
        r#"{"a":"{\"t\":{\"dtype\":\"F32\"}}"}"#,
        r#"{"a":"first","a":"last"}"#,
        r#"null"#,
        r#"{"é":"😀"}"#,
    ] {
        agree(&file(format!(r#"{{"__metadata__":{metadata},{tensor}}}"#), 1)).unwrap();
        agree(&file(format!(r#"{{{tensor},"\u005f_metadata__":{metadata}}}"#), 1)).unwrap();
    }
    agree(&file(format!("{{{tensor}}}"), 1)).unwrap();
    for metadata in [
        r#"{"a":1}"#,
        r#"{"a":null}"#,
        r#"{"a":{"b":"c"}}"#,
        r#"{"a":["b"]}"#,
        "[]",
        "\"a\"",
        "1",
        "true",
    ] {
        let error = agree(&file(format!(r#"{{"__metadata__":{metadata},{tensor}}}"#), 1)).unwrap_err();
        assert!(matches!(error, Error::InvalidMetadata { .. }), "{metadata}: {error:?}");
    }
    // In the file's order, repeated keys as often as they stand.
    let file = file(r#"{"__metadata__":{"b":"1","a":"2","b":"3"}}"#, 0);
    let pairs = parse(&file, |header| {
        header.metadata().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>()
    });
    assert_eq!(pairs.unwrap(), ["b=1", "a=2", "b=3"]);
}
