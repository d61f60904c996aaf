//! Samples to log-mel frames.
//!
//! The front end of the model: 25 ms windows every 10 ms, a periodic Hann window, the power spectrum, 128
//! triangular filters on the Slaney mel scale and a logarithm with a fixed ceiling. One window gives one frame, so
//! a stream needs no more than the samples under the current window; which samples lie under a window (centring,
//! padding) is for the caller to say.
//!
//! All arithmetic is single precision, multiply and add apart, in a fixed order: the frames have the same bits on
//! every target.
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod dft;
mod mel;
// Everything in there is evaluated by the compiler: an index out of range or an overflow would be a compile error,
// not a panic of the program.
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
mod tables;

pub use mel::{HOP, LogMel, MEL_BINS, SAMPLE_RATE, WINDOW, filters};
