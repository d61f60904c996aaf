//! S9 to S18: what stands in a header, and how the data is read.

use safetensors::SafeTensors;
use voxtral_core::format::json::ErrorKind;
use voxtral_core::format::safetensors::{self as st, Entry, Error, Field};

use super::{SMALL, agree, file, one, parse};

#[test]
fn s09_white_space_order_of_keys_and_extra_keys() {
    agree(&file(format!("{SMALL}{}", " ".repeat(100)), 12)).unwrap();
    agree(&file(format!("\n\t \r{SMALL}\n\t \r"), 12)).unwrap();
    let spaced: String = SMALL
        .chars()
        .flat_map(|c| {
            if "{}[],:".contains(c) {
                vec![' ', c, '\n', '\t', '\r']
            } else {
                vec![c]
            }
        })
        .collect();
    agree(&file(spaced, 12)).unwrap();
    for padding in ["\0", "\u{b}", "\u{a0}", "{}", "x"] {
        agree(&file(format!("{SMALL}{padding}"), 12)).unwrap_err();
    }
    let fields = [
        r#""dtype":"U8""#,
        r#""shape":[1,1]"#,
        r#""data_offsets":[0,1]"#,
        r#""extra":{"dtype":[{}]}"#,
    ];
    for order in [
        [0, 1, 2, 3],
        [0, 2, 1, 3],
        [1, 0, 2, 3],
        [1, 2, 0, 3],
        [2, 0, 1, 3],
        [2, 1, 3, 0],
        [3, 2, 0, 1],
    ] {
        let entry = order.map(|i| fields[i]).join(",");
        agree(&file(format!(r#"{{"t":{{{entry}}}}}"#), 1)).unwrap();
    }
    for (missing, field) in [(0, Field::Dtype), (1, Field::Shape), (2, Field::DataOffsets)] {
        let entry: Vec<_> = (0..4).filter(|&i| i != missing).map(|i| fields[i]).collect();
        let error = agree(&file(format!(r#"{{"t":{{{}}}}}"#, entry.join(",")), 1)).unwrap_err();
        assert!(
            matches!(error, Error::MissingField { field: found, .. } if found == field),
            "{error:?}"
        );
    }
    for entry in ["1", "null", "\"F32\"", "true"] {
        let error = agree(&file(format!(r#"{{"t":{entry}}}"#), 0)).unwrap_err();
        assert!(
            matches!(error, Error::InvalidEntry { offset: 13, .. }),
            "{entry}: {error:?}"
        );
    }
    for header in ["[]", "null", "\"{}\"", "1"] {
        assert_eq!(agree(&file(header, 0)), Err(Error::InvalidHeaderStart { offset: 8 }));
    }
    assert_eq!(agree(&file(b"{}\xff", 0)), Err(Error::InvalidHeader { offset: 10 }));
}

#[test]
fn s10_data_at_any_address() {
    let halves: Vec<u16> = (0..5).map(|i| 0x3F81 + i).collect();
    let data: Vec<u8> = halves.iter().flat_map(|h| h.to_le_bytes()).collect();
    for shift in 0..8 {
        let header = format!(
            r#"{{"u":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}},"t":{{"dtype":"BF16","shape":[5],"data_offsets":[1,11]}}}}{}"#,
            " ".repeat(shift)
        );
        let mut bytes = file(header, 1);
        bytes.extend(&data);
        agree(&bytes).unwrap();
        parse(&bytes, |header| {
            let tensor = header.get("t").unwrap();
            assert_eq!(tensor.bytes().unwrap(), data);
            let (mut bf16, mut f32) = ([0; 5], [0.0; 5]);
            tensor.read_bf16(&mut bf16).unwrap();
            tensor.read_f32(&mut f32).unwrap();
            assert_eq!(bf16, *halves);
            assert_eq!(
                f32.map(f32::to_bits).to_vec(),
                halves.iter().map(|&h| u32::from(h) << 16).collect::<Vec<_>>()
            );
        })
        .unwrap();
    }
}

#[test]
fn s11_names_of_any_kind_are_never_cut() {
    let named = |name: &[u8]| {
        file(
            [
                &b"{\""[..],
                name,
                br#"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
            ]
            .concat(),
            1,
        )
    };
    let long = "n".repeat(10_000);
    for (raw, name) in [
        ("", ""),
        (r"a\u0000b", "a\0b"),
        (&long, &long),
        ("é😀\u{202e}", "é😀\u{202e}"),
        (r"\/\\\n", "/\\\n"),
    ] {
        let file = named(raw.as_bytes());
        agree(&file).unwrap();
        parse(&file, |header| {
            assert_eq!(header.get(name).unwrap().name().to_string(), name);
            assert!(header.get("a").is_none() && header.get(&long[1..]).is_none());
        })
        .unwrap();
    }
    assert_eq!(agree(&named(b"a\xffb")), Err(Error::InvalidHeader { offset: 11 }));
    assert_eq!(agree(&named(b"\xed\xa0\x80")), Err(Error::InvalidHeader { offset: 10 }));
    assert!(matches!(
        agree(&named(b"a\0b")),
        Err(Error::InvalidJson {
            kind: ErrorKind::ControlCharacter,
            offset: 11
        })
    ));
    // A message says that it shows only a part of the name.
    let file = file(
        format!(r#"{{"{long}":{{"dtype":"U8","shape":[1],"data_offsets":[0,2]}}}}"#),
        2,
    );
    let line = agree(&file).unwrap_err().explain(&file).to_string();
    assert!(
        line.starts_with(&format!("tensor `{}…` (and 9880 characters more): ", &long[..120])),
        "{line}"
    );
}

#[test]
fn s12_hostile_json_is_refused_with_bounded_stack() {
    let json = |header: &[u8]| match agree(&file(header, 0)).unwrap_err() {
        Error::InvalidJson { kind, offset } => (kind, offset),
        other => panic!("{other:?}"),
    };
    let deep = [&br#"{"t":{"x":"#[..], &b"[".repeat(100_000)].concat();
    assert_eq!(json(&deep), (ErrorKind::TooDeep, 8 + 10 + 125));
    assert_eq!(json(b"{t:1}"), (ErrorKind::ExpectedKey, 9));
    assert_eq!(json(br#"{"__metadata__":{},}"#), (ErrorKind::TrailingComma, 26));
    assert_eq!(json(b"{}{}"), (ErrorKind::TrailingData, 10));
    assert_eq!(
        agree(&file(b"[".repeat(100_000), 0)),
        Err(Error::InvalidHeaderStart { offset: 8 })
    );
}

#[test]
fn s13_a_small_index_is_told_the_number_needed() {
    let file = file(SMALL, 12);
    assert_eq!(st::count(&file), Ok(3));
    for given in 0..3 {
        let mut entries = vec![Entry::default(); given];
        let error = st::parse(&file, &mut entries).unwrap_err();
        assert_eq!(error, Error::TooManyTensors { needed: 3, given });
        assert!(error.to_string().contains("3 tensors") && error.to_string().contains(&format!("room for {given}")));
    }
    // Room to spare is left alone.
    let mut entries = vec![Entry::default(); 9];
    let header = st::parse(&file, &mut entries).unwrap();
    assert_eq!(
        header.iter().map(|t| t.name().to_string()).collect::<Vec<_>>(),
        ["a", "b", "c"]
    );
    assert_eq!(
        header
            .iter_by_offset()
            .map(|t| t.name().to_string())
            .collect::<Vec<_>>(),
        ["a", "c", "b"]
    );
}

#[test]
fn s14_no_tensors_at_all() {
    for header in ["{}", " {} ", r#"{"__metadata__":{"a":"b"}}"#] {
        agree(&file(header, 0)).unwrap();
        parse(&file(header, 0), |header| {
            assert!(header.is_empty() && header.get("").is_none())
        })
        .unwrap();
        assert_eq!(st::parse(&file(header, 0), &mut []).map(|h| h.len()), Ok(0));
    }
}

#[test]
fn s15_offsets_beyond_4_gib_are_exact() {
    let (two, four) = ((1u64 << 31) + 6, (1u64 << 32) + 10);
    let header = format!(
        r#"{{"a":{{"dtype":"BF16","shape":[{}],"data_offsets":[0,{two}]}},"b":{{"dtype":"BF16","shape":[{},2],"data_offsets":[{two},{}]}}}}"#,
        two / 2,
        four / 4,
        two + four / 4 * 4
    );
    let prefix = file(&header, 0);
    let data_start = prefix.len() as u64;
    let file_len = data_start + two + four / 4 * 4;
    assert_eq!(st::prefix_len(&prefix), Ok(prefix.len()));
    let mut entries = [Entry::default(); 2];
    for cut in [false, true] {
        let wrong = if cut {
            file_len - (1 << 32)
        } else {
            file_len + (1 << 32)
        };
        let error = st::parse_prefix(&prefix, wrong, &mut entries).unwrap_err();
        let (expected, found) = (file_len, wrong);
        assert_eq!(
            error,
            if cut {
                Error::Truncated { expected, found }
            } else {
                Error::TrailingBytes { expected, found }
            }
        );
    }
    let short = st::parse_prefix(&prefix[..prefix.len() - 1], file_len, &mut entries).unwrap_err();
    assert!(matches!(short, Error::InvalidHeaderLength { .. }));
    let header = st::parse_prefix(&prefix, file_len, &mut entries).unwrap();
    let b = header.get("b").unwrap();
    assert_eq!(b.range(), data_start + two..file_len);
    assert_eq!(b.elements(), four / 4 * 2);
    let reach = Error::OutOfReach {
        tensor: b.name_span(),
        expected: file_len,
        found: data_start,
    };
    assert_eq!(b.bytes(), Err(reach));
    assert_eq!(
        header.get("a").unwrap().read_f32(&mut []),
        Err(Error::WrongLength {
            tensor: header.get("a").unwrap().name_span(),
            expected: two / 2,
            found: 0
        })
    );
}

/// S17, the part of this room: every value of F16 and BF16, and F32 bit for bit.
#[test]
fn s17_f32_and_f16_are_read_like_bf16() {
    let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let read = |dtype: &str, data: &[u8], elements: usize| {
        let header = file(
            format!(
                r#"{{"t":{{"dtype":"{dtype}","shape":[{elements}],"data_offsets":[0,{}]}}}}"#,
                data.len()
            ),
            0,
        );
        let file = [&header[..], data].concat();
        agree(&file).unwrap();
        parse(&file, |header| {
            let mut out = vec![0.0; elements];
            let tensor = header.get("t").unwrap();
            tensor.read_f32(&mut out).unwrap();
            for wrong in [elements - 1, elements + 1] {
                let error = Error::WrongLength {
                    tensor: tensor.name_span(),
                    expected: elements as u64,
                    found: wrong as u64,
                };
                assert_eq!(tensor.read_f32(&mut vec![0.0; wrong]), Err(error));
            }
            out
        })
        .unwrap()
    };
    for (bits, value) in (0..=u16::MAX).zip(read("F16", &all, 65536)) {
        let expected = half::f16::from_bits(bits).to_f32();
        assert!(
            value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan(),
            "{bits:04x}"
        );
    }
    for (bits, value) in (0..=u16::MAX).zip(read("BF16", &all, 65536)) {
        assert_eq!(value.to_bits(), u32::from(bits) << 16);
    }
    for (bits, value) in all.chunks_exact(4).zip(read("F32", &all, 32768)) {
        assert_eq!(value.to_bits().to_le_bytes(), bits);
    }
}

#[test]
fn s18_accepted_there_and_here() {
    let entry = |extra: &str| format!(r#"{{"t":{{"dtype":"U8","x":{extra},"shape":[1],"data_offsets":[0,1]}}}}"#);
    agree(&file(format!(" \n\t\r{SMALL}"), 12)).unwrap();
    agree(&file(r#"{"__metadata__":null}"#, 0)).unwrap();
    for extra in [
        "1",
        "-2.5e-3",
        "null",
        "true",
        "\"x\"",
        "[1,[2]]",
        r#"{"dtype":1,"dtype":2}"#,
    ] {
        agree(&file(entry(extra), 1)).unwrap();
    }
    agree(&file(entry(&("[".repeat(125) + &"]".repeat(125))), 1)).unwrap();
    agree(&file(entry(&(r#"{"a":"#.repeat(125) + "0" + &"}".repeat(125))), 1)).unwrap();
    agree(&one(r#""U8""#, "[0,9223372036854775808,2]", "[0,0]", 0)).unwrap();
}

#[test]
fn s18_refused_there_and_here() {
    let entry = |extra: &str| {
        file(
            format!(r#"{{"t":{{"dtype":"U8","x":{extra},"shape":[1],"data_offsets":[0,1]}}}}"#),
            1,
        )
    };
    let json = |file: Vec<u8>| match agree(&file).unwrap_err() {
        Error::InvalidJson { kind, .. } => kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(json(entry(&("[".repeat(126) + &"]".repeat(126)))), ErrorKind::TooDeep);
    assert_eq!(json(entry("1e999")), ErrorKind::NumberOutOfRange);
    assert_eq!(json(entry(r#""\ud800""#)), ErrorKind::LoneSurrogate);
    assert_eq!(json(entry(r#"{"\udfff":1}"#)), ErrorKind::LoneSurrogate);
    for number in ["-0", "8.0", "8e0"] {
        for offsets in [format!("[0,{number}]"), format!("[{number},8]")] {
            let error = agree(&one(r#""U8""#, "[8]", &offsets, 8)).unwrap_err();
            assert!(
                matches!(
                    error,
                    Error::InvalidField {
                        field: Field::DataOffsets,
                        ..
                    }
                ),
                "{error:?}"
            );
        }
    }
    let error = agree(&one(r#""U8""#, "[9223372036854775808,2,0]", "[0,0]", 0)).unwrap_err();
    assert!(matches!(error, Error::ValidationOverflow { .. }));
    let error = agree(&file(r#"{"__metadata__":{},"__metadata__":{}}"#, 0)).unwrap_err();
    assert_eq!(error, Error::InvalidMetadata { offset: 27 });
    for (twice, field) in [
        (r#""dtype":"U8""#, Field::Dtype),
        (r#""shape":[1]"#, Field::Shape),
        (r#""data_offsets":[0,1]"#, Field::DataOffsets),
    ] {
        let header = format!(r#"{{"t":{{"dtype":"U8","shape":[1],"data_offsets":[0,1],{twice}}}}}"#);
        let error = agree(&file(header, 1)).unwrap_err();
        assert!(
            matches!(error, Error::DuplicateField { field: found, .. } if found == field),
            "{error:?}"
        );
    }
    let error = agree(&one(r#""F4""#, "[3]", "[0,1]", 1)).unwrap_err();
    assert!(matches!(error, Error::MisalignedSlice { bits: 12, .. }));
    let error = agree(&one(r#""F6_E2M3""#, "[2]", "[0,1]", 1)).unwrap_err();
    assert!(matches!(error, Error::MisalignedSlice { bits: 12, .. }));
    agree(&one(r#""F4""#, "[2]", "[0,1]", 1)).unwrap();
    agree(&one(r#""F6_E3M2""#, "[4]", "[0,3]", 3)).unwrap();
}

#[test]
fn s18_refused_here_on_purpose() {
    let entry = r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    let stricter = |file: Vec<u8>| {
        SafeTensors::deserialize(&file).expect("the reference accepts it");
        agree(&file).unwrap_err()
    };
    let error = stricter(file(format!(r#"{{"t":{entry},"t":{entry}}}"#), 1));
    assert!(matches!(error, Error::DuplicateTensor { .. }));
    let error = stricter(file(r#"{"t":["U8",[1],[0,1]]}"#, 1));
    assert!(matches!(error, Error::InvalidEntry { .. }));
    let error = stricter(one(r#"{"F32":null}"#, "[1]", "[0,4]", 4));
    assert!(matches!(
        error,
        Error::InvalidField {
            field: Field::Dtype,
            ..
        }
    ));
}

/// The real index: 711 tensors in 104 016 bytes of header, 8 859 462 744 bytes in all.
#[test]
fn the_published_model_is_indexed() {
    let listing = include_str!("../../goldens/real/full_tensors.json");
    let listing: serde_json::Value = serde_json::from_str(listing).unwrap();
    let tensors = listing["tensors"].as_array().unwrap();
    let entries: Vec<String> = tensors
        .iter()
        .map(|t| {
            let (begin, len) = (t["offset"].as_u64().unwrap(), t["bytes"].as_u64().unwrap());
            format!(
                r#"{}:{{"dtype":{},"shape":{},"data_offsets":[{begin},{}]}}"#,
                t["name"],
                t["dtype"],
                t["shape"],
                begin + len
            )
        })
        .collect();
    let compact = format!("{{{}}}", entries.join(","));
    let prefix = file(compact.clone() + &" ".repeat(104_016 - compact.len()), 0);
    assert_eq!(st::count(&prefix), Ok(711));
    let mut entries = vec![Entry::default(); 711];
    let header = st::parse_prefix(&prefix, 8_859_462_744, &mut entries).unwrap();
    for t in tensors {
        let found = header.get(t["name"].as_str().unwrap()).unwrap();
        let shape: Vec<u64> = t["shape"]
            .as_array()
            .unwrap()
            .iter()
            .map(|d| d.as_u64().unwrap())
            .collect();
        assert!(found.shape().eq(shape));
        assert_eq!(found.range().start, 104_024 + t["offset"].as_u64().unwrap());
    }
    assert!(header.get("mm_streams_embeddings").is_none());
}
