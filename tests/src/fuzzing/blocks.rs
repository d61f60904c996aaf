//! What a file says of one tensor in blocks.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};
use voxtral_core::format::safetensors::{self as st, Entry};
use voxtral_core::kernels::Storage;
use voxtral_core::model::Binding;

use super::one_line;
use crate::engine::Engine;
use crate::quantised;

/// The header of the small model by `q8`, and the names of its tensors in blocks.
struct Forged {
    engine: Engine,
    header: Map<String, Value>,
    names: Vec<String>,
    data_len: u64,
}

fn forged() -> &'static Forged {
    static FORGED: OnceLock<Forged> = OnceLock::new();
    FORGED.get_or_init(|| {
        let engine = Engine::nano();
        let model = quantised::Model::new(&engine.weights, &engine.params, Storage::Q8);
        let keys = model.metadata.keys();
        Forged {
            names: keys.map(|key| key["voxtral.blocks.".len()..].to_owned()).collect(),
            header: model.header(),
            data_len: model.tensors.values().map(|tensor| tensor.bytes.len() as u64).sum(),
            engine,
        }
    })
}

/// A model binds exactly if the text, the element type and the shape of each tensor in blocks fit its role.
///
/// The first byte chooses the tensor, the second its element type and, of its bytes, how many make a row: as many as
/// `q8` or `q4` take, or others. The rest is the text.
pub fn blocks(data: &[u8]) {
    let [which, shape, text @ ..] = data else { return };
    let forged = forged();
    let name = &forged.names[usize::from(*which) % forged.names.len()];
    let text = String::from_utf8_lossy(text);

    let mut header = forged.header.clone();
    header["__metadata__"][format!("voxtral.blocks.{name}")] = json!(text);
    let old: [u64; 2] = serde_json::from_value(header[name]["shape"].clone()).expect("rows and bytes");
    let len = old[0] * old[1];
    let dtype = ["U8", "I8", "BOOL", "U8"][usize::from(shape % 4)];
    let rows = match shape / 4 {
        0..16 => Some(old[0]),
        other => Some(u64::from(other)).filter(|rows| len % rows == 0),
    };
    let shape = rows.map_or(vec![len], |rows| vec![rows, len / rows]);
    header[name]["dtype"] = json!(dtype);
    header[name]["shape"] = json!(shape);

    let text = text.split_once(' ').and_then(|(label, size)| {
        let (rows, cols) = size.split_once('x')?;
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse::<u64>().ok())?
        };
        Some((label, number(rows)?, number(cols)?))
    });
    let right = text.is_some_and(|(label, rows, cols)| {
        let bits = match label {
            "q8/1" => 8,
            "q4/1" => 4,
            _ => return false,
        };
        // The rows of the small model, as its own header has them: q8 with 16 bytes for each 256 columns begun.
        let own = (1..=old[1]).find(|cols| cols % 32 == 0 && cols + cols.div_ceil(256) * 16 == old[1]);
        let bytes = cols / 8 * bits + cols.div_ceil(256) * 16;
        dtype == "U8" && rows == old[0] && Some(cols) == own && shape == [rows, bytes]
    });

    let header = Value::Object(header).to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    let file_len = bytes.len() as u64 + forged.data_len;
    let mut entries = vec![Entry::default(); st::count(&bytes).expect("a header")];
    let header = st::parse_prefix(&bytes, file_len, &mut entries).expect("nothing of the format is wrong");
    let params = &forged.engine.params;
    let mut slots = vec![Default::default(); Binding::slots(params)];
    match Binding::new(&header, params, &mut slots) {
        Ok(_) => assert!(right, "{name}: {text:?} {dtype} {shape:?} is taken"),
        Err(error) => {
            one_line(&error);
            assert!(!right, "{name}: {text:?} {dtype} {shape:?}: {error}");
        }
    }
}
