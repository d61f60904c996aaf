//! Speech to text on CPUs: the std shell around [`voxtral_core`].
//!
//! It maps files, decodes audio, runs threads and prints text; all arithmetic of the model is in core.
//!
//! ```
//! use voxtral::{Error, Model, Pool, Transcriber};
//! use voxtral::core::layout::Options;
//!
//! fn transcribe(samples: &[f32]) -> Result<String, Error> {
//!     let model = Model::embedded()?; // or Model::open(directory)
//!     let pool = Pool::new(2);
//!     let options = Options::from(model.vocabulary());
//!     let mut transcriber = Transcriber::new(&model, &options, &pool)?;
//!     let mut text = Vec::new();
//!     transcriber.push(samples, &mut text)?; // as often as audio comes
//!     transcriber.finish(&mut text)?;
//!     Ok(String::from_utf8_lossy(&text).into_owned())
//! }
//! # assert_eq!(transcribe(&[0.0; 16000])?, "");
//! # Ok::<(), Error>(())
//! ```
#![warn(missing_docs, unreachable_pub)]

pub mod audio;
mod bench;
mod capture;
pub mod commands;
mod compare;
mod error;
pub mod fault;
mod gate;
pub mod interrupt;
pub mod kernels;
mod map;
mod model;
mod onset;
mod pacing;
mod patience;
mod pool;
mod quantize;
mod recognise;
mod shards;
mod start;
mod text;
mod timings;
mod transcriber;
mod usage;
mod weights;
mod words;
mod zeroed;

pub use audio::AudioFile;
pub use capture::{Capture, Taken};
pub use error::Error;
pub use gate::{Gate, GateOptions, Gated};
pub use map::{Bytes, Mapper, Mapping};
pub use model::{EMBEDDED_NAME, Model, OpenTimes};
pub use pool::Pool;
pub use recognise::Kind;
pub use start::{open_start, start_file_name};
pub use text::Text;
pub use timings::{Spent, Timings};
pub use transcriber::{Decided, Listener, Transcriber};
pub use voxtral_core as core;
pub use weights::WeightsFile;
pub use words::{Alternative, Word, Words};
