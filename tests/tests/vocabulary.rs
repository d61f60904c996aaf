//! `tekken.json`: what is read from it, the index over its pieces, and what makes a file unusable.

mod tekken;

use std::fmt::Write as _;
use std::time::Instant;

use proptest::prelude::*;
use serde_json::{Value, json};
use tekken::{N_SPECIAL, Parts, Text, base64, entry, plain_bytes, read, read_json};
use voxtral_core::format::fields::FieldError;
use voxtral_core::format::tekken::{Error, IndexProgress, Vocabulary};
use voxtral_tests::random::cases;

#[test]
fn every_known_file() {
    let variants = ["A", "B", "C", "D", "E"].map(|v| format!("tests/goldens/variant_{v}/model"));
    for directory in variants.iter().map(String::as_str).chain(["host/nano"]) {
        let params = read_json(&format!("{directory}/params.json"));
        let text = Text::new(read(&format!("{directory}/tekken.json")));
        let expected = Vocabulary {
            bos: 1,
            eos: 2,
            streaming_pad: 32,
            streaming_word: 33,
            left_pad_tokens: 32,
            delay_tokens: 6,
            n_special: 1000,
            vocab_size: params["vocab_size"].as_u64().unwrap() as u32,
            vocab_offset: text.vocabulary.vocab_offset,
        };
        assert_eq!(text.vocabulary, expected, "{directory}");
        assert_eq!(text.file[expected.vocab_offset], b'[', "{directory}");
        for entry in read_json(&format!("{directory}/tekken.json"))["vocab"]
            .as_array()
            .unwrap()
        {
            let id = entry["rank"].as_u64().unwrap() as u32 + N_SPECIAL;
            match text.bytes(id) {
                Ok(bytes) => assert_eq!(base64(&bytes), entry["token_bytes"].as_str().unwrap()),
                Err(error) => assert!(id >= expected.vocab_size, "{directory}: {error}"),
            }
        }
    }
}

#[test]
fn a_long_piece_is_whole() {
    let long: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
    for cut in 0..3 {
        let mut parts = Parts::new();
        parts.vocab[299] = entry(299, &long[cut..]);
        assert_eq!(Text::new(parts.whole()).bytes(1299).unwrap(), &long[cut..]);
    }
}

#[test]
fn escapes_in_base64() {
    let parts = Parts::new();
    let bytes = [0xFF, 0xFE, 0xFF, 0xFF];
    assert_eq!(base64(&bytes), "//7//w==");
    let mut plain = parts.clone();
    plain.vocab[260] = entry(260, &bytes);
    let plain = String::from_utf8(plain.whole()).unwrap();
    let escaped = plain.replace("//7//w==", r"\/\u002f7\/\u002Fw=\u003D");
    assert_ne!(plain, escaped);
    assert_eq!(Text::new(escaped.into_bytes()).bytes(1260), Ok(bytes.to_vec()));
}

#[test]
fn top_level_keys_in_any_order() {
    let parts = Parts::new();
    let expected = Text::new(parts.whole());
    let mut orders = 0;
    for code in 0..256 {
        let order = [code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6];
        if (0..4).any(|i| !order.contains(&i)) {
            continue;
        }
        orders += 1;
        let text = Text::new(parts.file(&order));
        let vocab_offset = text.vocabulary.vocab_offset;
        assert_eq!(
            text.vocabulary,
            Vocabulary {
                vocab_offset,
                ..expected.vocabulary
            }
        );
        assert!((1000..1300).all(|id| text.bytes(id) == expected.bytes(id)));
    }
    assert_eq!(orders, 24);
}

#[test]
fn ranks_in_any_order() {
    let mut parts = Parts::new();
    let expected = Text::new(parts.whole());
    // 7 and 320 have no common factor.
    parts.vocab = (0..320).map(|i| parts.vocab[i * 7 % 320].clone()).collect();
    let text = Text::new(parts.whole());
    assert!((1000..1300).all(|id| text.bytes(id) == expected.bytes(id)));
}

#[test]
fn special_ids_by_name_and_their_fall_backs() {
    let ids = |parts: &Parts| parts.parse().map(|v| [v.bos, v.eos, v.streaming_pad, v.streaming_word]);
    let mut parts = Parts::new();
    assert_eq!(ids(&parts), Ok([1, 2, 32, 33]));
    // Another file may have them elsewhere.
    parts.specials[32]["rank"] = json!(39);
    parts.specials[39]["rank"] = json!(32);
    assert_eq!(ids(&parts), Ok([1, 2, 39, 33]));
    // No list, an empty one, one without the names.
    for specials in [
        json!(null),
        json!([]),
        json!([{"rank": 5, "token_str": "[IMG]", "is_control": true}]),
    ] {
        parts.specials = specials;
        assert_eq!(ids(&parts), Ok([1, 2, 32, 33]));
    }
    let without = Vocabulary::parse(&parts.file(&[3, 1, 0])).unwrap();
    assert_eq!(
        [without.bos, without.eos, without.streaming_pad, without.streaming_word],
        [1, 2, 32, 33]
    );

    parts.specials = json!([{"rank": 5, "token_str": "</s>"}, {"rank": 6, "token_str": "</s>"}]);
    assert!(matches!(ids(&parts), Err(Error::DuplicateSpecial { name: "</s>", .. })));
    parts.specials = json!([{"rank": 1000, "token_str": "[STREAMING_PAD]"}]);
    let error = Error::SpecialOutOfRange {
        name: "[STREAMING_PAD]",
        id: 1000,
        n_special: 1000,
    };
    assert_eq!(ids(&parts), Err(error));
    parts.specials = json!([{"rank": 33, "token_str": "[STREAMING_PAD]"}]);
    let error = Error::SharedSpecial {
        name: "[STREAMING_WORD]",
        other: "[STREAMING_PAD]",
        id: 33,
    };
    assert_eq!(ids(&parts), Err(error));
    for (specials, key) in [
        (json!([{"token_str": "x"}]), "special_tokens[].rank"),
        (json!([{"rank": 3}]), "special_tokens[].token_str"),
        (json!([{"rank": -3, "token_str": "x"}]), "special_tokens[].rank"),
        (json!([{"rank": 1u64 << 32, "token_str": "x"}]), "special_tokens[].rank"),
        (json!([{"rank": 3, "token_str": null}]), "special_tokens[].token_str"),
        (json!([[]]), "special_tokens[]"),
        (json!({"a": []}), "special_tokens"),
        (json!("a"), "special_tokens"),
    ] {
        parts.specials = specials;
        let error = parts.parse().unwrap_err();
        assert!(error.to_string().starts_with(&format!("{key} ")), "{error}");
    }
}

#[test]
fn the_audio_block() {
    let parts = Parts::new();
    let with = |key: &str, value: Value| {
        let mut parts = parts.clone();
        *parts.audio.pointer_mut(key).unwrap() = value;
        parts.parse()
    };
    let timing = |v: Vocabulary| (v.delay_tokens, v.left_pad_tokens);
    assert_eq!(with("/transcription_delay_ms", json!(80)).map(timing), Ok((1, 32)));
    assert_eq!(with("/transcription_delay_ms", json!(2400)).map(timing), Ok((30, 32)));
    assert_eq!(with("/transcription_delay_ms", json!(null)).map(timing), Ok((6, 32)));
    assert_eq!(with("/streaming_n_left_pad_tokens", json!(16)).map(timing), Ok((6, 16)));
    assert_eq!(with("/streaming_n_left_pad_tokens", json!(0)).map(timing), Ok((6, 0)));
    assert_eq!(with("/audio_encoding_config", json!(null)).map(timing), Ok((6, 32)));
    assert_eq!(with("/transcription_format", json!(null)).map(timing), Ok((6, 32)));
    // No block: the defaults of the published file.
    let mut without = parts.clone();
    for audio in [json!(null), json!({})] {
        without.audio = audio;
        assert_eq!(without.parse().map(timing), Ok((6, 32)));
    }
    assert_eq!(Vocabulary::parse(&parts.file(&[0, 1, 2])).map(timing), Ok((6, 32)));

    let wrong = [
        (
            "/transcription_delay_ms",
            json!(100),
            "must be a multiple of the length of an audio token (80), but is 100",
        ),
        (
            "/transcription_delay_ms",
            json!(0),
            "must be an integer from 80 to 2400, but is 0",
        ),
        (
            "/transcription_delay_ms",
            json!(2480),
            "must be an integer from 80 to 2400, but is 2480",
        ),
        (
            "/transcription_delay_ms",
            json!(480.5),
            "must be an integer from 80 to 2400, but is 480.5",
        ),
        (
            "/streaming_n_left_pad_tokens",
            json!(-1),
            "must be an integer from 0 to 1024, but is -1.0",
        ),
        (
            "/streaming_n_left_pad_tokens",
            json!(1025),
            "must be an integer from 0 to 1024, but is 1025",
        ),
        ("/sampling_rate", json!(24000), "must be 16000, but is 24000"),
        ("/frame_rate", json!(25), "must be 12.5, but is 25"),
        (
            "/audio_encoding_config/num_mel_bins",
            json!(80),
            "must be 128, but is 80",
        ),
        (
            "/audio_encoding_config/hop_length",
            json!(200),
            "must be 160, but is 200",
        ),
        (
            "/audio_encoding_config/window_size",
            json!("400"),
            "must be 400, but is \"400\"",
        ),
        ("/audio_encoding_config", json!(4), "must be an object, but is 4"),
        (
            "/transcription_format",
            json!("instruct"),
            "must be \"streaming\", but is \"instruct\"",
        ),
    ];
    for (key, value, line) in wrong {
        let error = with(key, value).unwrap_err().to_string();
        let expected = format!("audio{} {line} (at byte ", key.replace('/', "."));
        assert!(error.starts_with(&expected), "{error}\n{expected}");
    }
}

#[test]
fn the_sizes() {
    let parts = Parts::new();
    let with = |key: &str, value: Value| {
        let mut parts = parts.clone();
        parts.config[key] = value;
        parts.parse()
    };
    let two = with("default_num_special_tokens", json!(40)).unwrap();
    assert_eq!((two.n_special, two.vocab_size, two.index_len()), (40, 1300, 1260));
    for (key, value) in [
        ("default_num_special_tokens", json!(0)),
        ("default_num_special_tokens", json!(null)),
        ("default_num_special_tokens", json!("1000")),
        ("default_vocab_size", json!(1000)),
        ("default_vocab_size", json!(-1)),
        ("default_vocab_size", json!(1 << 25)),
        ("default_vocab_size", json!(131_072.5)),
    ] {
        let error = with(key, value.clone()).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("config.{key} must be an integer from ")),
            "{value}: {error}"
        );
    }
    for (order, line) in [
        (&[1, 2, 3][..], "config is missing"),
        (&[0, 2, 3], "vocab is missing"),
        (&[0, 1, 1], "vocab stands there a second time at byte "),
        (&[0, 1, 0], "config stands there a second time at byte "),
        (&[2, 1, 2, 0], "special_tokens stands there a second time at byte "),
        (&[3, 1, 3, 0], "audio stands there a second time at byte "),
    ] {
        let error = Vocabulary::parse(&parts.file(order)).unwrap_err().to_string();
        assert!(error.starts_with(line), "{error}");
    }
    let mut parts = parts.clone();
    parts.config.as_object_mut().unwrap().remove("default_vocab_size");
    let missing = FieldError::Missing {
        key: "config.default_vocab_size",
    };
    assert_eq!(parts.parse(), Err(Error::Field(missing)));
    for file in [
        &br#"{"config": {}, "vocab": {}}"#[..],
        br#"{"vocab": null, "config": {}}"#,
    ] {
        let error = Vocabulary::parse(file).unwrap_err().to_string();
        assert!(error.starts_with("vocab must be an array, but is "), "{error}");
    }
}

#[test]
fn overhanging_ranks_are_ignored() {
    let mut parts = Parts::new();
    // Whatever they say, and though they come twice.
    parts.vocab[300] = json!({"rank": 300, "token_bytes": "not base64", "token_str": null});
    parts.vocab.insert(0, json!({"rank": 300, "token_bytes": ""}));
    parts.vocab.push(json!({"rank": u32::MAX, "token_bytes": "AA=="}));
    let text = Text::new(parts.whole());
    assert_eq!(text.bytes(1299), Ok(b" w299".to_vec()));
    assert!(matches!(text.bytes(1300), Err(Error::NoSuchId { .. })));
    assert_eq!(text.offsets.len(), 300);
}

#[test]
fn wrong_entries_are_named() {
    let parts = Parts::new();
    let with = |edit: &dyn Fn(&mut Vec<Value>)| {
        let mut parts = parts.clone();
        edit(&mut parts.vocab);
        parts.index().unwrap_err()
    };
    let error = with(&|vocab| drop(vocab.remove(299)));
    assert_eq!(error, Error::MissingRank { rank: 299, usable: 300 });
    assert_eq!(
        error.to_string(),
        "vocab lacks rank 299, but must have every rank below 300"
    );
    assert_eq!(
        with(&|vocab| drop(vocab.remove(0))),
        Error::MissingRank { rank: 0, usable: 300 }
    );
    assert_eq!(
        with(&|vocab| vocab.clear()),
        Error::MissingRank { rank: 0, usable: 300 }
    );
    let error = with(&|vocab| vocab[280] = vocab[279].clone());
    assert!(matches!(error, Error::DuplicateRank { rank: 279, .. }), "{error}");
    for bad in [
        "A", "AA", "AAA", "AA=", "AAAAA", "AA==AA==", "A===", "====", "AB==", "AAB=", "A A=", "A-A_", "AA=A", "AAAé",
    ] {
        let error = with(&|vocab| vocab[270]["token_bytes"] = json!(bad));
        assert!(matches!(error, Error::Base64 { rank: 270, .. }), "{bad}: {error}");
    }
    for (rank, bad) in [
        (65, ""),
        (65, "AA=="),
        (65, "QUE="),
        (0, "AQ=="),
        (255, "/v8="),
        (255, "AA=="),
    ] {
        let error = with(&|vocab| vocab[rank]["token_bytes"] = json!(bad));
        assert!(
            matches!(error, Error::NotTheByte { rank: found, .. } if found as usize == rank),
            "{bad}: {error}"
        );
    }
    for (edit, line) in [
        (json!({"token_bytes": "AA=="}), "vocab[].rank is missing"),
        (json!({"rank": 3}), "vocab[].token_bytes is missing"),
        (
            json!({"rank": 3, "token_bytes": null}),
            "vocab[].token_bytes must be a string, but is null",
        ),
        (
            json!({"rank": "3", "token_bytes": "AA=="}),
            "vocab[].rank must be an integer from 0 to 4294967295, but is \"3\"",
        ),
        (
            json!({"rank": 1u64 << 32, "token_bytes": "AA=="}),
            "vocab[].rank must be an integer",
        ),
        (json!(7), "vocab[] must be an object, but is 7"),
    ] {
        let error = with(&|vocab| vocab[270] = edit.clone()).to_string();
        assert!(error.starts_with(line), "{error}");
    }
    let text = String::from_utf8(parts.whole()).unwrap();
    let text = text.replacen("\"rank\":5,", "\"rank\":5,\"rank\":6,", 1);
    let vocabulary = Vocabulary::parse(text.as_bytes()).unwrap();
    let error = vocabulary.index(text.as_bytes(), &mut [0; 300]).unwrap_err();
    match error {
        // Told from the start of the file, not of the entry.
        Error::Field(FieldError::Duplicate {
            key: "vocab[].rank",
            offset,
        }) => assert!(text[offset..].starts_with("\"rank\":6,")),
        _ => panic!("{error}"),
    }
    // An empty piece is odd but does no harm.
    let mut parts = parts.clone();
    parts.vocab[270]["token_bytes"] = json!("");
    assert_eq!(Text::new(parts.whole()).bytes(1270), Ok(vec![]));
}

#[test]
fn the_place_of_a_wrong_piece_is_told() {
    let mut parts = Parts::new();
    parts.vocab[270]["token_bytes"] = json!("?!?!");
    match parts.index() {
        Err(Error::Base64 { rank: 270, offset }) => assert_eq!(&parts.whole()[offset..offset + 4], b"?!?!"),
        other => panic!("{other:?}"),
    }
}

/// A file that was overwritten after it was parsed: the error's place is told from the start of the file.
#[test]
fn the_place_of_damage_is_told() {
    let mut file = Parts::new().whole();
    let vocabulary = Vocabulary::parse(&file).unwrap();
    let at = file.windows(11).position(|bytes| bytes == b"\"rank\":200,").unwrap();
    file[at + 7..at + 10].copy_from_slice(b"0x1");
    match vocabulary.index(&file, &mut [0; 300]) {
        Err(Error::Field(FieldError::Json(error))) => assert_eq!(&file[error.offset..error.offset + 2], b"x1"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_storage_must_suffice() {
    let file = Parts::new().whole();
    let vocabulary = Vocabulary::parse(&file).unwrap();
    assert_eq!(
        vocabulary.index(&file, &mut [0; 299]),
        Err(Error::Storage {
            needed: 300,
            found: 299
        })
    );
    // More is as good, and stays as it was.
    let mut offsets = [9; 310];
    assert_eq!(vocabulary.index(&file, &mut offsets), Ok(()));
    assert_eq!(offsets[300..], [9; 10]);
}

#[test]
fn a_lazy_index_equals_one_built_at_once() {
    let expected = Text::new(Parts::new().whole());
    let (file, vocabulary) = (&expected.file, &expected.vocabulary);
    for budget in [1, 2, 7, 319, 320, 321, usize::MAX] {
        let mut offsets = vec![0xDEAD; 300];
        let mut progress = IndexProgress::default();
        let mut steps = 0;
        while !vocabulary
            .index_step(file, &mut offsets, &mut progress, budget)
            .unwrap()
        {
            steps += 1;
            assert!(!progress.is_complete());
            // What has been read can be asked for, and nothing else.
            for rank in 0..300 {
                let piece = vocabulary.piece(file, &offsets, rank + N_SPECIAL);
                if (rank as usize) < steps * budget {
                    assert!(piece.unwrap().eq(plain_bytes(rank)));
                } else {
                    assert_eq!(piece.unwrap_err(), Error::NotIndexed { id: rank + N_SPECIAL });
                }
            }
        }
        assert_eq!(steps, 320 / budget, "{budget}");
        assert!(progress.is_complete());
        assert_eq!(offsets, expected.offsets);
        assert_eq!(vocabulary.index_step(file, &mut offsets, &mut progress, 0), Ok(true));
    }
    // No budget, no progress, but a beginning: the storage is set up.
    let (mut offsets, mut progress) = ([5; 300], IndexProgress::default());
    assert_eq!(vocabulary.index_step(file, &mut offsets, &mut progress, 0), Ok(false));
    assert!(vocabulary.piece(file, &offsets, 1000).is_err());
}

#[test]
fn an_error_repeats_and_changes_nothing() {
    let mut parts = Parts::new();
    parts.vocab[100]["token_bytes"] = json!("=");
    let file = parts.whole();
    let vocabulary = Vocabulary::parse(&file).unwrap();
    let (mut offsets, mut progress) = ([0; 300], IndexProgress::default());
    let first = vocabulary
        .index_step(&file, &mut offsets, &mut progress, 1000)
        .unwrap_err();
    let (before, there) = (offsets, progress);
    assert_eq!(
        vocabulary.index_step(&file, &mut offsets, &mut progress, 1000),
        Err(first)
    );
    assert_eq!((offsets, progress), (before, there));
}

#[test]
fn every_prefix_of_a_file_is_refused() {
    let file = read("tests/goldens/variant_A/model/tekken.json");
    let end = file.iter().rposition(|&byte| byte == b'}').unwrap();
    for len in (0..=end).step_by(97).chain(end - 50..=end) {
        assert!(
            matches!(Vocabulary::parse(&file[..len]), Err(Error::Field(FieldError::Json(_)))),
            "{len}"
        );
    }
}

/// A file that shrank or changed after it was parsed: an error or other text, nothing worse.
#[test]
fn another_file_does_no_harm() {
    let text = Text::new(Parts::new().whole());
    for len in 0..text.file.len().min(3000) {
        let cut = &text.file[..len];
        assert!(text.vocabulary.index(cut, &mut [0; 300]).is_err());
        for id in [1000, 1255, 1299] {
            let _ = text.vocabulary.piece(cut, &text.offsets, id).map(Iterator::count);
        }
    }
    assert!(text.vocabulary.piece(&text.file, &[], 1000).is_err());
    let anywhere: Vec<u32> = (1..=300).map(|i| i * 37).collect();
    for id in 1000..1300 {
        let _ = text.vocabulary.piece(&text.file, &anywhere, id).map(Iterator::count);
    }
}

/// As many entries as the published file has, and about as long, written with line breaks as it may be.
#[test]
fn full_size_file_and_its_times() {
    let parts = Parts::new();
    let mut file = String::with_capacity(20 << 20);
    file.push_str("{\n \"config\": {\"num_vocab_tokens\": 150000, \"default_vocab_size\": 131072, ");
    file.push_str("\"default_num_special_tokens\": 1000},\n \"vocab\": [");
    for rank in 0..150_000 {
        let comma = if rank > 0 { "," } else { "" };
        let bytes = plain_bytes(rank);
        let string = Value::from(std::str::from_utf8(&bytes).ok());
        let base64 = base64(&bytes);
        write!(
            file,
            "{comma}\n  {{\n   \"rank\": {rank},\n   \"token_bytes\": \"{base64}\",\n   \"token_str\": {string}\n  }}"
        )
        .unwrap();
    }
    write!(
        file,
        "\n ],\n \"special_tokens\": {},\n \"audio\": {}\n}}\n",
        parts.specials, parts.audio
    )
    .unwrap();
    let file = file.into_bytes();

    let begin = Instant::now();
    let vocabulary = Vocabulary::parse(&file).unwrap();
    let parsed = begin.elapsed();
    assert_eq!((vocabulary.vocab_size, vocabulary.index_len()), (131_072, 130_072));
    let mut offsets = vec![0; vocabulary.index_len()];
    let begin = Instant::now();
    vocabulary.index(&file, &mut offsets).unwrap();
    let indexed = begin.elapsed();
    println!("{} bytes: parsed in {parsed:?}, indexed in {indexed:?}", file.len());
    for rank in (0..130_072).step_by(997).chain([130_071]) {
        assert!(
            vocabulary
                .piece(&file, &offsets, rank + N_SPECIAL)
                .unwrap()
                .eq(plain_bytes(rank))
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(256), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_end_in_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Vocabulary::parse(&bytes).is_err());
    }

    /// A small file with some bytes exchanged for bytes that mean something to JSON or base64.
    #[test]
    fn damaged_bytes_end_in_an_answer(
        edits in proptest::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(&b"{}[]\":,\\/0-9.eEu=A\x00\xff "[..])), 1..6,
        ),
    ) {
        let mut parts = Parts::new();
        parts.specials = json!([{"rank": 1, "token_str": "<s>"}]);
        let mut file = parts.whole();
        for (index, byte) in edits {
            let at = index.index(file.len());
            file[at] = byte;
        }
        if let Ok(vocabulary) = Vocabulary::parse(&file) {
            if vocabulary.index_len() < 1 << 20 {
                let mut offsets = vec![0; vocabulary.index_len()];
                let complete = vocabulary.index(&file, &mut offsets).is_ok();
                for id in 0..vocabulary.vocab_size {
                    let piece = vocabulary.piece(&file, &offsets, id).map(Iterator::count);
                    prop_assert!(piece.is_ok() || !complete);
                }
            }
        }
    }

    /// Entries exchanged, repeated, taken away and of any content, and any sizes: what is accepted is read as others
    /// read it, and the index is the same at once and step by step.
    #[test]
    fn any_entries_and_sizes(
        edits in proptest::collection::vec(
            (0..8u8, any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u16>()), 0..4,
        ),
        order in Just([0, 1, 2, 3]).prop_shuffle(),
    ) {
        let mut parts = Parts::new();
        parts.specials = json!([{"rank": 1, "token_str": "<s>"}, {"rank": 2, "token_str": "</s>"}]);
        for (kind, place, with, number) in edits {
            let n = parts.vocab.len();
            let (place, with) = (place.index(n), with.index(n));
            match kind {
                0 => parts.vocab.swap(place, with),
                1 => drop(parts.vocab.remove(place)),
                2 => parts.vocab[place] = parts.vocab[with].clone(),
                3 => parts.vocab[place]["rank"] = json!(with),
                4 => parts.vocab[place] = entry(place as u32, &number.to_be_bytes()),
                5 => parts.vocab[place]["token_bytes"] = json!(base64(&number.to_le_bytes())),
                6 => parts.config["default_vocab_size"] = json!(1001 + place + usize::from(number % 3)),
                _ => {
                    let key = ["rank", "token_str"][place % 2];
                    parts.specials[with % 2][key] = json!(number);
                }
            }
        }
        voxtral_tests::fuzzing::tekken(&parts.file(&order));
    }

    /// Any bytes survive base64 and the way back.
    #[test]
    fn any_piece_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let mut parts = Parts::new();
        parts.vocab[290] = entry(290, &bytes);
        prop_assert_eq!(Text::new(parts.whole()).bytes(1290), Ok(bytes));
    }
}
