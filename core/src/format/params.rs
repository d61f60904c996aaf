//! `params.json`: the sizes of the model.
//!
//! The published file gives every value that the engine uses, so each of them must be there: a missing size has no
//! sensible default, and a guessed one would be found out only by nonsense text. Three keys alone may be absent or
//! null. Two name something that needs no saying: `transcription_format`, and `tied_embeddings`, whose absence is
//! settled by the weights (they have no output head, or are refused). The third, `chunk_length_s`, must be.
//!
//! What the front end and the layers' equations fix is required to be what they are. Keys that change nothing here
//! are skipped unread: `vocab_size` and `use_cache` of the encoder, `max_source_positions` (the positions are rotary),
//! `model_max_length` (the caches are rings), `model_parallel`, and all unknown ones.
//!
//! # Bounds
//!
//! A single size (a width, a window, a vocabulary, heads × head width) is at most [`MAX_SIZE`], a number of layers at
//! most [`MAX_LAYERS`]. No tensor that these sizes imply has more than [`MAX_ELEMENTS`] elements, which on a 32-bit
//! target also says that its bytes, stored as f32, can be addressed. So products of two sizes, or the bytes of one
//! tensor, cannot wrap anywhere in the engine.

use core::fmt;

use super::fields::{Expected, FieldError, Fields, Object};

/// The largest single size.
pub const MAX_SIZE: u64 = 1 << 24;

/// The largest number of layers.
pub const MAX_LAYERS: u64 = 1 << 10;

/// The most elements in one tensor: 2^40, and no more than a slice of f32 can have on this target.
pub const MAX_ELEMENTS: u64 = {
    let addressable = isize::MAX as u64 / 4;
    if addressable < 1 << 40 { addressable } else { 1 << 40 }
};

/// The whole of `params.json` that the engine uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// The causal audio encoder.
    pub encoder: EncoderParams,
    /// The text decoder.
    pub decoder: DecoderParams,
    /// Encoder frames that are concatenated to one decoder position (4).
    pub downsample_factor: usize,
    /// Maximum of the log-mel scale (1.5): everything 8 below it is clipped.
    pub global_log_mel_max: f32,
}

/// Sizes of the encoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EncoderParams {
    /// Width of the residual stream.
    pub dim: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads.
    pub n_kv_heads: usize,
    /// Width of one head (even).
    pub head_dim: usize,
    /// Width inside the feed-forward.
    pub hidden_dim: usize,
    /// Keys that a query sees, itself included.
    pub sliding_window: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Added to the mean square inside RMSNorm's root.
    pub norm_eps: f32,
    /// Whether wq, wv, wo and w2 have biases (the convolutions always have).
    pub use_biases: bool,
}

/// Sizes of the decoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecoderParams {
    /// Width of the residual stream.
    pub dim: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads (divides `n_heads`).
    pub n_kv_heads: usize,
    /// Width of one head (even).
    pub head_dim: usize,
    /// Width inside the feed-forward.
    pub hidden_dim: usize,
    /// Keys that a query sees, itself included.
    pub sliding_window: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Added to the mean square inside RMSNorm's root.
    pub norm_eps: f32,
    /// Rows of the token embedding.
    pub vocab_size: usize,
    /// Width of the delay conditioning's hidden layer.
    pub ada_dim: usize,
}

/// Why `params.json` was refused.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// One value is missing, repeated, wrong or not supported.
    Field(FieldError),
    /// The sizes are possible one by one, but a tensor that they imply is not.
    TooLarge {
        /// The product, in the names of the file.
        what: &'static str,
        /// The most that it may be.
        max: u64,
        /// What it is.
        found: u64,
    },
}

impl From<FieldError> for Error {
    fn from(error: FieldError) -> Self {
        Error::Field(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Field(error) => error.fmt(f),
            Error::TooLarge { what, max, found } => write!(f, "{what} is {found}, but at most {max} is possible"),
        }
    }
}

impl core::error::Error for Error {}

const ENCODER: &str = "multimodal.whisper_model_args.encoder_args";
const AUDIO: &str = "multimodal.whisper_model_args.encoder_args.audio_encoding_args";
const DOWNSAMPLE: &str = "multimodal.whisper_model_args.downsample_args";

/// Every key that is looked at.
const PATHS: [&str; 43] = [
    "dim",
    "n_layers",
    "head_dim",
    "hidden_dim",
    "n_heads",
    "n_kv_heads",
    "use_biases",
    "causal",
    "rope_theta",
    "norm_eps",
    "vocab_size",
    "tied_embeddings",
    "sliding_window",
    "ada_rms_norm_t_cond",
    "ada_rms_norm_t_cond_dim",
    "multimodal",
    "multimodal.whisper_model_args",
    "multimodal.whisper_model_args.encoder_args",
    "multimodal.whisper_model_args.encoder_args.dim",
    "multimodal.whisper_model_args.encoder_args.n_layers",
    "multimodal.whisper_model_args.encoder_args.head_dim",
    "multimodal.whisper_model_args.encoder_args.hidden_dim",
    "multimodal.whisper_model_args.encoder_args.n_heads",
    "multimodal.whisper_model_args.encoder_args.n_kv_heads",
    "multimodal.whisper_model_args.encoder_args.use_biases",
    "multimodal.whisper_model_args.encoder_args.causal",
    "multimodal.whisper_model_args.encoder_args.rope_theta",
    "multimodal.whisper_model_args.encoder_args.norm_eps",
    "multimodal.whisper_model_args.encoder_args.pos_embed",
    "multimodal.whisper_model_args.encoder_args.ffn_type",
    "multimodal.whisper_model_args.encoder_args.norm_type",
    "multimodal.whisper_model_args.encoder_args.sliding_window",
    "multimodal.whisper_model_args.encoder_args.audio_encoding_args",
    "multimodal.whisper_model_args.encoder_args.audio_encoding_args.sampling_rate",
    "multimodal.whisper_model_args.encoder_args.audio_encoding_args.frame_rate",
    "multimodal.whisper_model_args.encoder_args.audio_encoding_args.num_mel_bins",
    "multimodal.whisper_model_args.encoder_args.audio_encoding_args.hop_length",
    "multimodal.whisper_model_args.encoder_args.audio_encoding_args.window_size",
    "multimodal.whisper_model_args.encoder_args.audio_encoding_args.chunk_length_s",
    "multimodal.whisper_model_args.encoder_args.audio_encoding_args.global_log_mel_max",
    "multimodal.whisper_model_args.encoder_args.audio_encoding_args.transcription_format",
    "multimodal.whisper_model_args.downsample_args",
    "multimodal.whisper_model_args.downsample_args.downsample_factor",
];

/// The sizes that encoder and decoder name alike.
struct Tower {
    dim: usize,
    n_layers: usize,
    n_heads: usize,
    n_kv_heads: usize,
    head_dim: usize,
    hidden_dim: usize,
    sliding_window: usize,
    rope_theta: f64,
    norm_eps: f32,
}

impl Tower {
    fn read<const N: usize>(object: Object<'_, N>) -> Result<Self, Error> {
        let size = |name| object.integer(name, 1, MAX_SIZE);
        let n_heads = size("n_heads")?;
        let n_kv_heads = size("n_kv_heads")?;
        if n_heads.checked_rem(n_kv_heads) != Some(0) {
            let expected = Expected::MultipleOf {
                what: "n_kv_heads",
                value: n_kv_heads,
            };
            return Err(object.refuse("n_heads", expected).into());
        }
        let head_dim = size("head_dim")?;
        even(object, "head_dim", head_dim)?;
        object.fixed("causal", Expected::ExactlyBool(true))?;
        Ok(Self {
            dim: usize_of(size("dim")?),
            n_layers: usize_of(object.integer("n_layers", 1, MAX_LAYERS)?),
            n_heads: usize_of(n_heads),
            n_kv_heads: usize_of(n_kv_heads),
            head_dim: usize_of(head_dim),
            hidden_dim: usize_of(size("hidden_dim")?),
            sliding_window: usize_of(size("sliding_window")?),
            // A base below 1 would turn the frequencies upside down, and none beyond 10^12 is told from 10^12.
            rope_theta: object.number("rope_theta", 1.0, 1e12)?,
            // Below the least normal f32 it would vanish, or be flushed to nothing on some targets.
            norm_eps: object.number("norm_eps", f64::from(f32::MIN_POSITIVE), 1.0)? as f32,
        })
    }
}

/// Refuses an odd number.
fn even<const N: usize>(object: Object<'_, N>, name: &'static str, value: u64) -> Result<(), Error> {
    if value & 1 == 0 {
        return Ok(());
    }
    Err(object
        .refuse(name, Expected::MultipleOf { what: "two", value: 2 })
        .into())
}

/// Numbers that passed the bounds above fit every target.
fn usize_of(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

impl Params {
    /// Reads `params.json`.
    ///
    /// # Errors
    ///
    /// What is missing, repeated, impossible or not supported, by the dotted path of its key, with what was expected
    /// and what was found; or the first product of sizes that is beyond the bounds in the head of this module.
    pub fn parse(json: &[u8]) -> Result<Self, Error> {
        let fields = Fields::read::<Error>(json, &PATHS, |_, _| Ok(None))?;
        let root = fields.object("");
        let encoder = fields.object(ENCODER);
        let audio = fields.object(AUDIO);

        audio.fixed("sampling_rate", Expected::ExactlyNumber(16000.0))?;
        audio.fixed("frame_rate", Expected::ExactlyNumber(12.5))?;
        audio.fixed("num_mel_bins", Expected::ExactlyNumber(128.0))?;
        audio.fixed("hop_length", Expected::ExactlyNumber(160.0))?;
        audio.fixed("window_size", Expected::ExactlyNumber(400.0))?;
        audio.fixed_if_any("chunk_length_s", Expected::Null)?;
        audio.fixed_if_any("transcription_format", Expected::ExactlyString("streaming"))?;
        encoder.fixed("pos_embed", Expected::ExactlyString("rope"))?;
        encoder.fixed("ffn_type", Expected::ExactlyString("swiglu"))?;
        encoder.fixed("norm_type", Expected::ExactlyString("rms_norm"))?;
        root.fixed("use_biases", Expected::ExactlyBool(false))?;
        root.fixed_if_any("tied_embeddings", Expected::ExactlyBool(true))?;
        root.fixed("ada_rms_norm_t_cond", Expected::ExactlyBool(true))?;
        // Four encoder frames of 20 ms make one position of 80 ms.
        fields
            .object(DOWNSAMPLE)
            .fixed("downsample_factor", Expected::ExactlyNumber(4.0))?;

        let e = Tower::read(encoder)?;
        let d = Tower::read(root)?;
        // Half the width of the delay's embedding are cosines and half are sines.
        even(root, "dim", d.dim as u64)?;
        let params = Params {
            encoder: EncoderParams {
                dim: e.dim,
                n_layers: e.n_layers,
                n_heads: e.n_heads,
                n_kv_heads: e.n_kv_heads,
                head_dim: e.head_dim,
                hidden_dim: e.hidden_dim,
                sliding_window: e.sliding_window,
                rope_theta: e.rope_theta,
                norm_eps: e.norm_eps,
                use_biases: encoder.boolean("use_biases")?,
            },
            decoder: DecoderParams {
                dim: d.dim,
                n_layers: d.n_layers,
                n_heads: d.n_heads,
                n_kv_heads: d.n_kv_heads,
                head_dim: d.head_dim,
                hidden_dim: d.hidden_dim,
                sliding_window: d.sliding_window,
                rope_theta: d.rope_theta,
                norm_eps: d.norm_eps,
                vocab_size: usize_of(root.integer("vocab_size", 1, MAX_SIZE)?),
                ada_dim: usize_of(root.integer("ada_rms_norm_t_cond_dim", 1, MAX_SIZE)?),
            },
            downsample_factor: 4,
            global_log_mel_max: audio.number("global_log_mel_max", -100.0, 100.0)? as f32,
        };
        params.check_products()?;
        Ok(params)
    }

    /// Checks every product of sizes that a tensor, or a row of activations, of this model has.
    fn check_products(&self) -> Result<(), Error> {
        let (e, d) = (&self.encoder, &self.decoder);
        size("encoder n_heads * head_dim", &[e.n_heads, e.head_dim])?;
        size("encoder dim * downsample_factor", &[e.dim, self.downsample_factor])?;
        size("n_heads * head_dim", &[d.n_heads, d.head_dim])?;
        elements("encoder dim * 128 mel bins * 3", &[e.dim, 128, 3])?;
        elements("encoder dim * dim * 3", &[e.dim, e.dim, 3])?;
        elements("encoder dim * n_heads * head_dim", &[e.dim, e.n_heads, e.head_dim])?;
        elements("encoder dim * hidden_dim", &[e.dim, e.hidden_dim])?;
        elements(
            "encoder dim * downsample_factor * dim",
            &[e.dim, self.downsample_factor, d.dim],
        )?;
        elements("dim * dim", &[d.dim, d.dim])?;
        elements("dim * n_heads * head_dim", &[d.dim, d.n_heads, d.head_dim])?;
        elements("dim * hidden_dim", &[d.dim, d.hidden_dim])?;
        elements("dim * ada_rms_norm_t_cond_dim", &[d.dim, d.ada_dim])?;
        elements("vocab_size * dim", &[d.vocab_size, d.dim])
    }
}

/// A product that is itself a width.
fn size(what: &'static str, factors: &[usize]) -> Result<(), Error> {
    at_most(what, factors, MAX_SIZE)
}

/// A product that is the number of elements of a tensor.
fn elements(what: &'static str, factors: &[usize]) -> Result<(), Error> {
    at_most(what, factors, MAX_ELEMENTS)
}

fn at_most(what: &'static str, factors: &[usize], max: u64) -> Result<(), Error> {
    // Three factors of at most 2^24 can pass 2^64; saturated they are still too large.
    let found = factors
        .iter()
        .fold(1, |product: u64, &factor| product.saturating_mul(factor as u64));
    if found <= max {
        Ok(())
    } else {
        Err(Error::TooLarge { what, max, found })
    }
}
