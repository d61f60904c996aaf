//! The readers of core against other implementations, and against themselves when the bytes come otherwise.
//!
//! Properties, fuzz targets and the replay of their corpora share these: each function panics where two disagree.

pub mod json;
pub mod safetensors;
pub mod wav;
