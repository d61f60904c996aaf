//! Ids to text: the goldens' texts, D9 (split characters) and D10 (special ids) of the case tables, and the law that
//! the text is that of the joined bytes, however they were cut.

mod tekken;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};
use tekken::{N_SPECIAL, Parts, Text, entry, hex, plain_bytes, read, read_json, root};
use voxtral_core::format::tekken::Error;
use voxtral_core::format::utf8::Utf8Joiner;
use voxtral_tests::random::cases;

fn ids(value: &Value) -> Vec<u32> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap() as u32)
        .collect()
}

/// The real vocabulary's pieces, with fillers for the ranks the cases do not use.
fn real_pieces(goldens: &Value) -> Vec<u8> {
    let pieces: BTreeMap<u32, Vec<u8>> = goldens["pieces_hex"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(id, bytes)| (id.parse().unwrap(), hex(bytes.as_str().unwrap())))
        .collect();
    let config = &goldens["config"];
    assert_eq!(
        (&config["default_vocab_size"], &config["default_num_special_tokens"]),
        (&json!(131_072), &json!(1000))
    );
    let entries = goldens["vocab_entries"].as_u64().unwrap() as u32;
    let mut file = format!("{{\"config\":{config},\"vocab\":[");
    for rank in 0..entries {
        let bytes = pieces
            .get(&(rank + N_SPECIAL))
            .cloned()
            .unwrap_or_else(|| plain_bytes(rank));
        let comma = if rank > 0 { "," } else { "" };
        write!(file, "{comma}{}", entry(rank, &bytes)).unwrap();
    }
    file.push_str("]}");
    file.into_bytes()
}

#[test]
fn golden_texts_of_the_real_vocabulary() {
    let goldens = read_json("tests/goldens/tekken_decode.json");
    let text = Text::new(real_pieces(&goldens));
    let cases = goldens["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 29);
    for case in cases {
        let ids = ids(&case["ids"]);
        assert_eq!(text.all_bytes(&ids), hex(case["bytes_hex"].as_str().unwrap()), "{case}");
        let joined = case.get("text").unwrap_or(&case["text_joined_bytes_utf8_lossy"]);
        assert_eq!(text.joined(&ids), joined.as_str().unwrap(), "{case}");
        let runs = case.get("text").unwrap_or(&case["text_mistral_common"]);
        assert_eq!(text.runs(&ids), runs.as_str().unwrap(), "{case}");
    }
}

#[test]
fn golden_texts_of_every_run() {
    let mut seen = 0;
    for variant in ["A", "B", "C", "D", "E"] {
        let directory = format!("tests/goldens/variant_{variant}");
        let text = Text::new(read(&format!("{directory}/model/tekken.json")));
        for case in std::fs::read_dir(root().join(&directory)).unwrap() {
            let path = case.unwrap().path().join("run.json");
            let Ok(run) = std::fs::read(&path) else { continue };
            let run: Value = serde_json::from_slice(&run).unwrap();
            let ids = ids(&run["tokens"]);
            let path = path.display();
            assert_eq!(
                text.all_bytes(&ids),
                hex(run["text_bytes_hex"].as_str().unwrap()),
                "{path}"
            );
            assert_eq!(
                text.joined(&ids),
                run["text_joined_bytes_utf8_lossy"].as_str().unwrap(),
                "{path}"
            );
            assert_eq!(
                text.runs(&ids),
                run["text_mistral_common_runs"].as_str().unwrap(),
                "{path}"
            );
            seen += 1;
        }
    }
    assert_eq!(seen, 12);
}

#[test]
fn d9_split_characters() {
    let mut parts = Parts::new();
    parts.vocab[256] = entry(256, b" \xF0\x9F");
    parts.vocab[257] = entry(257, b"\x98\x80!");
    let text = Text::new(parts.whole());
    let id = |rank: u32| rank + N_SPECIAL;

    // Held back until whole, and whole characters only.
    let mut joiner = Utf8Joiner::new();
    let mut released = |id: u32| -> String {
        text.bytes(id)
            .unwrap()
            .into_iter()
            .flat_map(|byte| joiner.push(byte))
            .collect()
    };
    assert_eq!(released(id(256)), " ");
    assert_eq!(released(32), "");
    assert_eq!(released(id(257)), "😀!");
    assert_eq!(released(id(0xE2)), "");
    assert_eq!(released(id(0x82)), "");
    assert_eq!(released(id(0xAC)), "€");
    // A lone 0xFF is shown at once, since nothing that follows can mend it.
    assert_eq!(released(id(0xFF)), "\u{FFFD}");
    assert_eq!(released(id(b'A'.into())), "A");
    // A tail that never becomes whole: one U+FFFD, at the end.
    assert_eq!(released(id(0xF0)), "");
    assert_eq!(released(id(0x9F)), "");
    assert_eq!(joiner.held(), 2);
    assert_eq!(joiner.finish(), Some('\u{FFFD}'));
    assert_eq!((joiner.held(), joiner.finish()), (0, None));

    assert_eq!(text.joined(&[id(0xE2), id(0x82), 33, id(0xAC)]), "€");
    assert_eq!(text.runs(&[id(0xE2), id(0x82), 33, id(0xAC)]), "\u{FFFD}\u{FFFD}");
}

#[test]
fn d10_special_ids() {
    let text = Text::new(Parts::new().whole());
    for id in [0, 1, 2, 32, 33, 999] {
        assert_eq!(text.bytes(id), Ok(vec![]), "{id}");
    }
    assert_eq!(text.bytes(1000), Ok(vec![0]));
    assert_eq!(text.joined(&[1065, 1000, 1066]), "A\0B");
    assert_eq!(text.bytes(1299), Ok(b" w299".to_vec()));
    for id in [1300, 1319, 1320, u32::MAX] {
        let error = text.bytes(id).unwrap_err();
        assert_eq!(error, Error::NoSuchId { id, vocab_size: 1300 });
        assert_eq!(
            error.to_string(),
            format!("id {id} is past the vocabulary, whose ids are below 1300")
        );
    }
}

/// Bytes that make many, few and broken characters.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let edges = prop::sample::select(
        &b"\x00A\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xEC\xED\xEE\xEF\xF0\xF1\xF3\xF4\xF5\xFF"[..],
    );
    let text = any::<char>().prop_map(|c| c.to_string().into_bytes());
    let part = prop_oneof![
        text,
        edges.prop_map(|byte| vec![byte]),
        any::<u8>().prop_map(|byte| vec![byte])
    ];
    proptest::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

/// Every string of two bytes with every third byte that makes a difference, and all of four such bytes.
#[test]
fn joined_text_equals_the_lossy_text_exhaustively() {
    let check = |bytes: &[u8]| {
        let mut joiner = Utf8Joiner::new();
        let mut text = String::new();
        for &byte in bytes {
            text.extend(joiner.push(byte));
        }
        text.extend(joiner.finish());
        assert_eq!(text, String::from_utf8_lossy(bytes), "{bytes:x?}");
    };
    let edges = b"\x00\x41\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xEC\xED\xEE\xEF\xF0\xF1\xF3\xF4\xF5\xFF";
    for a in 0..=255 {
        check(&[a]);
        for b in 0..=255 {
            check(&[a, b]);
            for &c in edges {
                check(&[a, b, c]);
                if edges.contains(&a) && edges.contains(&b) {
                    edges.iter().for_each(|&d| check(&[a, b, c, d]));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(256),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// However the bytes are cut, the text is that of the whole; and each part given out is whole characters, with
    /// no more than three bytes behind.
    #[test]
    fn joined_text_equals_the_lossy_text(bytes in bytes(), cuts in proptest::collection::vec(0usize..7, 1..20)) {
        let mut joiner = Utf8Joiner::new();
        let mut text = String::new();
        let mut rest = &bytes[..];
        let mut given = 0;
        for cut in cuts.iter().cycle().take(bytes.len() * cuts.len() + 1) {
            let (piece, behind) = rest.split_at((*cut).min(rest.len()));
            rest = behind;
            given += piece.len();
            for &byte in piece {
                let released = joiner.push(byte);
                let (least, most) = released.size_hint();
                prop_assert_eq!(Some(least), most);
                prop_assert_eq!(released.clone().count(), least);
                text.extend(released);
            }
            // The text so far is that of all bytes but the tail held back.
            prop_assert!(joiner.held() <= 3);
            prop_assert_eq!(&*text, &*String::from_utf8_lossy(&bytes[..given - joiner.held()]));
        }
        for &byte in rest {
            text.extend(joiner.push(byte));
        }
        text.extend(joiner.finish());
        prop_assert_eq!(joiner, Utf8Joiner::new());
        prop_assert_eq!(&*text, &*String::from_utf8_lossy(&bytes));
    }
}
