//! Samples to log-mel frames.
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod mel;
pub use mel::{HOP, LogMel, MEL_BINS, SAMPLE_RATE, WINDOW};
