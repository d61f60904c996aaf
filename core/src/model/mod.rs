//! The model: tensors bound to roles, and the passes over them. Reads like the paper's equations.
//!
//! ```text
//! mel ─► conv stem ─► encoder ─► 4× concat ─► adapter ─► decoder ─► logits
//! ```
//!
//! A file becomes a model in two steps. [`Binding`] looks every [`Role`] up in the header, checks dtype and shape
//! against `params.json`, and keeps a [`Slot`] for each: where the tensor lies and how it is stored. [`Model`] is the
//! view of the file's bytes through these slots; the passes ask it for a layer's weights as
//! [matrices](crate::kernels::Matrix).
//!
//! The passes, in the order of the data: `stem`, `encoder` (with the adapter) and `decoder`, which starts from the
//! embedding of tokens and ends in the output head. Beside them stand `conditioning`, which turns the delay into one
//! scale per decoder layer and channel, once for a session; `rotary`, the angles of positions; and `cache`, the rings
//! that hold what attention still sees. A [`Probe`] is shown the values of every [`Stage`].
//!
//! Nothing here knows of files, threads or text. The passes take views of the caller's memory that
//! [`crate::layout`] sized for exactly this many rows, so slices and weights agree by construction.

mod binding;
mod cache;
mod conditioning;
pub(crate) mod decoder;
pub(crate) mod encoder;
mod probe;
mod rotary;
pub(crate) mod stem;
mod stored;
mod weights;

pub use binding::{BindError, Binding, DecoderTensor, EncoderTensor, Role, Shape, Slot};
pub use probe::{LogitHash, NoProbe, Probe, Stage};
pub use stored::blocks_label;
pub use weights::{Model, WeightsError};

use crate::kernels::Ops;

pub(crate) use binding::CONV_KERNEL;
pub(crate) use conditioning::condition;

/// What every pass over the model works with.
pub(crate) struct Pass<'a> {
    pub(crate) model: &'a Model<'a>,
    pub(crate) ops: Ops<'a>,
    pub(crate) probe: &'a mut dyn Probe,
}

/// Where a pass is in its stream, in positions of the decoder or in frames of the encoder.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The first of the pass.
    pub(crate) first: u64,
    /// The first of the stream: nothing before it was ever heard.
    pub(crate) origin: u64,
}
