//! A `tekken.json`.

use serde_json::Value;
use voxtral_core::format::tekken::{IndexProgress, Vocabulary};
use voxtral_core::format::utf8::Utf8Joiner;

use super::one_line;

/// Stands, in what the fuzzer gives, for the 256 entries without which no vocabulary is whole: 8 kB that it need not
/// find. No JSON text has this byte.
const SINGLE_BYTES: u8 = 0x01;
/// Vocabularies beyond this are only parsed: their index alone would take most of the time.
const MOST_IDS: usize = 4096;

/// The pieces as `serde_json` and a plain base64 decoder read them, whether the index is built at once or entry by
/// entry.
pub fn tekken(data: &[u8]) {
    let file = expanded(data);
    let vocabulary = match Vocabulary::parse(&file) {
        Ok(vocabulary) => vocabulary,
        Err(error) => return one_line(&error),
    };
    let json: Value = serde_json::from_slice(&file).expect("accepted here, so it is JSON");
    let len = vocabulary.index_len();
    assert_eq!(
        json["config"]["default_vocab_size"].as_f64(),
        Some(f64::from(vocabulary.vocab_size))
    );
    if len > MOST_IDS {
        return;
    }
    let mut offsets = vec![u32::MAX; len];
    let whole = vocabulary.index(&file, &mut offsets);

    let (mut one_by_one, mut progress) = (vec![7; len], IndexProgress::default());
    let stepwise = loop {
        match vocabulary.index_step(&file, &mut one_by_one, &mut progress, 1) {
            Ok(false) => {}
            Ok(true) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    assert_eq!((whole, &one_by_one), (stepwise, &offsets));
    if let Err(error) = whole {
        one_line(&error);
    }

    let mut expected = vec![None; len];
    for entry in json["vocab"].as_array().expect("accepted here").iter() {
        let rank = entry["rank"].as_f64().map(|rank| rank as usize);
        if let (Some(place), Some(text)) = (rank.and_then(|r| expected.get_mut(r)), entry["token_bytes"].as_str()) {
            // With an index that was not finished the first of two entries stands.
            place.get_or_insert(text);
        }
    }
    let mut joiner = Utf8Joiner::new();
    for id in 0..vocabulary.vocab_size.saturating_add(1) {
        let Ok(piece) = vocabulary.piece(&file, &offsets, id) else {
            assert!(whole.is_err() || id == vocabulary.vocab_size);
            continue;
        };
        let bytes: Vec<u8> = piece.collect();
        match id.checked_sub(vocabulary.n_special) {
            Some(rank) => {
                let text = expected[rank as usize].expect("an entry of this rank");
                assert_eq!(Some(&bytes), base64(text).as_ref(), "{text:?}");
            }
            None => assert!(bytes.is_empty()),
        }
        for byte in bytes {
            joiner.push(byte).for_each(drop);
            assert!(joiner.held() < 4);
        }
    }
}

/// The file that is meant by what the fuzzer gave.
pub fn expanded(data: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(data.len() + (1 << 14));
    let mut written = false;
    for &byte in data {
        if byte != SINGLE_BYTES || written {
            file.push(byte);
            continue;
        }
        written = true;
        for rank in 0..=255u8 {
            let comma = if rank > 0 { "," } else { "" };
            let entry = format!(r#"{comma}{{"rank":{rank},"token_bytes":"{}"}}"#, encoded(rank));
            file.extend(entry.bytes());
        }
    }
    file
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn encoded(byte: u8) -> String {
    let symbol = |bits: u8| char::from(ALPHABET[usize::from(bits)]);
    format!("{}{}==", symbol(byte >> 2), symbol(byte << 4 & 63))
}

/// The bytes of base64 with its padding; `None` for anything else.
fn base64(text: &str) -> Option<Vec<u8>> {
    let symbols = text.trim_end_matches('=');
    if text.len() % 4 != 0 || text.len() - symbols.len() > 2 {
        return None;
    }
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for symbol in symbols.bytes() {
        let value = ALPHABET.iter().position(|&of_value| of_value == symbol)? as u32;
        (bits, count) = (bits << 6 | value, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}
