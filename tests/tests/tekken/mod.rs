//! `tekken.json` files made to order, and the text of ids by way of a whole index.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use voxtral_core::format::tekken::{Error, Vocabulary};
use voxtral_core::format::utf8::Utf8Joiner;

pub const N_SPECIAL: u32 = 1000;

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub fn read(path: &str) -> Vec<u8> {
    let path = root().join(path);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn read_json(path: &str) -> Value {
    serde_json::from_slice(&read(path)).unwrap()
}

pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut bits = [0; 3];
        bits[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from(bits[0]) << 16 | u32::from(bits[1]) << 8 | u32::from(bits[2]);
        for i in 0..4 {
            let symbol = ALPHABET[(bits >> (18 - 6 * i)) as usize & 63];
            text.push(if i <= chunk.len() { char::from(symbol) } else { '=' });
        }
    }
    text
}

pub fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect()
}

pub fn entry(rank: u32, bytes: &[u8]) -> Value {
    json!({"rank": rank, "token_bytes": base64(bytes), "token_str": std::str::from_utf8(bytes).ok()})
}

/// The single bytes, and one piece of its own for each further rank.
pub fn plain_bytes(rank: u32) -> Vec<u8> {
    match u8::try_from(rank) {
        Ok(byte) => vec![byte],
        Err(_) => format!(" w{rank}").into_bytes(),
    }
}

/// The parts of a small file in the published layout: 300 ids with text, 20 ranks beyond them.
#[derive(Clone)]
pub struct Parts {
    pub config: Value,
    pub vocab: Vec<Value>,
    pub specials: Value,
    pub audio: Value,
}

impl Parts {
    pub fn new() -> Self {
        let specials: Vec<_> = (0..N_SPECIAL)
            .map(|rank| {
                let name = match rank {
                    0 => "<unk>".to_owned(),
                    1 => "<s>".to_owned(),
                    2 => "</s>".to_owned(),
                    32 => "[STREAMING_PAD]".to_owned(),
                    33 => "[STREAMING_WORD]".to_owned(),
                    _ => format!("<SPECIAL_{rank}>"),
                };
                json!({"rank": rank, "token_str": name, "is_control": true})
            })
            .collect();
        Self {
            config: json!({
                "pattern": "[^\\r\\n\\p{L}\\p{N}]?\\s+(?!\\S)|\\s+", "num_vocab_tokens": 320,
                "default_vocab_size": 1300, "default_num_special_tokens": N_SPECIAL, "version": "v7",
            }),
            vocab: (0..320).map(|rank| entry(rank, &plain_bytes(rank))).collect(),
            specials: specials.into(),
            audio: json!({
                "sampling_rate": 16000, "frame_rate": 12.5,
                "audio_encoding_config": {"num_mel_bins": 128, "hop_length": 160, "window_size": 400},
                "transcription_delay_ms": 480, "streaming_look_ahead_ms": 2.5, "streaming_look_back_ms": 52.5,
                "streaming_n_left_pad_tokens": 32, "transcription_format": "streaming",
            }),
        }
    }

    pub fn members(&self) -> [(&'static str, Value); 4] {
        [
            ("config", self.config.clone()),
            ("vocab", self.vocab.clone().into()),
            ("special_tokens", self.specials.clone()),
            ("audio", self.audio.clone()),
        ]
    }

    /// The file, its members in the order of `order` (indices of those above; not all need be there).
    pub fn file(&self, order: &[usize]) -> Vec<u8> {
        let members = self.members();
        let members: Vec<_> = order
            .iter()
            .map(|&i| format!("\"{}\": {}", members[i].0, members[i].1))
            .collect();
        format!("{{{}}}", members.join(", ")).into_bytes()
    }

    pub fn whole(&self) -> Vec<u8> {
        self.file(&[0, 1, 2, 3])
    }

    pub fn parse(&self) -> Result<Vocabulary, Error> {
        Vocabulary::parse(&self.whole())
    }

    pub fn index(&self) -> Result<(), Error> {
        let file = self.whole();
        let vocabulary = Vocabulary::parse(&file)?;
        vocabulary.index(&file, &mut vec![7; vocabulary.index_len()])
    }
}

/// A parsed file with its index.
pub struct Text {
    pub file: Vec<u8>,
    pub vocabulary: Vocabulary,
    pub offsets: Vec<u32>,
}

impl Text {
    pub fn new(file: Vec<u8>) -> Self {
        let vocabulary = Vocabulary::parse(&file).unwrap();
        // Whatever the storage held before must not matter.
        let mut offsets = vec![u32::MAX; vocabulary.index_len()];
        vocabulary.index(&file, &mut offsets).unwrap();
        Self {
            file,
            vocabulary,
            offsets,
        }
    }

    pub fn bytes(&self, id: u32) -> Result<Vec<u8>, Error> {
        Ok(self.vocabulary.piece(&self.file, &self.offsets, id)?.collect())
    }

    pub fn all_bytes(&self, ids: &[u32]) -> Vec<u8> {
        ids.iter().flat_map(|&id| self.bytes(id).unwrap()).collect()
    }

    /// Bytes joined across control ids.
    pub fn joined(&self, ids: &[u32]) -> String {
        let mut joiner = Utf8Joiner::new();
        let mut text = String::new();
        for &id in ids {
            for byte in self.bytes(id).unwrap() {
                text.extend(joiner.push(byte));
            }
        }
        text.extend(joiner.finish());
        text
    }

    /// Each run of text ids by itself, as mistral-common does.
    pub fn runs(&self, ids: &[u32]) -> String {
        let mut joiner = Utf8Joiner::new();
        let mut text = String::new();
        for &id in ids {
            if id < self.vocabulary.n_special {
                text.extend(joiner.finish());
            }
            for byte in self.bytes(id).unwrap() {
                text.extend(joiner.push(byte));
            }
        }
        text.extend(joiner.finish());
        text
    }
}
