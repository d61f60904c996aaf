//! The operations that cost time, over [`Matrix`] views of weights and slices of activations.
//!
//! Sums have one canonical order, the same for every batch size, chunk and number of threads: a dot product runs
//! along K in 8 virtual lanes (lane `l` takes the elements `k % 8 == l` in rising order), reduced by one fixed tree.

mod executor;
mod matrix;

pub use executor::{Executor, Serial};
pub use matrix::{Matrix, Storage};

/// A choice of instruction set: a proof that this machine has it.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {}

impl Kernels {
    /// The scalar kernels, which run everywhere.
    pub const fn baseline() -> Self {
        Self {}
    }
    /// The best set that core can detect by itself (CPUID on x86-64), else the baseline.
    pub fn detect() -> Self {
        Self {}
    }
}

/// Kernels and the threads they run on: what a pass through the model computes with.
#[derive(Clone, Copy)]
pub struct Ops<'a> {
    kernels: Kernels,
    executor: &'a dyn Executor,
}

/// Sizes of one attention: `n_heads` query heads share `n_kv_heads` key and value heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads; query head `h` uses `h / (n_heads / n_kv_heads)`.
    pub n_kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
}

/// Keys and values of one layer as a ring over absolute positions.
///
/// Both slices are `[n_kv_heads][capacity][head_dim]`; position `p` is at slot `p % capacity`.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    /// Rotated keys.
    pub keys: &'a [f32],
    /// Values.
    pub values: &'a [f32],
    /// Positions that fit.
    pub capacity: usize,
}

impl<'a> Ops<'a> {
    /// Operations by `kernels` on the threads of `executor`.
    pub fn new(kernels: Kernels, executor: &'a dyn Executor) -> Self {
        Self { kernels, executor }
    }

    /// `y[i] = W x[i] (+ b)` for every row `x[i]` of `x` (`[n][cols]`), into `y` (`[n][rows]`).
    pub fn linear(&self, _w: &Matrix, _bias: Option<&Matrix>, _x: &[f32], _y: &mut [f32]) {
        let _ = (self.kernels, self.executor);
    }

    /// `y[i] += W x[i] (+ b)`: [`Ops::linear`] onto a residual stream.
    pub fn linear_add(&self, _w: &Matrix, _bias: Option<&Matrix>, _x: &[f32], _y: &mut [f32]) {}

    /// RMSNorm of every row: `y = x / sqrt(mean(x^2) + eps) * w`; `weight` is one row of `dim`, `x` and `y` `[n][dim]`.
    pub fn rms_norm(&self, _weight: &Matrix, _eps: f32, _x: &[f32], _y: &mut [f32]) {}

    /// Rotates neighbouring pairs `(2j, 2j+1)` of every head: `(a cos - b sin, a sin + b cos)`.
    ///
    /// `x` is `[n][heads][head_dim]`, `rotations` `[n][head_dim / 2]` of (cos, sin), flat: `[n][head_dim]`.
    pub fn rope(&self, _rotations: &[f32], _heads: usize, _head_dim: usize, _x: &mut [f32]) {}

    /// Writes `n` new positions, `first..first + n`, into a ring: `x` is `[n][n_kv_heads][head_dim]`, `ring`
    /// `[n_kv_heads][capacity][head_dim]`.
    pub fn ring_store(&self, _heads: Heads, _capacity: usize, _first: u64, _x: &[f32], _ring: &mut [f32]) {}

    /// Causal attention with a sliding window: the query at position `p` sees `p - window + 1 ..= p`.
    ///
    /// `q` is `[n][n_heads][head_dim]` at positions `first..first + n`, already in the ring; `y` has its shape.
    pub fn attention(&self, _heads: Heads, _window: usize, _first: u64, _q: &[f32], _ring: Ring, _y: &mut [f32]) {}

    /// `gate = silu(gate) * up`, SwiGLU's product.
    pub fn silu_mul(&self, _gate: &mut [f32], _up: &[f32]) {}

    /// `x = x / 2 (1 + erf(x / sqrt 2))`.
    pub fn gelu(&self, _x: &mut [f32]) {}

    /// `x[i] += row` of token embeddings: row `index` of `w` added to `x` (`[cols]`).
    pub fn add_row(&self, _w: &Matrix, _index: usize, _x: &mut [f32]) {}

    /// `x[i] *= 1 + scale[i % scale.len()]` over rows: the delay conditioning.
    pub fn modulate(&self, _scale: &[f32], _x: &mut [f32]) {}

    /// Index of the largest value, the lowest of equals; `None` if any is NaN.
    pub fn argmax(&self, _x: &[f32]) -> Option<usize> {
        None
    }
}
