//! The rule by which every weight follows from seed, tensor name and element number.
//!
//! The key of a tensor is FNV-1a of its name, exclusive-or the seed times an odd constant. Element `i` starts from
//! u = the top 24 bits of SplitMix64's output `i`, brought to [-1, 1). Norms are 1 + u/4, biases u/5, matrices
//! u·g·√(3/fan-in) with the gains below (so that activations neither vanish nor explode over a few layers), the
//! embedding 0.8·u times a factor of the row that makes control ids rare winners. Everything is computed in f64 and
//! rounded to f32 and from there to bf16, to nearest even both times.

use super::Spec;
use super::safetensors::Dtype;
use crate::random::{fnv1a, uniform};

/// Mel bins, the input channels of the first convolution.
const MEL_BINS: usize = 128;

/// Names of what is not the decoder begin so.
const EMBEDDER: &str = "mm_streams_embeddings.embedding_module.";

/// What a tensor is for; selects the distribution of its weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Weight of an RMSNorm.
    Norm,
    /// Any bias.
    Bias,
    /// The token embedding, which is also the output head.
    Embedding,
    /// Most matrices.
    Linear,
    /// wq and wk: larger, so that attention is not flat.
    QueryKey,
    /// Weight of a convolution.
    Conv,
    /// The adapter's second matrix: its output competes with token embeddings.
    AdapterOut,
    /// First matrix of the delay conditioning.
    AdaDown,
    /// Second matrix of the delay conditioning.
    AdaUp,
}

/// One tensor of a model, without its weights.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    /// Its name in the file.
    pub name: String,
    /// Its extents, rows first.
    pub shape: Vec<usize>,
    /// Its role.
    pub kind: Kind,
}

impl TensorInfo {
    /// Number of weights.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// All tensors from the embedding to the final norm.
pub fn table(spec: &Spec) -> Vec<TensorInfo> {
    let mut tensors = Vec::new();
    let mut add = |name: String, shape: &[usize], kind| {
        tensors.push(TensorInfo {
            name,
            shape: shape.to_vec(),
            kind,
        })
    };
    let (e, d) = (&spec.encoder, &spec.decoder);

    add(
        format!("{EMBEDDER}tok_embeddings.weight"),
        &[spec.vocab_size, d.dim],
        Kind::Embedding,
    );
    let encoder = format!("{EMBEDDER}whisper_encoder.");
    for (i, inputs) in [MEL_BINS, e.dim].into_iter().enumerate() {
        add(
            format!("{encoder}conv_layers.{i}.conv.weight"),
            &[e.dim, inputs, 3],
            Kind::Conv,
        );
        add(format!("{encoder}conv_layers.{i}.conv.bias"), &[e.dim], Kind::Bias);
    }
    let (queries, keys) = (e.n_heads * e.head_dim, e.n_kv_heads * e.head_dim);
    for i in 0..e.n_layers {
        let layer = format!("{encoder}transformer.layers.{i}.");
        let mut add = |name: &str, shape: &[usize], kind, biased: bool| {
            add(format!("{layer}{name}.weight"), shape, kind);
            if biased && spec.encoder_biases {
                add(format!("{layer}{name}.bias"), &shape[..1], Kind::Bias);
            }
        };
        add("attention_norm", &[e.dim], Kind::Norm, false);
        add("attention.wq", &[queries, e.dim], Kind::QueryKey, true);
        add("attention.wk", &[keys, e.dim], Kind::QueryKey, false);
        add("attention.wv", &[keys, e.dim], Kind::Linear, true);
        add("attention.wo", &[e.dim, queries], Kind::Linear, true);
        add("ffn_norm", &[e.dim], Kind::Norm, false);
        add("feed_forward.w1", &[e.hidden_dim, e.dim], Kind::Linear, false);
        add("feed_forward.w2", &[e.dim, e.hidden_dim], Kind::Linear, true);
        add("feed_forward.w3", &[e.hidden_dim, e.dim], Kind::Linear, false);
    }
    add(format!("{encoder}transformer.norm.weight"), &[e.dim], Kind::Norm);
    add(
        format!("{EMBEDDER}audio_language_projection.0.weight"),
        &[d.dim, 4 * e.dim],
        Kind::Linear,
    );
    add(
        format!("{EMBEDDER}audio_language_projection.2.weight"),
        &[d.dim, d.dim],
        Kind::AdapterOut,
    );
    let (queries, keys) = (d.n_heads * d.head_dim, d.n_kv_heads * d.head_dim);
    for i in 0..d.n_layers {
        let mut add = |name: &str, shape: &[usize], kind| add(format!("layers.{i}.{name}.weight"), shape, kind);
        add("attention_norm", &[d.dim], Kind::Norm);
        add("attention.wq", &[queries, d.dim], Kind::QueryKey);
        add("attention.wk", &[keys, d.dim], Kind::QueryKey);
        add("attention.wv", &[keys, d.dim], Kind::Linear);
        add("attention.wo", &[d.dim, queries], Kind::Linear);
        add("ffn_norm", &[d.dim], Kind::Norm);
        add("feed_forward.w1", &[d.hidden_dim, d.dim], Kind::Linear);
        add("feed_forward.w2", &[d.dim, d.hidden_dim], Kind::Linear);
        add("feed_forward.w3", &[d.hidden_dim, d.dim], Kind::Linear);
        add("ada_rms_norm_t_cond.0", &[spec.ada_dim, d.dim], Kind::AdaDown);
        add("ada_rms_norm_t_cond.2", &[d.dim, spec.ada_dim], Kind::AdaUp);
    }
    add("norm.weight".into(), &[d.dim], Kind::Norm);
    tensors
}

/// The key of a tensor's sequence.
fn key(seed: u64, name: &str) -> u64 {
    fnv1a(name.as_bytes()) ^ seed.wrapping_mul(0xD134_2543_DE82_EF95)
}

/// Writes the weights of `info` from element `first` on, little-endian, until `out` is full.
pub fn fill(spec: &Spec, info: &TensorInfo, first: usize, dtype: Dtype, out: &mut [u8]) {
    match dtype {
        Dtype::Bf16 => runs(spec, info, first, out, u16::to_le_bytes),
        Dtype::F16 => runs(spec, info, first, out, |bits| {
            half::f16::from_f32(f32::from_bits(u32::from(bits) << 16))
                .to_bits()
                .to_le_bytes()
        }),
        Dtype::F32 => runs(spec, info, first, out, |bits| (u32::from(bits) << 16).to_le_bytes()),
    }
}

/// Cuts the elements into runs of one factor: a row of the embedding, everything of other tensors.
fn runs<const N: usize>(spec: &Spec, info: &TensorInfo, first: usize, out: &mut [u8], encode: impl Fn(u16) -> [u8; N]) {
    let key = key(spec.seed, &info.name);
    let fan_in: usize = info.shape[1..].iter().product();
    let matrix = |gain: f64| (0.0, gain * (3.0 / fan_in as f64).sqrt());
    let (base, scale) = match info.kind {
        Kind::Norm => (1.0, 0.25),
        Kind::Bias => (0.0, 0.2),
        Kind::Embedding => (0.0, 0.8),
        Kind::Linear | Kind::AdaDown => matrix(1.5),
        Kind::QueryKey => matrix(2.2),
        Kind::Conv => matrix(2.0),
        Kind::AdapterOut => matrix(3.0),
        Kind::AdaUp => matrix(1.0),
    };
    if info.kind != Kind::Embedding {
        return run(key, first, |u| base + scale * u, out, encode);
    }
    let (mut element, mut rest) = (first, out);
    while !rest.is_empty() {
        let row = element / fan_in;
        let bytes = rest.len().min(((row + 1) * fan_in - element) * N);
        let (now, later) = rest.split_at_mut(bytes);
        let factor = row_factor(spec, row);
        run(key, element, |u| scale * u * factor, now, &encode);
        element += bytes / N;
        rest = later;
    }
}

/// How strongly an embedding row competes for the largest logit.
fn row_factor(spec: &Spec, id: usize) -> f64 {
    match id {
        1 | 32 | 33 => 1.0,
        2 => spec.eos_gain,
        0..1000 => 0.25,
        1000..1256 => 0.625,
        _ => 1.0,
    }
}

/// The inner loop: elements from `first` on, as rounded bits given to `encode`.
fn run<const N: usize>(
    key: u64,
    first: usize,
    value: impl Fn(f64) -> f64,
    out: &mut [u8],
    encode: impl Fn(u16) -> [u8; N],
) {
    for (i, bytes) in out.chunks_exact_mut(N).enumerate() {
        let u = uniform(key, (first + i) as u64);
        bytes.copy_from_slice(&encode(bf16(value(u) as f32)));
    }
}

/// The bits of the nearest bf16, ties to even; for finite values.
#[inline(always)]
fn bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) as u16
}
