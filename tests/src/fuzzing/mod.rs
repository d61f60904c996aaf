//! The bodies of the fuzz targets: each takes any bytes and panics where a promise of core is broken.
//!
//! `fuzz/` builds them for libFuzzer; `tests/corpus.rs` runs them over the stored corpora in every test run.

mod blocks;
mod image;
mod session;
mod start;
mod tekken;

use std::fmt::Display;

use serde_json::Value;
use voxtral_core::format::params::{MAX_SIZE, Params};
use voxtral_core::format::safetensors::{self as st, Entry};
use voxtral_core::format::wav::{Demuxer, Encoding};
use voxtral_core::layout::{CacheType, Layout, LayoutError, Options};
use voxtral_core::model::Binding;

use crate::agreement;
use crate::agreement::wav::decode_in_pieces;
pub use blocks::blocks;
pub use image::{image, seal};
pub use session::session;
pub use start::start;
pub use tekken::{expanded, tekken};

/// A body.
pub type Target = fn(&[u8]);

/// All of them by the names of their corpora.
pub const TARGETS: [(&str, Target); 9] = [
    ("safetensors", safetensors),
    ("json", json),
    ("params", params),
    ("tekken", tekken),
    ("wav", wav),
    ("session", session),
    ("start", start),
    ("image", image),
    ("blocks", blocks),
];

/// A `.safetensors` file: the verdict and the content of the reference, and a binding that refuses or agrees.
pub fn safetensors(data: &[u8]) {
    if agreement::safetensors::agree(data).is_err() {
        return;
    }
    let mut entries = vec![Entry::default(); st::count(data).unwrap()];
    let header = st::parse(data, &mut entries).unwrap();
    for tensor in header.iter() {
        let Ok(count) = usize::try_from(tensor.elements()) else {
            continue;
        };
        // As many as there are, and no others.
        if count <= data.len() {
            let read = tensor.read_f32(&mut vec![0.0; count]);
            assert_eq!(read.is_ok(), ["F32", "F16", "BF16"].contains(&tensor.dtype().name()));
            assert!(tensor.read_f32(&mut vec![0.0; count + 1]).is_err());
        }
    }
    let params = &session::models().own.params;
    let mut slots = vec![Default::default(); Binding::slots(params)];
    if let Err(error) = Binding::new(&header, params, &mut slots) {
        one_line(&error);
    }
}

/// A JSON text: the verdict and the value of `serde_json`.
pub fn json(data: &[u8]) {
    if let Err(error) = agreement::json::agree(data) {
        one_line(&error);
    }
}

/// A `params.json`: sizes as `serde_json` reads them, within bounds, and a layout of them that adds up.
pub fn params(data: &[u8]) {
    let params = match Params::parse(data) {
        Ok(params) => params,
        Err(error) => return one_line(&error),
    };
    let json: Value = serde_json::from_slice(data).expect("accepted here, so it is JSON");
    let encoder = &json["multimodal"]["whisper_model_args"]["encoder_args"];
    let (e, d) = (&params.encoder, &params.decoder);
    for (object, name, size) in [
        (encoder, "dim", e.dim),
        (encoder, "n_layers", e.n_layers),
        (encoder, "n_heads", e.n_heads),
        (encoder, "head_dim", e.head_dim),
        (encoder, "hidden_dim", e.hidden_dim),
        (encoder, "sliding_window", e.sliding_window),
        (&json, "dim", d.dim),
        (&json, "n_layers", d.n_layers),
        (&json, "n_heads", d.n_heads),
        (&json, "n_kv_heads", d.n_kv_heads),
        (&json, "head_dim", d.head_dim),
        (&json, "hidden_dim", d.hidden_dim),
        (&json, "sliding_window", d.sliding_window),
        (&json, "vocab_size", d.vocab_size),
    ] {
        assert_eq!(object[name].as_f64(), Some(size as f64), "{name}");
        assert!((1..=MAX_SIZE as usize).contains(&size), "{name}");
    }
    for (n_heads, n_kv_heads, head_dim) in [
        (e.n_heads, e.n_kv_heads, e.head_dim),
        (d.n_heads, d.n_kv_heads, d.head_dim),
    ] {
        assert!(n_heads % n_kv_heads == 0 && head_dim % 2 == 0);
        assert!(n_heads * head_dim <= MAX_SIZE as usize);
    }
    assert!(Binding::slots(&params) > 0);
    for (chunk, batch) in [(1, 8), (25, 1)] {
        let options = Options {
            delay_tokens: 6,
            left_pad_tokens: 32,
            logits: true,
            chunk,
            batch,
            stop_at_end_of_text: true,
            decoder_window: None,
            cache: CacheType::F32,
            bos: 1,
            eos: 2,
            streaming_pad: 32,
        };
        match Layout::new(&params, &options) {
            Ok(layout) => {
                let mut items = 0;
                layout.items(|_| items += 1);
                assert!(items > 0 && layout.state_len() > 0 && layout.scratch_len() > 0);
            }
            Err(error @ LayoutError::TokenId { .. }) => {
                assert!(d.vocab_size <= 32);
                one_line(&error);
            }
            Err(error) => one_line(&error),
        }
    }
}

/// A WAV, or raw samples: the same in one piece and in many, as a pipe and as a file.
///
/// The first three bytes choose the demuxer and the sizes of the pieces and of the buffers.
pub fn wav(data: &[u8]) {
    let [kind, piece, room, bytes @ ..] = data else {
        return;
    };
    let new = || match kind % 4 {
        0 => Demuxer::new(),
        1 => Demuxer::seekable(),
        _ => {
            let encodings = [
                Encoding::PcmU8,
                Encoding::PcmS16,
                Encoding::PcmS24,
                Encoding::PcmS32,
                Encoding::Float32,
                Encoding::Float64,
            ];
            let encoding = encodings[usize::from(kind / 4) % encodings.len()];
            Demuxer::raw(encoding, 16_000, u16::from(kind / 32) + 1).unwrap()
        }
    };
    // No encoding has less than a byte for a sample.
    let whole = decode_in_pieces(new(), bytes, &[usize::MAX], &[bytes.len() + 1]);
    let pieces = [usize::from(piece % 16) + 1, usize::from(piece / 16) + 1];
    let rooms = [usize::from(room % 16), usize::from(room / 16) + 1];
    assert_eq!(decode_in_pieces(new(), bytes, &pieces, &rooms), whole);
    match whole {
        Ok((samples, summary)) => {
            assert!(
                samples
                    .iter()
                    .all(|x| x.abs() <= voxtral_core::format::wav::MAX_MAGNITUDE)
            );
            assert!(summary.present + summary.trailing <= bytes.len() as u64);
        }
        Err(error) => one_line(&error),
    }
}

/// What is shown to a person.
fn one_line(error: &impl Display) {
    let line = error.to_string();
    assert!(!line.is_empty() && !line.contains(char::is_control), "{line:?}");
}
