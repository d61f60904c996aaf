//! Bytes to meaning: JSON, safetensors, `params.json`, `tekken.json`, models packed for flash, UTF-8 text and WAV.
//!
//! Everything here borrows its input, validates it once and computes nothing. No input can make it panic,
//! recurse or allocate.
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod base64;
pub mod fields;
pub mod image;
pub mod json;
pub mod params;
pub mod safetensors;
mod sort;
pub mod tekken;
pub mod utf8;
pub mod wav;
