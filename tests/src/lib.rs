//! tests.

pub mod npy;
