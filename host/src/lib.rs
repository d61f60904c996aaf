//! Speech to text on CPUs: the std shell around [`voxtral_core`].
//!
//! It maps files, decodes audio, runs threads and prints text; all arithmetic of the model is in core.
#![warn(missing_docs, unreachable_pub)]

pub mod commands;
mod error;
mod map;
mod model;
mod pool;
mod text;
mod transcriber;
mod wav;

pub use error::Error;
pub use map::{Bytes, Mapper, Mapping};
pub use model::{EMBEDDED_NAME, Model};
pub use pool::Pool;
pub use text::Text;
pub use transcriber::Transcriber;
pub use voxtral_core as core;
pub use wav::WavFile;
