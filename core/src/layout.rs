//! How many values everything needs, and how the caller's memory is carved.
//!
//! One function per group of buffers names them and their shapes. Run over a counter it gives the size, run over a
//! slice it gives the pieces, so the two cannot disagree. How much of all that a clip makes use of is told by
//! [`Layout::touched`].
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod carve;
mod memory;
mod touched;

use core::fmt;

use carve::{Carve, Count};
pub use memory::Memory;
use memory::{AdapterPass, DecoderPass, EncoderPass, StemPass};
pub(crate) use memory::{
    AdapterScratch, ConditionScratch, DecoderScratch, EncoderScratch, LayerScratch, State, StemCarry, StemScratch,
};
pub use touched::Touched;

use crate::audio::{HOP, MEL_BINS, WINDOW};
use crate::format::params::Params;
use crate::format::tekken::Vocabulary;
pub use crate::kernels::CacheType;
use crate::kernels::{Heads, activations_len};
use crate::model::{CONV_KERNEL, decoder, encoder};

/// Samples of one decoder position: 80 ms.
pub const SAMPLES_PER_POSITION: usize = 1280;
/// Mel frames of one decoder position.
pub const MEL_FRAMES_PER_POSITION: usize = SAMPLES_PER_POSITION / HOP;
/// Milliseconds of one decoder position.
pub const MS_PER_POSITION: usize = 80;
/// Positions that one encoder pass covers unless told otherwise: 2 s.
const DEFAULT_CHUNK: usize = 25;
/// Longest delay that counts through without a gap, in positions (1200 ms); beyond it only [`LONG_DELAY`].
const MAX_DELAY: usize = 15;
/// The one longer delay, in positions (2400 ms).
const LONG_DELAY: usize = 30;
/// Most positions that can be decoded in one pass.
pub const MAX_BATCH: usize = 8;

/// What the caller chooses, beside the sizes of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How far the text lags behind the audio, in positions of 80 ms: 1 to 15, or 30.
    pub delay_tokens: usize,
    /// Positions of silence before the first sample.
    pub left_pad_tokens: usize,
    /// Most positions in one pass of encoder and prefill. More of them are faster for files, fewer answer sooner
    /// and need less memory; the result is the same, bit for bit.
    pub chunk: usize,
    /// Most positions that are decoded in one pass where audio waits, 1 to [`MAX_BATCH`]: the tokens between are guessed
    /// and then verified, so that a pass over the weights brings several tokens. The result is the same, bit for bit;
    /// logits of so many positions need memory.
    pub batch: usize,
    /// Positions that the decoder sees, the current one included, if fewer than the model's window: the KV cache is
    /// smaller by as much. Text may differ from the model's once the audio is longer than this.
    pub decoder_window: Option<usize>,
    /// How both KV caches are stored. bfloat16 takes half of the memory, 8 bits little more than a quarter, and logits
    /// differ a little, or somewhat more.
    pub cache: CacheType,
    /// Whether the logits of each token are kept, for [`Session::logits`](crate::session::Session::logits) and for
    /// probes. Tokens are the same without.
    pub logits: bool,
    /// Whether the end-of-text token ends the session (for files), or is passed over (for live audio).
    pub stop_at_end_of_text: bool,
    /// Id that begins the prompt.
    pub bos: u32,
    /// Id of end of text.
    pub eos: u32,
    /// Id that fills the prompt.
    pub streaming_pad: u32,
}

impl From<&Vocabulary> for Options {
    fn from(vocabulary: &Vocabulary) -> Self {
        Self {
            delay_tokens: vocabulary.delay_tokens,
            left_pad_tokens: vocabulary.left_pad_tokens,
            chunk: DEFAULT_CHUNK,
            batch: MAX_BATCH,
            decoder_window: None,
            cache: CacheType::F32,
            logits: true,
            stop_at_end_of_text: true,
            bos: vocabulary.bos,
            eos: vocabulary.eos,
            streaming_pad: vocabulary.streaming_pad,
        }
    }
}

impl Options {
    /// The same options with another delay.
    ///
    /// # Errors
    /// [`LayoutError::Delay`] unless `ms` is one of 80, 160, …, 1200 or 2400.
    pub fn with_delay_ms(self, ms: usize) -> Result<Self, LayoutError> {
        let delay_tokens = ms / MS_PER_POSITION;
        if ms % MS_PER_POSITION != 0 || !is_delay(delay_tokens) {
            return Err(LayoutError::Delay { ms });
        }
        Ok(Self { delay_tokens, ..self })
    }
}

fn is_delay(tokens: usize) -> bool {
    (1..=MAX_DELAY).contains(&tokens) || tokens == LONG_DELAY
}

/// Why no memory can be laid out, or carved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// The delay is none that the model can be used with.
    Delay {
        /// What was asked for.
        ms: usize,
    },
    /// A chunk of no positions.
    EmptyChunk,
    /// No position, or more than [`MAX_BATCH`], in one pass.
    Batch {
        /// What was asked for.
        asked: usize,
    },
    /// A decoder window of no positions, or of more than the model's.
    Window {
        /// What was asked for, in positions.
        asked: usize,
        /// The model's own.
        model: usize,
    },
    /// A prompt id is not in the vocabulary.
    TokenId {
        /// The id.
        id: u32,
        /// Rows of the token embedding.
        vocab_size: usize,
    },
    /// A buffer is larger than this machine can address.
    TooLarge {
        /// What it is for.
        name: &'static str,
    },
    /// A buffer of the caller is too small.
    BufferTooSmall {
        /// Which of the two: `state` or `scratch`.
        name: &'static str,
        /// Values of f32 that the layout wants.
        needed: usize,
        /// Values of f32 that were given.
        given: usize,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delay { ms } => {
                write!(
                    f,
                    "a delay of {ms} ms is not possible: take one of 80, 160, …, 1200 (steps of 80) or 2400"
                )
            }
            Self::EmptyChunk => f.write_str("a chunk needs at least one position"),
            Self::Batch { asked } => {
                write!(
                    f,
                    "{asked} positions cannot be decoded in one pass, take 1 to {MAX_BATCH}"
                )
            }
            Self::Window { asked, model } => {
                write!(
                    f,
                    "a window of {asked} positions is not possible: the model's is {model}, take 1 to {model}"
                )
            }
            Self::TokenId { id, vocab_size } => {
                write!(
                    f,
                    "token id {id} of the prompt is not in the vocabulary of {vocab_size}"
                )
            }
            Self::TooLarge { name } => write!(f, "the memory for {name} is more than this machine can address"),
            Self::BufferTooSmall { name, needed, given } => {
                write!(f, "the {name} buffer has {given} values of f32, {needed} are needed")
            }
        }
    }
}

impl core::error::Error for LayoutError {}

/// The two regions of the caller's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Survives between calls.
    State,
    /// Activations of one pass. Passes do not run at once and share it, so it is as large as the largest.
    Scratch(Pass),
}

/// The kinds of work that use the scratch region, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Delay conditioning.
    Condition,
    /// Mel frames and convolution stem.
    Stem,
    /// Encoder layers.
    Encoder,
    /// Adapter.
    Adapter,
    /// Decoder and output head.
    Decoder,
}

/// One line of the memory table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Where it lies.
    pub region: Region,
    /// What it holds.
    pub name: &'static str,
    /// Its size in values of f32.
    pub values: usize,
}

/// Sizes of all memory of a session. Plain data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    params: Params,
    options: Options,
    encoder_capacity: usize,
    decoder_capacity: usize,
    state: usize,
    scratch: usize,
}

impl Layout {
    /// Lays out the memory of a session, touching none.
    ///
    /// # Errors
    /// [`LayoutError`] if an option is impossible or a size cannot be addressed.
    pub fn new(params: &Params, options: &Options) -> Result<Self, LayoutError> {
        if !is_delay(options.delay_tokens) {
            return Err(LayoutError::Delay {
                ms: options.delay_tokens.saturating_mul(MS_PER_POSITION),
            });
        }
        if options.chunk == 0 {
            return Err(LayoutError::EmptyChunk);
        }
        if !(1..=MAX_BATCH).contains(&options.batch) {
            return Err(LayoutError::Batch { asked: options.batch });
        }
        let model_window = params.decoder.sliding_window;
        let decoder_window = options.decoder_window.unwrap_or(model_window);
        if !(1..=model_window).contains(&decoder_window) {
            return Err(LayoutError::Window {
                asked: decoder_window,
                model: model_window,
            });
        }
        let vocab_size = params.decoder.vocab_size;
        for id in [options.bos, options.streaming_pad] {
            if id as usize >= vocab_size {
                return Err(LayoutError::TokenId { id, vocab_size });
            }
        }
        let frames = product("encoder frames", &[options.chunk, params.downsample_factor])?;
        let mut layout = Self {
            params: *params,
            options: *options,
            encoder_capacity: ring_capacity("encoder KV cache", params.encoder.sliding_window, frames)?,
            decoder_capacity: ring_capacity("decoder KV cache", decoder_window, options.chunk.max(options.batch))?,
            state: 0,
            scratch: 0,
        };
        layout.state = layout.measure(Region::State, &mut |_| {})?;
        for pass in [Pass::Condition, Pass::Stem, Pass::Encoder, Pass::Adapter, Pass::Decoder] {
            layout.scratch = layout.scratch.max(layout.measure(Region::Scratch(pass), &mut |_| {})?);
        }
        Ok(layout)
    }

    /// The sizes of the model it was made for.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The options it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Length of the state buffer in values of f32.
    pub fn state_len(&self) -> usize {
        self.state
    }

    /// Length of the scratch buffer in values of f32.
    pub fn scratch_len(&self) -> usize {
        self.scratch
    }

    /// Positions that the decoder sees, the current one included: the model's window, or the smaller one of
    /// [`Options::decoder_window`].
    pub fn decoder_window(&self) -> usize {
        self.options
            .decoder_window
            .unwrap_or(self.params.decoder.sliding_window)
    }

    /// Values that the convolutions carry from one pass to the next.
    pub(crate) fn carried_len(&self) -> usize {
        KEPT_MEL_FRAMES
            .saturating_mul(MEL_BINS)
            .saturating_add(KEPT_CONV0_FRAMES.saturating_mul(self.params.encoder.dim))
    }

    /// Positions that the decoder's KV cache holds: its window and the widest pass.
    pub fn decoder_capacity(&self) -> usize {
        self.decoder_capacity
    }

    /// Encoder frames that the encoder's KV cache holds: its window and the widest pass.
    pub fn encoder_capacity(&self) -> usize {
        self.encoder_capacity
    }

    /// Shows every buffer. Those of [`Region::Scratch`] share memory between passes.
    pub fn items(&self, mut show: impl FnMut(Item)) {
        use Pass::{Adapter, Condition, Decoder, Encoder, Stem};
        let scratch = [Condition, Stem, Encoder, Adapter, Decoder].map(Region::Scratch);
        for region in core::iter::once(Region::State).chain(scratch) {
            // Everything was measured before, in `new`.
            let _ = self.measure(region, &mut show);
        }
    }

    fn measure(&self, region: Region, show: &mut dyn FnMut(Item)) -> Result<usize, LayoutError> {
        let mut count = Count {
            region,
            values: 0,
            show,
        };
        let chunk = self.options.chunk;
        match region {
            Region::State => self.state(&mut count).map(|_| ())?,
            Region::Scratch(Pass::Condition) => self.condition(&mut count).map(|_| ())?,
            Region::Scratch(Pass::Stem) => self.stem(&mut count, chunk).map(|_| ())?,
            Region::Scratch(Pass::Encoder) => self.encoder(&mut count, chunk).map(|_| ())?,
            Region::Scratch(Pass::Adapter) => self.adapter(&mut count, chunk).map(|_| ())?,
            Region::Scratch(Pass::Decoder) => self.decoder(&mut count, chunk.max(self.options.batch)).map(|_| ())?,
        }
        Ok(count.values)
    }

    fn state<C: Carve>(&self, c: &mut C) -> Result<State<C::Piece>, LayoutError> {
        let (e, d) = (&self.params.encoder, &self.params.decoder);
        let chunk = self.options.chunk;
        Ok(State {
            samples: c.piece("samples", &[window_samples(chunk)?])?,
            stem: StemCarry {
                mel: c.piece("carried mel frames", &[KEPT_MEL_FRAMES, MEL_BINS])?,
                conv0: c.piece("carried convolution output", &[KEPT_CONV0_FRAMES, e.dim])?,
            },
            encoder_cache: self.cache(
                c,
                ["encoder KV cache", "encoder KV cache, bf16", "encoder KV cache, q8"],
                e.n_layers,
                encoder::heads(e),
                self.encoder_capacity,
            )?,
            embeddings: c.piece("audio embeddings", &[chunk, d.dim])?,
            ada: c.piece("delay conditioning", &[d.n_layers, d.dim])?,
            decoder_cache: self.cache(
                c,
                ["decoder KV cache", "decoder KV cache, bf16", "decoder KV cache, q8"],
                d.n_layers,
                decoder::heads(d),
                self.decoder_capacity,
            )?,
        })
    }

    /// The caches of all layers, `[n_layers][2]` times a ring's slice; `names` are those of f32, bfloat16 and 8 bits.
    fn cache<C: Carve>(
        &self,
        c: &mut C,
        names: [&'static str; 3],
        n_layers: usize,
        heads: Heads,
        capacity: usize,
    ) -> Result<C::Piece, LayoutError> {
        let [f32, bf16, q8] = names;
        let cache = self.options.cache;
        let name = match cache {
            CacheType::F32 => f32,
            CacheType::Bf16 => bf16,
            CacheType::Q8 => q8,
        };
        let rows = product(name, &[heads.n_kv_heads, capacity])?;
        let half = cache
            .floats(rows, heads.head_dim)
            .ok_or(LayoutError::TooLarge { name })?;
        c.piece(name, &[n_layers, 2, half])
    }

    fn condition<C: Carve>(&self, c: &mut C) -> Result<ConditionScratch<C::Piece>, LayoutError> {
        let d = &self.params.decoder;
        Ok(ConditionScratch {
            t_cond: c.piece("embedding of the delay", &[d.dim])?,
            hidden: c.piece("hidden layer", &[d.ada_dim])?,
        })
    }

    /// What lies in front of the stem's, the layers' and the adapter's scratch alike.
    fn encoder_stream<C: Carve>(&self, c: &mut C, frames: usize) -> Result<EncoderScratch<C::Piece>, LayoutError> {
        let e = &self.params.encoder;
        Ok(EncoderScratch {
            rotations: c.piece("rotations", &[frames, e.head_dim])?,
            x: c.piece("residual stream", &[frames, e.dim])?,
        })
    }

    fn stem<C: Carve>(&self, c: &mut C, positions: usize) -> Result<StemPass<C::Piece>, LayoutError> {
        let e = &self.params.encoder;
        let frames = self.frames(positions)?;
        let mel_frames = product("mel frames", &[positions, MEL_FRAMES_PER_POSITION])?;
        let encoder = self.encoder_stream(c, frames)?;
        let scratch = StemScratch {
            mel: c.piece("mel frames", &[mel_frames.saturating_add(KEPT_MEL_FRAMES), MEL_BINS])?,
            mel_patches: c.piece("patches of mel frames", &[mel_frames, MEL_BINS, CONV_KERNEL])?,
            conv0: c.piece(
                "first convolution",
                &[mel_frames.saturating_add(KEPT_CONV0_FRAMES), e.dim],
            )?,
            conv0_patches: c.piece("patches of the first convolution", &[frames, e.dim, CONV_KERNEL])?,
        };
        Ok((encoder, scratch))
    }

    fn encoder<C: Carve>(&self, c: &mut C, positions: usize) -> Result<EncoderPass<C::Piece>, LayoutError> {
        let e = &self.params.encoder;
        let frames = self.frames(positions)?;
        Ok((
            self.encoder_stream(c, frames)?,
            layer(c, frames, e.dim, encoder::heads(e), e.hidden_dim)?,
        ))
    }

    fn adapter<C: Carve>(&self, c: &mut C, positions: usize) -> Result<AdapterPass<C::Piece>, LayoutError> {
        let frames = self.frames(positions)?;
        let encoder = self.encoder_stream(c, frames)?;
        let concatenated = product(
            "normed frames",
            &[self.params.downsample_factor, self.params.encoder.dim],
        )?;
        let scratch = AdapterScratch {
            n: c.piece("normed frames", &[frames, self.params.encoder.dim])?,
            hidden: c.piece("hidden layer", &[positions, self.params.decoder.dim])?,
            quantised: quantised(c, positions, concatenated.max(self.params.decoder.dim))?,
        };
        Ok((encoder, scratch))
    }

    fn decoder<C: Carve>(&self, c: &mut C, positions: usize) -> Result<DecoderPass<C::Piece>, LayoutError> {
        let d = &self.params.decoder;
        let scratch = DecoderScratch {
            logits: c.piece("logits", &[self.options.batch, self.logits_width()])?,
            last: c.piece("normed last positions", &[self.options.batch, d.dim])?,
            rotations: c.piece("rotations", &[positions, d.head_dim])?,
            x: c.piece("residual stream", &[positions, d.dim])?,
        };
        Ok((scratch, layer(c, positions, d.dim, decoder::heads(d), d.hidden_dim)?))
    }

    /// Values of a row of logits, if they are kept.
    fn logits_width(&self) -> usize {
        if self.options.logits {
            self.params.decoder.vocab_size
        } else {
            0
        }
    }

    fn frames(&self, positions: usize) -> Result<usize, LayoutError> {
        product("encoder frames", &[positions, self.params.downsample_factor])
    }
}

/// Mel frames of the past that the stem needs: kernel - stride.
const KEPT_MEL_FRAMES: usize = 2;
/// Outputs of the first convolution that the second needs of the past: kernel - stride.
const KEPT_CONV0_FRAMES: usize = 1;

/// Samples under the mel windows of `positions` positions.
pub(crate) fn window_samples(positions: usize) -> Result<usize, LayoutError> {
    let name = "samples";
    product(name, &[positions, SAMPLES_PER_POSITION])?
        .checked_add(WINDOW.abs_diff(HOP))
        .ok_or(LayoutError::TooLarge { name })
}

fn layer<C: Carve>(
    c: &mut C,
    rows: usize,
    dim: usize,
    heads: Heads,
    hidden_dim: usize,
) -> Result<LayerScratch<C::Piece>, LayoutError> {
    let widest = dim.max(hidden_dim).max(heads.n_heads.saturating_mul(heads.head_dim));
    Ok(LayerScratch {
        n: c.piece("normed stream", &[rows, dim])?,
        q: c.piece("queries", &[rows, heads.n_heads, heads.head_dim])?,
        k: c.piece("keys", &[rows, heads.n_kv_heads, heads.head_dim])?,
        v: c.piece("values", &[rows, heads.n_kv_heads, heads.head_dim])?,
        a: c.piece("attention output", &[rows, heads.n_heads, heads.head_dim])?,
        gate: c.piece("feed-forward gate", &[rows, hidden_dim])?,
        up: c.piece("feed-forward up", &[rows, hidden_dim])?,
        quantised: quantised(c, rows, widest)?,
    })
}

/// What linear maps of rows of at most `width` values put their input into, where weights lie in blocks.
fn quantised<C: Carve>(c: &mut C, rows: usize, width: usize) -> Result<C::Piece, LayoutError> {
    let name = "activations of 8 bits";
    c.piece(
        name,
        &[activations_len(rows, width).ok_or(LayoutError::TooLarge { name })?],
    )
}

/// Room for what the first query of the widest pass still sees, and for the pass itself.
fn ring_capacity(name: &'static str, window: usize, widest: usize) -> Result<usize, LayoutError> {
    window
        .saturating_sub(1)
        .checked_add(widest)
        .ok_or(LayoutError::TooLarge { name })
}

fn product(name: &'static str, shape: &[usize]) -> Result<usize, LayoutError> {
    shape
        .iter()
        .try_fold(1usize, |product, &dim| product.checked_mul(dim))
        .ok_or(LayoutError::TooLarge { name })
}
