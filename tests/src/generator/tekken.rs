//! `tekken.json` as Python's `json.dump` writes it without spaces, and the pieces of generated vocabularies.

use super::{Spec, Style};
use crate::random::splitmix;
use std::collections::HashSet;
use std::fmt::Write;

/// Ids below this are control ids.
pub const CONTROL_IDS: usize = 1000;

/// The published names of the first control ids.
const CONTROL_NAMES: &str = "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] \
    [/TOOL_RESULTS] [TOOL_CALLS] [IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] \
    [/SYSTEM_PROMPT] [TOOL_CONTENT] [BBOX] [/BBOX] [STEP] [/STEP] [AUDIO] [BEGIN_AUDIO] [OUTPUT_AUDIO] [REF] [/REF] \
    [REASONING] [VERIFICATION] [SCORE] [STREAMING_PAD] [STREAMING_WORD] [REPEAT_AUDIO_TEXT]";

/// Pieces that cut characters of several bytes (euro, emoji, CJK), lone lead and tail bytes, whole characters.
const CUTS: [&[u8]; 18] = [
    b"\xe2\x82",
    b"\xac",
    b"\xf0\x9f",
    b"\x98\x80",
    b" \xc3",
    b"\xa9",
    b"\xe4\xbd",
    b"\xa0\xe5",
    b"\xa5\xbd",
    "é".as_bytes(),
    "ß".as_bytes(),
    " ñ".as_bytes(),
    "日本".as_bytes(),
    "🙂".as_bytes(),
    b"\n",
    b",",
    b".",
    b" '",
];

/// Words, used with and without a space in front.
const WORDS: &str = "the a of and to in is it you that he was for on are with as his they be at one have this from or \
    had by hot word but what some we can out other were all there when up use your how said an each she which do \
    their time if will way about many then them write would like so these her long make thing see him two has look \
    more day could go come did number sound no most people my over know water than call first who may down side been \
    now find any new work part take get place made live where after back little only round man year came show every \
    good me give our under name";

/// The splitting pattern; nothing here uses it.
const PATTERN: &str = r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The first `count` pieces by rank: single bytes, cut characters, words, numbered fillers.
pub fn pieces(count: usize, style: Style) -> Vec<Vec<u8>> {
    let mut candidates: Vec<Vec<u8>> = CUTS.iter().map(|piece| piece.to_vec()).collect();
    candidates.extend(WORDS.split(' ').map(|word| format!(" {word}").into_bytes()));
    candidates.extend(WORDS.split(' ').map(|word| word.as_bytes().to_vec()));
    let fillers = (candidates.len()..).map(|k| filler(k, style));
    let bytes = (0..=255).map(|byte| vec![byte]);
    let mut seen = HashSet::new();
    bytes
        .chain(candidates)
        .chain(fillers)
        .filter(|piece| seen.insert(piece.clone()))
        .take(count)
        .collect()
}

/// Filler number `k`. In the published style 0 to 28 letters follow, which gives entries of the published mean size.
fn filler(k: usize, style: Style) -> Vec<u8> {
    let mut piece = format!(" w{k}").into_bytes();
    if style == Style::Published {
        let bits = splitmix(k as u64, 0);
        let letters = (0..bits % 29).map(|i| b'a' + (splitmix(bits, i) % 26) as u8);
        piece.extend(letters);
    }
    piece
}

/// The bytes of the text tokens among `tokens`, joined; control ids give none.
pub fn text(pieces: &[Vec<u8>], tokens: &[u32]) -> Vec<u8> {
    tokens
        .iter()
        .filter_map(|&id| (id as usize).checked_sub(CONTROL_IDS))
        .flat_map(|rank| pieces[rank].clone())
        .collect()
}

/// The bytes of the file.
pub fn json(spec: &Spec) -> Vec<u8> {
    let pieces = pieces(spec.vocab_size - CONTROL_IDS + spec.extra_pieces, spec.style);
    let mut out = format!(
        r#"{{"config":{{"pattern":{},"num_vocab_tokens":{},"default_vocab_size":{},"default_num_special_tokens":{CONTROL_IDS},"version":"v7"}},"vocab":["#,
        quoted(PATTERN),
        pieces.len(),
        spec.vocab_size,
    );
    for (rank, piece) in pieces.iter().enumerate() {
        let comma = if rank == 0 { "" } else { "," };
        let text = std::str::from_utf8(piece).map_or("null".into(), quoted);
        write!(
            out,
            r#"{comma}{{"rank":{rank},"token_bytes":"{}","token_str":{text}}}"#,
            base64(piece)
        )
        .expect("text grows");
    }
    out.push_str(r#"],"special_tokens":["#);
    let names: Vec<&str> = CONTROL_NAMES.split_whitespace().collect();
    for rank in 0..CONTROL_IDS {
        let comma = if rank == 0 { "" } else { "," };
        let name = names
            .get(rank)
            .map_or_else(|| format!("<SPECIAL_{rank}>"), |name| name.to_string());
        write!(
            out,
            r#"{comma}{{"rank":{rank},"token_str":"{name}","is_control":true}}"#
        )
        .expect("text grows");
    }
    write!(
        out,
        r#"],"audio":{{"sampling_rate":16000,"frame_rate":12.5,"audio_encoding_config":{{"num_mel_bins":128,"hop_length":160,"window_size":400}},"transcription_delay_ms":{},"streaming_look_ahead_ms":2.5,"streaming_look_back_ms":52.5,"streaming_n_left_pad_tokens":32,"transcription_format":"streaming"}}"#,
        spec.delay_ms
    )
    .expect("text grows");
    let fill = spec.tekken_bytes.saturating_sub(out.len() + 1);
    out.extend(std::iter::repeat_n(' ', fill));
    out.push('}');
    out.into_bytes()
}

/// A JSON string in ASCII, with the escapes that Python chooses.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}").expect("text grows");
                }
            }
        }
    }
    out.push('"');
    out
}

/// Standard base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group
            .iter()
            .enumerate()
            .fold(0, |word, (i, &b)| word | usize::from(b) << (16 - 8 * i));
        for i in 0..4 {
            let digit = char::from(ALPHABET[word >> (18 - 6 * i) & 63]);
            out.push(if i <= group.len() { digit } else { '=' });
        }
    }
    out
}
