//! The whole model, plainly, in f64: full history, no rings, no chunks, no tricks.
//!
//! It follows the description of the model and shares no code with the engine; it is checked against the stored
//! goldens, which come from another implementation in another language. Tests compare the engine with it on
//! configurations for which nothing is stored.

use crate::generator::Spec;
use crate::generator::safetensors::{self, Dtype, Tensor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::f64::consts::{SQRT_2, TAU};

const MEL_BINS: usize = 128;
const WINDOW: usize = 400;
const HOP: usize = 160;
const SAMPLES_PER_TOKEN: usize = 1280;
const LEFT_PAD_TOKENS: usize = 32;
const BEGIN: u32 = 1;
const END: u32 = 2;
const STREAMING_PAD: u32 = 32;
const EMBEDDER: &str = "mm_streams_embeddings.embedding_module.";

/// Vectors of one width: a matrix, or a sequence over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Elements of one row.
    pub width: usize,
    /// The rows, one behind the other.
    pub data: Vec<f64>,
}

impl Rows {
    fn new(width: usize) -> Self {
        Rows {
            width,
            data: Vec::new(),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.data.len() / self.width
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Row `i`.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.width..(i + 1) * self.width]
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = &[f64]> {
        self.data.chunks_exact(self.width)
    }

    /// The product of this matrix and a column.
    fn times(&self, x: &[f64]) -> Vec<f64> {
        self.iter().map(|row| dot(row, x)).collect()
    }
}

/// Every stage of one run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Log-mel frames.
    pub mel: Rows,
    /// Output of the two convolutions.
    pub conv_stem: Rows,
    /// Output of every encoder layer, before the final norm.
    pub enc_layers: Vec<Rows>,
    /// Output of the encoder.
    pub enc_out: Rows,
    /// One vector per token of audio.
    pub adapter: Rows,
    /// The embedded delay.
    pub t_cond: Vec<f64>,
    /// s of the factor 1 + s, per decoder layer.
    pub ada: Rows,
    /// Logits of every generated step, the first at the prompt's last position.
    pub logits: Rows,
    /// The generated tokens, with the final 2 if it came.
    pub tokens: Vec<u32>,
    /// Distance of the two largest logits of every step.
    pub margins: Vec<f64>,
}

/// What both stacks have in common.
#[derive(Clone, Debug)]
struct Stack {
    prefix: String,
    n_layers: usize,
    n_heads: usize,
    n_kv_heads: usize,
    head_dim: usize,
    window: usize,
    theta: f64,
    eps: f64,
}

/// Keys and values of one layer, from position 0 on.
#[derive(Clone, Debug)]
struct History {
    keys: Rows,
    values: Rows,
}

/// A model.
#[derive(Clone, Debug)]
pub struct Reference {
    encoder: Stack,
    decoder: Stack,
    concatenated: usize,
    log_mel_max: f64,
    tensors: BTreeMap<String, Rows>,
    /// Whether token 2 ends the run, as it does for a file; a live stream goes on.
    pub stops_at_end_of_text: bool,
}

impl Reference {
    /// A model of sizes and tensors.
    pub fn new(params: &Value, tensors: &BTreeMap<String, Tensor>) -> Self {
        let whisper = &params["multimodal"]["whisper_model_args"];
        // Of convolutions [out][in][tap] makes rows [tap][in], which then lie like the frames under them.
        let rows = |tensor: &Tensor| match tensor.shape[..] {
            [_, inputs, taps] => {
                let values = tensor.values();
                let transposed = values.chunks_exact(inputs * taps).flat_map(|kernel| {
                    (0..taps).flat_map(move |tap| (0..inputs).map(move |input| kernel[input * taps + tap]))
                });
                Rows {
                    width: inputs * taps,
                    data: transposed.collect(),
                }
            }
            _ => Rows {
                width: tensor.shape[tensor.shape.len() - 1],
                data: tensor.values(),
            },
        };
        Reference {
            encoder: Stack::new(
                &whisper["encoder_args"],
                format!("{EMBEDDER}whisper_encoder.transformer."),
            ),
            decoder: Stack::new(params, String::new()),
            concatenated: int(&whisper["downsample_args"]["downsample_factor"]),
            log_mel_max: float(&whisper["encoder_args"]["audio_encoding_args"]["global_log_mel_max"]),
            tensors: tensors
                .iter()
                .map(|(name, tensor)| (name.clone(), rows(tensor)))
                .collect(),
            stops_at_end_of_text: true,
        }
    }

    /// A model of the bytes of its two files.
    pub fn from_files(params_json: &[u8], weights: &[u8]) -> Self {
        let params = serde_json::from_slice(params_json).expect("params.json is JSON");
        Self::new(&params, &safetensors::read(weights))
    }

    /// A generated model with bf16 weights.
    pub fn of(spec: &Spec) -> Self {
        let params = serde_json::from_slice(&spec.params_json()).expect("params.json is JSON");
        let tensors = spec
            .tensors(Dtype::Bf16)
            .into_iter()
            .map(|tensor| (tensor.name.clone(), tensor));
        Self::new(&params, &tensors.collect())
    }

    /// Transcribes a whole recording.
    pub fn run(&self, samples: &[f32], delay_tokens: usize) -> Run {
        let mel = mel(&padded(samples, delay_tokens), self.log_mel_max);
        let conv_stem = self.conv_stem(&mel);
        let (enc_layers, enc_out) = self.encode(&conv_stem);
        let adapter = self.adapt(&enc_out);
        let t_cond = t_cond(delay_tokens, adapter.width);
        let ada = self.ada(&t_cond);
        let (logits, tokens, margins) = self.decode(&adapter, &ada, delay_tokens);
        Run {
            mel,
            conv_stem,
            enc_layers,
            enc_out,
            adapter,
            t_cond,
            ada,
            logits,
            tokens,
            margins,
        }
    }

    fn tensor(&self, name: &str) -> &Rows {
        self.tensors.get(name).unwrap_or_else(|| panic!("no tensor {name}"))
    }

    /// W x + b; the bias is optional.
    fn linear(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let mut y = self.tensor(&format!("{name}.weight")).times(x);
        if let Some(bias) = self.tensors.get(&format!("{name}.bias")) {
            add(&mut y, &bias.data);
        }
        y
    }

    /// x / √(mean x² + eps) · weight.
    fn norm(&self, name: &str, eps: f64, x: &[f64]) -> Vec<f64> {
        let root = (dot(x, x) / x.len() as f64 + eps).sqrt();
        let weight = &self.tensor(&format!("{name}.weight")).data;
        x.iter().zip(weight).map(|(x, w)| x / root * w).collect()
    }

    /// Two causal convolutions of three taps, the second with stride 2, and GELU after each.
    fn conv_stem(&self, mel: &Rows) -> Rows {
        let mut x = mel.clone();
        for (i, stride) in [1, 2].into_iter().enumerate() {
            let name = format!("{EMBEDDER}whisper_encoder.conv_layers.{i}.conv");
            let left = 3 - stride;
            let with_zeros = [vec![0.0; left * x.width], x.data].concat();
            let mut y = Rows::new(self.tensor(&format!("{name}.bias")).data.len());
            for taps in with_zeros.windows(3 * x.width).step_by(stride * x.width) {
                y.data.extend(self.linear(&name, taps).into_iter().map(gelu));
            }
            x = y;
        }
        x
    }

    /// Every layer's output and the normed last one.
    fn encode(&self, frames: &Rows) -> (Vec<Rows>, Rows) {
        let stack = &self.encoder;
        let mut histories = stack.histories();
        let mut layers = vec![Rows::new(frames.width); stack.n_layers];
        let mut out = Rows::new(frames.width);
        for (position, frame) in frames.iter().enumerate() {
            let mut x = frame.to_vec();
            for (layer, history) in histories.iter_mut().enumerate() {
                self.layer(stack, layer, position, history, None, &mut x);
                layers[layer].data.extend(&x);
            }
            out.data
                .extend(self.norm(&format!("{}norm", stack.prefix), stack.eps, &x));
        }
        (layers, out)
    }

    /// Some encoder frames side by side, and two matrices with GELU between them.
    fn adapt(&self, frames: &Rows) -> Rows {
        let name = |i: usize| format!("{EMBEDDER}audio_language_projection.{i}");
        let mut out = Rows::new(self.tensor(&format!("{}.weight", name(2))).len());
        for group in frames.data.chunks_exact(self.concatenated * frames.width) {
            let hidden: Vec<f64> = self.linear(&name(0), group).into_iter().map(gelu).collect();
            out.data.extend(self.linear(&name(2), &hidden));
        }
        out
    }

    /// s = B gelu(A t_cond) of every decoder layer.
    fn ada(&self, t_cond: &[f64]) -> Rows {
        let mut out = Rows::new(t_cond.len());
        for layer in 0..self.decoder.n_layers {
            let name = format!("layers.{layer}.ada_rms_norm_t_cond");
            let hidden: Vec<f64> = self
                .linear(&format!("{name}.0"), t_cond)
                .into_iter()
                .map(gelu)
                .collect();
            out.data.extend(self.linear(&format!("{name}.2"), &hidden));
        }
        out
    }

    /// Greedy decoding: the prompt is fed first, then each token at the position after the one that gave it.
    fn decode(&self, adapter: &Rows, ada: &Rows, delay_tokens: usize) -> (Rows, Vec<u32>, Vec<f64>) {
        let stack = &self.decoder;
        let embedding = self.tensor(&format!("{EMBEDDER}tok_embeddings.weight"));
        let prompt = prompt(delay_tokens);
        let mut histories = stack.histories();
        let (mut logits, mut tokens, mut margins) = (Rows::new(embedding.len()), Vec::new(), Vec::new());
        for (position, audio) in adapter.iter().enumerate() {
            let id = prompt
                .get(position)
                .or(tokens.last())
                .copied()
                .expect("the prompt is not empty");
            if id == END && self.stops_at_end_of_text {
                break;
            }
            let mut x = audio.to_vec();
            add(&mut x, embedding.row(id as usize));
            for (layer, history) in histories.iter_mut().enumerate() {
                self.layer(stack, layer, position, history, Some(ada.row(layer)), &mut x);
            }
            if position + 1 < prompt.len() {
                continue;
            }
            let step = embedding.times(&self.norm("norm", stack.eps, &x));
            let (best, margin) = arg_max(&step);
            tokens.push(best);
            margins.push(margin);
            logits.data.extend(step);
        }
        (logits, tokens, margins)
    }

    /// One layer of either stack at one position; `x` is the residual stream.
    fn layer(
        &self,
        stack: &Stack,
        layer: usize,
        position: usize,
        history: &mut History,
        ada: Option<&[f64]>,
        x: &mut [f64],
    ) {
        let name = |part: &str| format!("{}layers.{layer}.{part}", stack.prefix);
        let n = self.norm(&name("attention_norm"), stack.eps, x);
        let mut query = self.linear(&name("attention.wq"), &n);
        let mut key = self.linear(&name("attention.wk"), &n);
        stack.rotate(&mut query, position);
        stack.rotate(&mut key, position);
        history.keys.data.extend(key);
        history.values.data.extend(self.linear(&name("attention.wv"), &n));
        add(
            x,
            &self.linear(&name("attention.wo"), &stack.attend(&query, history, position)),
        );

        let mut n = self.norm(&name("ffn_norm"), stack.eps, x);
        if let Some(ada) = ada {
            n.iter_mut().zip(ada).for_each(|(n, s)| *n *= 1.0 + s);
        }
        let gate = self.linear(&name("feed_forward.w1"), &n);
        let up = self.linear(&name("feed_forward.w3"), &n);
        let hidden: Vec<f64> = gate.iter().zip(&up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
        add(x, &self.linear(&name("feed_forward.w2"), &hidden));
    }
}

impl Stack {
    fn new(args: &Value, prefix: String) -> Self {
        Stack {
            prefix,
            n_layers: int(&args["n_layers"]),
            n_heads: int(&args["n_heads"]),
            n_kv_heads: int(&args["n_kv_heads"]),
            head_dim: int(&args["head_dim"]),
            window: int(&args["sliding_window"]),
            theta: float(&args["rope_theta"]),
            eps: float(&args["norm_eps"]),
        }
    }

    fn histories(&self) -> Vec<History> {
        let rows = Rows::new(self.n_kv_heads * self.head_dim);
        vec![
            History {
                keys: rows.clone(),
                values: rows
            };
            self.n_layers
        ]
    }

    /// Turns the neighbouring pairs (2j, 2j+1) of every head by position · theta^(-2j / head_dim).
    fn rotate(&self, heads: &mut [f64], position: usize) {
        for head in heads.chunks_exact_mut(self.head_dim) {
            for (j, pair) in head.chunks_exact_mut(2).enumerate() {
                let angle = position as f64 * self.theta.powf(-2.0 * j as f64 / self.head_dim as f64);
                let (a, b) = (pair[0], pair[1]);
                pair[0] = a * angle.cos() - b * angle.sin();
                pair[1] = a * angle.sin() + b * angle.cos();
            }
        }
    }

    /// Softmax attention of one query over the whole history, masked to the window, which contains the query itself.
    fn attend(&self, query: &[f64], history: &History, position: usize) -> Vec<f64> {
        let d = self.head_dim;
        let masked = |p: usize| position - p >= self.window;
        let mut out = vec![0.0; query.len()];
        for (head, (query, out)) in query.chunks_exact(d).zip(out.chunks_exact_mut(d)).enumerate() {
            let kv_head = head / (self.n_heads / self.n_kv_heads);
            let part = kv_head * d..(kv_head + 1) * d;
            let score = |(p, key): (usize, &[f64])| match masked(p) {
                true => f64::NEG_INFINITY,
                false => dot(query, &key[part.clone()]) / (d as f64).sqrt(),
            };
            let scores: Vec<f64> = history.keys.iter().enumerate().map(score).collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for (weight, value) in weights
                .iter()
                .zip(history.values.iter())
                .filter(|(weight, _)| **weight > 0.0)
            {
                out.iter_mut()
                    .zip(&value[part.clone()])
                    .for_each(|(o, v)| *o += weight / sum * v);
            }
        }
        out
    }
}

/// The prompt: the begin token, then pads over the left padding and the delay.
pub fn prompt(delay_tokens: usize) -> Vec<u32> {
    let mut ids = vec![BEGIN];
    ids.resize(1 + LEFT_PAD_TOKENS + delay_tokens, STREAMING_PAD);
    ids
}

/// The samples between 32 tokens of silence, and silence to the next token and for delay + 1 + 10 more.
pub fn padded(samples: &[f32], delay_tokens: usize) -> Vec<f64> {
    let mut out = vec![0.0; LEFT_PAD_TOKENS * SAMPLES_PER_TOKEN];
    out.extend(samples.iter().map(|&x| f64::from(x)));
    let tokens = out.len().div_ceil(SAMPLES_PER_TOKEN) + delay_tokens + 1 + 10;
    out.resize(tokens * SAMPLES_PER_TOKEN, 0.0);
    out
}

/// The mel filters, one row per bin of the spectrum: triangles on Slaney's scale from 0 to 8000 Hz, of equal area.
pub fn mel_filters() -> Rows {
    let octave = 6.4_f64.ln() / 27.0;
    let hertz = |mel: f64| {
        if mel < 15.0 {
            200.0 * mel / 3.0
        } else {
            1000.0 * ((mel - 15.0) * octave).exp()
        }
    };
    let top = 15.0 + 8.0_f64.ln() / octave;
    let edges: Vec<f64> = (0..MEL_BINS + 2)
        .map(|i| hertz(top * i as f64 / (MEL_BINS + 1) as f64))
        .collect();
    let mut filters = Rows::new(MEL_BINS);
    for bin in 0..=WINDOW / 2 {
        let f = bin as f64 * 16000.0 / WINDOW as f64;
        filters.data.extend(edges.windows(3).map(|edge| {
            let height = ((f - edge[0]) / (edge[1] - edge[0])).min((edge[2] - f) / (edge[2] - edge[1]));
            height.max(0.0) * 2.0 / (edge[2] - edge[0])
        }));
    }
    filters
}

/// Log-mel frames of a signal of at least 201 samples, mirrored at both ends. `log_max` fixes the scale.
pub fn mel(signal: &[f64], log_max: f64) -> Rows {
    let half = WINDOW / 2;
    let n = signal.len() as isize;
    // Sample i of the signal with mirrored ends; the edge sample itself is not repeated.
    let sample = |i: isize| signal[if i < 0 { -i } else { n - 1 - (n - 1 - i).abs() } as usize];
    let angle = |i: usize| TAU * i as f64 / WINDOW as f64;
    // Row i has the angles of sample i at every bin.
    let table = |f: fn(f64) -> f64| {
        let once: Vec<f64> = (0..WINDOW).map(|i| f(angle(i))).collect();
        let data = (0..WINDOW * (half + 1)).map(|j| once[(j / (half + 1)) * (j % (half + 1)) % WINDOW]);
        Rows {
            width: half + 1,
            data: data.collect(),
        }
    };
    let (cos, sin) = (table(f64::cos), table(f64::sin));
    let filters = mel_filters();
    let mut out = Rows::new(MEL_BINS);
    for frame in 0..signal.len() / HOP {
        let mut re = vec![0.0; half + 1];
        let mut im = vec![0.0; half + 1];
        for i in 0..WINDOW {
            let hann = 0.5 - 0.5 * angle(i).cos();
            let x = sample((frame * HOP + i) as isize - half as isize) * hann;
            if x == 0.0 {
                continue;
            }
            re.iter_mut().zip(cos.row(i)).for_each(|(re, cos)| *re += x * cos);
            im.iter_mut().zip(sin.row(i)).for_each(|(im, sin)| *im += x * sin);
        }
        let mut powers = vec![0.0; MEL_BINS];
        for (bin, filter) in filters.iter().enumerate() {
            let power = re[bin] * re[bin] + im[bin] * im[bin];
            powers.iter_mut().zip(filter).for_each(|(p, f)| *p += power * f);
        }
        out.data.extend(
            powers
                .iter()
                .map(|p| (p.max(1e-10).log10().max(log_max - 8.0) + 4.0) / 4.0),
        );
    }
    out
}

/// The delay as cosines and sines of falling frequencies.
pub fn t_cond(delay_tokens: usize, width: usize) -> Vec<f64> {
    let half = width / 2;
    let angle = |i: usize| delay_tokens as f64 * 10000_f64.powf(-(i as f64) / half as f64);
    (0..half)
        .map(|i| angle(i).cos())
        .chain((0..half).map(|i| angle(i).sin()))
        .collect()
}

/// The exact GELU.
fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + libm::erf(x / SQRT_2))
}

/// The lowest id of the largest logit, and the distance to the largest of the others.
pub fn arg_max(logits: &[f64]) -> (u32, f64) {
    let mut best = 0;
    for (id, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = id;
        }
    }
    let others = logits
        .iter()
        .enumerate()
        .filter(|(id, _)| *id != best)
        .map(|(_, logit)| *logit);
    (best as u32, logits[best] - others.fold(f64::NEG_INFINITY, f64::max))
}

fn add(x: &mut [f64], y: &[f64]) {
    assert_eq!(x.len(), y.len());
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

/// Sum of products, in four partial sums so that the compiler can use vector registers.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let mut sums = [0.0; 4];
    let (a4, b4) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a4.remainder().iter().zip(b4.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a4.zip(b4) {
        for i in 0..4 {
            sums[i] += a[i] * b[i];
        }
    }
    sums.iter().sum::<f64>() + rest
}

fn int(value: &Value) -> usize {
    value.as_u64().expect("a whole number") as usize
}

fn float(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}
