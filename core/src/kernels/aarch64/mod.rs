//! Kernels for AArch64.

pub(super) mod neon;
mod neon_blocks;
