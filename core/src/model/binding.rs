//! Which tensor plays which role: every name, dtype and shape checked once.

use core::fmt::{self, Write};
use core::ops::Range;

use super::stored::{self, blocks_label, check_shape, check_storage};
use crate::format::params::Params;
use crate::format::safetensors::{Dtype, Header, Label, Tensor};
use crate::kernels::{Matrix, Storage};

const EMBEDDING_MODULE: &str = "mm_streams_embeddings.embedding_module.";
const ENCODER: &str = "mm_streams_embeddings.embedding_module.whisper_encoder.";

/// Bytes that hold the longest tensor name: [`ENCODER`], `transformer.layers.`, ten digits and the longest suffix.
const NAME_CAPACITY: usize = 128;

/// The name of an output head in models that have one; here the token embedding is it.
const OUTPUT_HEAD: &str = "output.weight";

/// Parts of names in the Hugging Face layout, none of which the Mistral layout has. Every name but that of the final
/// norms has one, whatever stands in front.
const HUGGING_FACE_PARTS: [&[u8]; 13] = [
    b"self_attn",
    b"self_attn_layer_norm",
    b"final_layer_norm",
    b"input_layernorm",
    b"post_attention_layernorm",
    b"gate_proj",
    b"up_proj",
    b"down_proj",
    b"embed_tokens",
    b"lm_head",
    b"audio_tower",
    b"language_model",
    b"multi_modal_projector",
];

/// Kernel width of both convolutions.
pub(crate) const CONV_KERNEL: usize = 3;

/// A tensor of one encoder layer, in slot order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum EncoderTensor {
    AttentionNorm,
    Wq,
    WqBias,
    Wk,
    Wv,
    WvBias,
    Wo,
    WoBias,
    FfnNorm,
    W1,
    W2,
    W2Bias,
    W3,
}

impl EncoderTensor {
    const ALL: [Self; 13] = [
        Self::AttentionNorm,
        Self::Wq,
        Self::WqBias,
        Self::Wk,
        Self::Wv,
        Self::WvBias,
        Self::Wo,
        Self::WoBias,
        Self::FfnNorm,
        Self::W1,
        Self::W2,
        Self::W2Bias,
        Self::W3,
    ];

    fn suffix(self) -> &'static str {
        match self {
            Self::AttentionNorm => "attention_norm.weight",
            Self::Wq => "attention.wq.weight",
            Self::WqBias => "attention.wq.bias",
            Self::Wk => "attention.wk.weight",
            Self::Wv => "attention.wv.weight",
            Self::WvBias => "attention.wv.bias",
            Self::Wo => "attention.wo.weight",
            Self::WoBias => "attention.wo.bias",
            Self::FfnNorm => "ffn_norm.weight",
            Self::W1 => "feed_forward.w1.weight",
            Self::W2 => "feed_forward.w2.weight",
            Self::W2Bias => "feed_forward.w2.bias",
            Self::W3 => "feed_forward.w3.weight",
        }
    }

    fn is_bias(self) -> bool {
        matches!(self, Self::WqBias | Self::WvBias | Self::WoBias | Self::W2Bias)
    }
}

/// A tensor of one decoder layer, in slot order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DecoderTensor {
    AttentionNorm,
    Wq,
    Wk,
    Wv,
    Wo,
    FfnNorm,
    W1,
    W2,
    W3,
    AdaDown,
    AdaUp,
}

impl DecoderTensor {
    const ALL: [Self; 11] = [
        Self::AttentionNorm,
        Self::Wq,
        Self::Wk,
        Self::Wv,
        Self::Wo,
        Self::FfnNorm,
        Self::W1,
        Self::W2,
        Self::W3,
        Self::AdaDown,
        Self::AdaUp,
    ];

    fn suffix(self) -> &'static str {
        match self {
            Self::AttentionNorm => "attention_norm.weight",
            Self::Wq => "attention.wq.weight",
            Self::Wk => "attention.wk.weight",
            Self::Wv => "attention.wv.weight",
            Self::Wo => "attention.wo.weight",
            Self::FfnNorm => "ffn_norm.weight",
            Self::W1 => "feed_forward.w1.weight",
            Self::W2 => "feed_forward.w2.weight",
            Self::W3 => "feed_forward.w3.weight",
            Self::AdaDown => "ada_rms_norm_t_cond.0.weight",
            Self::AdaUp => "ada_rms_norm_t_cond.2.weight",
        }
    }
}

/// What a tensor is for. `Display` gives its name in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Token embedding, and output head.
    TokenEmbeddings,
    /// First convolution of the stem, `[dim, mel, 3]`.
    Conv0Weight,
    /// Its bias.
    Conv0Bias,
    /// Second convolution of the stem, stride 2, `[dim, dim, 3]`.
    Conv1Weight,
    /// Its bias.
    Conv1Bias,
    /// Norm after the last encoder layer.
    EncoderNorm,
    /// First linear map of the adapter, `[decoder dim, 4 * encoder dim]`.
    AdapterIn,
    /// Second linear map of the adapter.
    AdapterOut,
    /// Norm before the output head.
    DecoderNorm,
    /// A tensor of an encoder layer.
    Encoder {
        /// Counted from 0.
        layer: u32,
        /// Which one.
        tensor: EncoderTensor,
    },
    /// A tensor of a decoder layer.
    Decoder {
        /// Counted from 0.
        layer: u32,
        /// Which one.
        tensor: DecoderTensor,
    },
}

/// Roles outside the layers, in slot order.
const SINGLE: [Role; 9] = [
    Role::TokenEmbeddings,
    Role::Conv0Weight,
    Role::Conv0Bias,
    Role::Conv1Weight,
    Role::Conv1Bias,
    Role::EncoderNorm,
    Role::AdapterIn,
    Role::AdapterOut,
    Role::DecoderNorm,
];

impl Role {
    /// Every role that a model of these sizes has, once.
    pub fn all(params: &Params) -> impl Iterator<Item = Role> + use<> {
        let biases = params.encoder.use_biases;
        let encoder = (0..params.encoder.n_layers as u32)
            .flat_map(|layer| EncoderTensor::ALL.map(|tensor| (layer, tensor)))
            .filter(move |(_, tensor)| biases || !tensor.is_bias())
            .map(|(layer, tensor)| Role::Encoder { layer, tensor });
        let decoder = (0..params.decoder.n_layers as u32)
            .flat_map(|layer| DecoderTensor::ALL.map(|tensor| Role::Decoder { layer, tensor }));
        SINGLE.into_iter().chain(encoder).chain(decoder)
    }

    /// The roles that these sizes do not have, but those of a model with one more layer of either kind, or with biases.
    fn beyond(params: &Params) -> impl Iterator<Item = Role> + use<> {
        let params = *params;
        let mut larger = params;
        larger.encoder.n_layers += 1;
        larger.encoder.use_biases = true;
        larger.decoder.n_layers += 1;
        Role::all(&larger).filter(move |role| match *role {
            Role::Encoder { layer, tensor } => {
                layer as usize >= params.encoder.n_layers || tensor.is_bias() && !params.encoder.use_biases
            }
            Role::Decoder { layer, .. } => layer as usize >= params.decoder.n_layers,
            _ => false,
        })
    }

    /// Where the role's slot is.
    fn index(self, params: &Params) -> usize {
        let encoder = SINGLE.len();
        let decoder = encoder + params.encoder.n_layers * EncoderTensor::ALL.len();
        match self {
            Role::Encoder { layer, tensor } => encoder + layer as usize * EncoderTensor::ALL.len() + tensor as usize,
            Role::Decoder { layer, tensor } => decoder + layer as usize * DecoderTensor::ALL.len() + tensor as usize,
            single => SINGLE.iter().position(|role| *role == single).unwrap_or(0),
        }
    }

    /// Whether its matrix may be stored in blocks. Norms, biases, the convolutions and the delay conditioning, little
    /// beside the others, may not.
    pub fn takes_blocks(self) -> bool {
        match self {
            Role::TokenEmbeddings | Role::AdapterIn | Role::AdapterOut => true,
            Role::Encoder { tensor, .. } => {
                !tensor.is_bias() && !matches!(tensor, EncoderTensor::AttentionNorm | EncoderTensor::FfnNorm)
            }
            Role::Decoder { tensor, .. } => !matches!(
                tensor,
                DecoderTensor::AttentionNorm | DecoderTensor::FfnNorm | DecoderTensor::AdaDown | DecoderTensor::AdaUp
            ),
            _ => false,
        }
    }

    /// The shape that `params` gives it.
    pub fn shape(self, params: &Params) -> Shape {
        let (e, d) = (&params.encoder, &params.decoder);
        let kernel = CONV_KERNEL;
        match self {
            Role::TokenEmbeddings => Shape::new(&[d.vocab_size, d.dim]),
            Role::Conv0Weight => Shape::new(&[e.dim, crate::audio::MEL_BINS, kernel]),
            Role::Conv1Weight => Shape::new(&[e.dim, e.dim, kernel]),
            Role::Conv0Bias | Role::Conv1Bias | Role::EncoderNorm => Shape::new(&[e.dim]),
            Role::AdapterIn => Shape::new(&[d.dim, params.downsample_factor * e.dim]),
            Role::AdapterOut => Shape::new(&[d.dim, d.dim]),
            Role::DecoderNorm => Shape::new(&[d.dim]),
            Role::Encoder { tensor, .. } => {
                let (q, kv) = (e.n_heads * e.head_dim, e.n_kv_heads * e.head_dim);
                match tensor {
                    EncoderTensor::AttentionNorm | EncoderTensor::FfnNorm => Shape::new(&[e.dim]),
                    EncoderTensor::Wq => Shape::new(&[q, e.dim]),
                    EncoderTensor::WqBias => Shape::new(&[q]),
                    EncoderTensor::Wk | EncoderTensor::Wv => Shape::new(&[kv, e.dim]),
                    EncoderTensor::WvBias => Shape::new(&[kv]),
                    EncoderTensor::Wo => Shape::new(&[e.dim, q]),
                    EncoderTensor::WoBias | EncoderTensor::W2Bias => Shape::new(&[e.dim]),
                    EncoderTensor::W1 | EncoderTensor::W3 => Shape::new(&[e.hidden_dim, e.dim]),
                    EncoderTensor::W2 => Shape::new(&[e.dim, e.hidden_dim]),
                }
            }
            Role::Decoder { tensor, .. } => {
                let (q, kv) = (d.n_heads * d.head_dim, d.n_kv_heads * d.head_dim);
                match tensor {
                    DecoderTensor::AttentionNorm | DecoderTensor::FfnNorm => Shape::new(&[d.dim]),
                    DecoderTensor::Wq => Shape::new(&[q, d.dim]),
                    DecoderTensor::Wk | DecoderTensor::Wv => Shape::new(&[kv, d.dim]),
                    DecoderTensor::Wo => Shape::new(&[d.dim, q]),
                    DecoderTensor::W1 | DecoderTensor::W3 => Shape::new(&[d.hidden_dim, d.dim]),
                    DecoderTensor::W2 => Shape::new(&[d.dim, d.hidden_dim]),
                    DecoderTensor::AdaDown => Shape::new(&[d.ada_dim, d.dim]),
                    DecoderTensor::AdaUp => Shape::new(&[d.dim, d.ada_dim]),
                }
            }
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::TokenEmbeddings => write!(f, "{EMBEDDING_MODULE}tok_embeddings.weight"),
            Role::Conv0Weight => write!(f, "{ENCODER}conv_layers.0.conv.weight"),
            Role::Conv0Bias => write!(f, "{ENCODER}conv_layers.0.conv.bias"),
            Role::Conv1Weight => write!(f, "{ENCODER}conv_layers.1.conv.weight"),
            Role::Conv1Bias => write!(f, "{ENCODER}conv_layers.1.conv.bias"),
            Role::EncoderNorm => write!(f, "{ENCODER}transformer.norm.weight"),
            Role::AdapterIn => write!(f, "{EMBEDDING_MODULE}audio_language_projection.0.weight"),
            Role::AdapterOut => write!(f, "{EMBEDDING_MODULE}audio_language_projection.2.weight"),
            Role::DecoderNorm => write!(f, "norm.weight"),
            Role::Encoder { layer, tensor } => write!(f, "{ENCODER}transformer.layers.{layer}.{}", tensor.suffix()),
            Role::Decoder { layer, tensor } => write!(f, "layers.{layer}.{}", tensor.suffix()),
        }
    }
}

/// A shape, whole up to four dimensions. `Display` writes it as a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    dims: [u64; 4],
    rank: usize,
}

impl Shape {
    fn new(dims: &[usize]) -> Self {
        dims.iter().map(|&d| d as u64).collect()
    }

    /// Rows and columns of the matrix view: a vector is one row, a convolution has one row per output channel.
    fn matrix(&self) -> (usize, usize) {
        let dim = |i: usize| self.dims[i] as usize;
        match self.rank {
            1 => (1, dim(0)),
            2 => (dim(0), dim(1)),
            _ => (dim(0), dim(1) * dim(2)),
        }
    }
}

impl FromIterator<u64> for Shape {
    fn from_iter<I: IntoIterator<Item = u64>>(iter: I) -> Self {
        let mut shape = Shape { dims: [0; 4], rank: 0 };
        for dim in iter {
            if let Some(place) = shape.dims.get_mut(shape.rank) {
                *place = dim;
            }
            shape.rank += 1;
        }
        shape
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        for (i, dim) in self.dims.iter().take(self.rank).enumerate() {
            write!(f, "{}{dim}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str(if self.rank > self.dims.len() { ", …]" } else { "]" })
    }
}

/// Why a file is not the model that `params.json` describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BindError {
    /// The caller's slots are too few.
    TooFewSlots {
        /// Slots that [`Binding::slots`] asks for.
        needed: usize,
        /// Slots that were given.
        given: usize,
    },
    /// The file is a checkpoint of Hugging Face's layout: other names, and rows of wq and wk in another order.
    ///
    /// One such name is enough, since a rename does not put the rows back. Of a file in which every single name was
    /// changed nothing tells what it was.
    HuggingFaceLayout,
    /// The file has an output head of its own, which this model has not: the token embedding is it.
    OutputHead,
    /// The file has a layer or a bias more than `params.json` tells of.
    Unexpected {
        /// The tensor.
        role: Role,
    },
    /// A tensor is not in the file.
    Missing {
        /// The tensor.
        role: Role,
    },
    /// A tensor has another shape.
    WrongShape {
        /// The tensor.
        role: Role,
        /// By `params.json`.
        expected: Shape,
        /// By the file.
        found: Shape,
    },
    /// A tensor has a dtype that the kernels cannot compute with.
    WrongDtype {
        /// The tensor.
        role: Role,
        /// By the file.
        found: Dtype,
    },
    /// The metadata tells of blocks in a tensor, but not in the form of [`crate::format::safetensors::Blocks`].
    InvalidBlocks {
        /// The tensor.
        role: Role,
    },
    /// A tensor is stored in blocks of a scheme, or of a version of it, that the kernels do not know.
    UnknownBlocks {
        /// The tensor.
        role: Role,
        /// By the file.
        found: Label,
    },
    /// A tensor is stored in blocks that may not be: see [`Role::takes_blocks`].
    NoBlocksHere {
        /// The tensor.
        role: Role,
    },
    /// A tensor is stored in blocks, but is not a matrix of bytes.
    BlocksDtype {
        /// The tensor.
        role: Role,
        /// By the file.
        found: Dtype,
    },
    /// A tensor in blocks has not the bytes that its rows and columns take.
    BlocksSize {
        /// The tensor.
        role: Role,
        /// Rows, and bytes of a row; no bytes if the scheme has no rows of so many columns.
        expected: Shape,
        /// By the file.
        found: Shape,
    },
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewSlots { needed, given } => {
                write!(f, "the model needs {needed} tensor slots, {given} were given")
            }
            Self::HuggingFaceLayout => f.write_str(
                "this is a checkpoint in the Hugging Face layout (other tensor names, rows of q and k permuted); \
                 get consolidated.safetensors from the same model repository instead",
            ),
            Self::OutputHead => write!(
                f,
                "tensor {OUTPUT_HEAD} is in the file, but this model's output head is its token embedding"
            ),
            Self::Unexpected { role } => {
                write!(f, "tensor {role} is in the file, but params.json has no place for it")
            }
            Self::Missing { role } => write!(f, "tensor {role} is missing"),
            Self::WrongShape { role, expected, found } => {
                write!(f, "tensor {role} has shape {found}, params.json makes it {expected}")
            }
            Self::WrongDtype { role, found } => {
                write!(f, "tensor {role} has dtype {found}, expected BF16, F16 or F32")
            }
            Self::InvalidBlocks { role } => write!(
                f,
                "the metadata of tensor {role} does not say how it is stored in the form \"q8/1 5120x1280\""
            ),
            Self::UnknownBlocks { role, found } => write!(
                f,
                "tensor {role} is stored as {found}, which this version does not know: it knows {} and {}",
                stored::Q8,
                stored::Q4
            ),
            Self::NoBlocksHere { role } => {
                write!(f, "tensor {role} is stored in blocks, expected BF16, F16 or F32")
            }
            Self::BlocksDtype { role, found } => {
                write!(
                    f,
                    "tensor {role} is stored in blocks and has dtype {found}, expected U8"
                )
            }
            Self::BlocksSize { role, expected, found } => {
                write!(
                    f,
                    "tensor {role} has shape {found} in bytes, its blocks make it {expected}"
                )
            }
        }
    }
}

impl core::error::Error for BindError {}

/// Where one tensor lies in the file. Plain data: one per role, in the caller's storage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot {
    begin: u64,
    storage: Option<Storage>,
}

/// A file found to be the model that `params.json` describes. Plain data; the [`Slot`]s stay with the caller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binding {
    params: Params,
    fingerprint: u64,
}

impl Binding {
    /// Number of slots that [`Binding::new`] fills for a model of these sizes.
    pub fn slots(params: &Params) -> usize {
        SINGLE.len()
            + params.encoder.n_layers * EncoderTensor::ALL.len()
            + params.decoder.n_layers * DecoderTensor::ALL.len()
    }

    /// Looks every role up in `header` and checks its dtype and shape.
    ///
    /// Other tensors in the file are ignored, unless they tell that it is not this model: see [`BindError`].
    ///
    /// # Errors
    /// [`BindError`], on the first tensor that is missing or not as `params` says.
    pub fn new(header: &Header, params: &Params, slots: &mut [Slot]) -> Result<Self, BindError> {
        let (needed, given) = (Self::slots(params), slots.len());
        let slots = slots
            .get_mut(..needed)
            .ok_or(BindError::TooFewSlots { needed, given })?;
        slots.fill(Slot::default());
        if header.iter().any(|tensor| is_hugging_face(&tensor)) {
            return Err(BindError::HuggingFaceLayout);
        }
        let mut hash = Fnv::default();
        hash.params(params);
        for role in Role::all(params) {
            let tensor = find(header, role).ok_or(BindError::Missing { role })?;
            let slot = check(role, params, &tensor)?;
            hash.word(slot.begin);
            hash.bytes(tensor.dtype().name().as_bytes());
            if let Some(label) = slot.storage.and_then(blocks_label) {
                hash.bytes(label.as_bytes());
            }
            if role == Role::DecoderNorm {
                // Two models of one shape differ here; one page of the file is read for it.
                hash.bytes(tensor.bytes().unwrap_or_default());
            }
            slots[role.index(params)] = slot;
        }
        if let Some(role) = Role::beyond(params).find(|&role| find(header, role).is_some()) {
            return Err(BindError::Unexpected { role });
        }
        if header.get(OUTPUT_HEAD).is_some() {
            return Err(BindError::OutputHead);
        }
        Ok(Self {
            params: *params,
            fingerprint: hash.0,
        })
    }

    /// Reports everything for which [`Binding::new`] refuses a file, what it would say first. A tensor of the wrong
    /// dtype and the wrong shape is reported for both.
    pub fn faults(header: &Header, params: &Params, mut report: impl FnMut(BindError)) {
        if header.iter().any(|tensor| is_hugging_face(&tensor)) {
            report(BindError::HuggingFaceLayout);
        }
        for role in Role::all(params) {
            match find(header, role) {
                None => report(BindError::Missing { role }),
                Some(tensor) => {
                    let dtype = check_storage(role, &tensor).map(|_| ());
                    let shape = check_shape(role, params, &tensor);
                    [dtype, shape].into_iter().filter_map(Result::err).for_each(&mut report);
                }
            }
        }
        for role in Role::beyond(params).filter(|&role| find(header, role).is_some()) {
            report(BindError::Unexpected { role });
        }
        if header.get(OUTPUT_HEAD).is_some() {
            report(BindError::OutputHead);
        }
    }

    /// The sizes it was bound with.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Tells this model from others: sizes, places and dtypes of the tensors, and the weights of the final norm.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The tensor of a role, in place; `None` if the role is absent or `bytes` is not the file that was bound.
    pub(super) fn matrix<'a>(&self, bytes: &'a [u8], slots: &[Slot], role: Role) -> Option<Matrix<'a>> {
        let slot = slots.get(role.index(&self.params))?;
        let storage = slot.storage?;
        let (rows, cols) = role.shape(&self.params).matrix();
        let len = rows.checked_mul(storage.row_bytes(cols)?)?;
        let start = usize::try_from(slot.begin).ok()?;
        let range = Range {
            start,
            end: start.checked_add(len)?,
        };
        Matrix::new(bytes.get(range)?, rows, cols, storage)
    }
}

fn find<'a>(header: &Header<'a>, role: Role) -> Option<Tensor<'a>> {
    let mut name = heapless::String::<NAME_CAPACITY>::new();
    // NAME_CAPACITY has room for every name.
    write!(name, "{role}").ok()?;
    header.get(&name)
}

fn is_hugging_face(tensor: &Tensor) -> bool {
    let mut parts = tensor.name().raw().split(|&byte| byte == b'.');
    parts.any(|part| HUGGING_FACE_PARTS.contains(&part))
}

fn check(role: Role, params: &Params, tensor: &Tensor) -> Result<Slot, BindError> {
    let storage = check_storage(role, tensor)?;
    check_shape(role, params, tensor)?;
    Ok(Slot {
        begin: tensor.range().start,
        storage: Some(storage),
    })
}

/// FNV-1a, 64 bits.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }

    fn word(&mut self, word: u64) {
        self.bytes(&word.to_le_bytes());
    }

    fn params(&mut self, params: &Params) {
        let Params {
            encoder: e,
            decoder: d,
            downsample_factor,
            global_log_mel_max,
        } = params;
        for size in [
            e.dim,
            e.n_layers,
            e.n_heads,
            e.n_kv_heads,
            e.head_dim,
            e.hidden_dim,
            e.sliding_window,
        ] {
            self.word(size as u64);
        }
        for size in [
            d.dim,
            d.n_layers,
            d.n_heads,
            d.n_kv_heads,
            d.head_dim,
            d.hidden_dim,
            d.sliding_window,
        ] {
            self.word(size as u64);
        }
        for size in [d.vocab_size, d.ada_dim, *downsample_factor, usize::from(e.use_biases)] {
            self.word(size as u64);
        }
        for float in [
            e.rope_theta,
            d.rope_theta,
            e.norm_eps.into(),
            d.norm_eps.into(),
            (*global_log_mel_max).into(),
        ] {
            self.word(float.to_bits());
        }
    }
}
