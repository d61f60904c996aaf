//! `params.json` as Python's `json.dump` writes it, with the published keys in the published order.

use super::{Spec, Style};

/// A value of the file; numbers are given as written.
enum Value<'a> {
    Plain(String),
    Text(&'a str),
    Object(Vec<(&'a str, Value<'a>)>),
}

/// The bytes of the file.
pub fn json(spec: &Spec) -> Vec<u8> {
    let (e, d) = (&spec.encoder, &spec.decoder);
    let plain = |v: &str| Value::Plain(v.into());
    let number = |n: usize| Value::Plain(n.to_string());
    let audio = Value::Object(vec![
        ("sampling_rate", number(16000)),
        ("frame_rate", plain("12.5")),
        ("num_mel_bins", number(128)),
        ("hop_length", number(160)),
        ("window_size", number(400)),
        ("chunk_length_s", plain("null")),
        ("global_log_mel_max", plain("1.5")),
        ("transcription_format", Value::Text("streaming")),
    ]);
    let encoder = Value::Object(vec![
        ("audio_encoding_args", audio),
        ("dim", number(e.dim)),
        ("n_layers", number(e.n_layers)),
        ("head_dim", number(e.head_dim)),
        ("hidden_dim", number(e.hidden_dim)),
        ("n_heads", number(e.n_heads)),
        ("vocab_size", number(spec.vocab_size)),
        ("n_kv_heads", number(e.n_kv_heads)),
        ("use_biases", Value::Plain(spec.encoder_biases.to_string())),
        ("use_cache", plain("false")),
        ("rope_theta", plain("1000000.0")),
        ("causal", plain("true")),
        ("norm_eps", plain("1e-05")),
        ("pos_embed", Value::Text("rope")),
        ("max_source_positions", plain("null")),
        ("ffn_type", Value::Text("swiglu")),
        ("norm_type", Value::Text("rms_norm")),
        ("sliding_window", number(e.sliding_window)),
    ]);
    let whisper = Value::Object(vec![
        ("encoder_args", encoder),
        ("downsample_args", Value::Object(vec![("downsample_factor", number(4))])),
    ]);
    let root = Value::Object(vec![
        ("dim", number(d.dim)),
        ("n_layers", number(d.n_layers)),
        ("head_dim", number(d.head_dim)),
        ("hidden_dim", number(d.hidden_dim)),
        ("n_heads", number(d.n_heads)),
        ("n_kv_heads", number(d.n_kv_heads)),
        ("use_biases", plain("false")),
        ("causal", plain("true")),
        ("rope_theta", plain("1000000.0")),
        ("norm_eps", plain("1e-05")),
        ("vocab_size", number(spec.vocab_size)),
        ("model_parallel", number(1)),
        ("tied_embeddings", plain("true")),
        ("sliding_window", number(d.sliding_window)),
        ("model_max_length", number(131_072)),
        ("multimodal", Value::Object(vec![("whisper_model_args", whisper)])),
        ("ada_rms_norm_t_cond", plain("true")),
        ("ada_rms_norm_t_cond_dim", number(spec.ada_dim)),
    ]);
    let mut out = String::new();
    match spec.style {
        Style::Golden => write(&root, 1, 0, &mut out),
        Style::Published => {
            write(&root, 2, 0, &mut out);
            out.push('\n');
        }
    }
    out.into_bytes()
}

/// Writes `value` with `indent` spaces per level.
fn write(value: &Value, indent: usize, level: usize, out: &mut String) {
    match value {
        Value::Plain(text) => out.push_str(text),
        Value::Text(text) => *out += &format!("\"{text}\""),
        Value::Object(members) => {
            for (i, (key, member)) in members.iter().enumerate() {
                out.push(if i == 0 { '{' } else { ',' });
                *out += &format!("\n{:1$}\"{key}\": ", "", indent * (level + 1));
                write(member, indent, level + 1, out);
            }
            *out += &format!("\n{:1$}}}", "", indent * level);
        }
    }
}
