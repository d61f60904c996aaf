//! The operations by name: shapes are checked here, work is split over threads, and kernels are called.

use super::activations::{Activations, activations_len};
use super::linear::{Linear, panel};
use super::split::split;
use super::{Executor, Kernels, Matrix};

/// Values of an elementwise operation that are split off together.
const VALUE_UNIT: usize = 64;
/// What exp or erf costs in multiplications, roughly.
const EXP_COST: usize = 16;

/// Kernels and the threads they run on: what a pass through the model computes with.
#[derive(Clone, Copy)]
pub struct Ops<'a> {
    pub(super) kernels: Kernels,
    pub(super) executor: &'a dyn Executor,
}

impl<'a> Ops<'a> {
    /// Operations by `kernels` on the threads of `executor`.
    pub fn new(kernels: Kernels, executor: &'a dyn Executor) -> Self {
        Self { kernels, executor }
    }

    /// The kernels that compute.
    pub fn kernels(&self) -> Kernels {
        self.kernels
    }

    /// `y[i] = W x[i] (+ b)` for every row `x[i]` of `x` (`[n][cols]`), into `y` (`[n][rows]`).
    ///
    /// A bias has `rows` elements, as one row or one column. Weights in blocks take their activations as 8 bits, which
    /// are put into `scratch`: [`activations_len`] values at least. Other weights do without.
    pub fn linear(&self, w: &Matrix, bias: Option<&Matrix>, x: &[f32], scratch: &mut [f32], y: &mut [f32]) {
        self.linear_onto(w, bias, x, scratch, y, false);
    }

    /// `y[i] += W x[i] (+ b)`: [`Ops::linear`] onto a residual stream.
    pub fn linear_add(&self, w: &Matrix, bias: Option<&Matrix>, x: &[f32], scratch: &mut [f32], y: &mut [f32]) {
        self.linear_onto(w, bias, x, scratch, y, true);
    }

    fn linear_onto(
        &self,
        w: &Matrix,
        bias: Option<&Matrix>,
        x: &[f32],
        scratch: &mut [f32],
        y: &mut [f32],
        onto: bool,
    ) {
        let n = y.len().checked_div(w.rows()).unwrap_or(0);
        let job = Linear::new(w, bias, x, n, onto).filter(|_| n * w.rows() == y.len());
        debug_assert!(job.is_some(), "linear: shapes disagree");
        let Some(job) = job else { return };
        let Some(job) = self.prepared(job, n, scratch) else {
            return;
        };
        let unit_cost = panel(n).saturating_mul(w.cols()).saturating_mul(n);
        split(self.executor, y, n, panel(n), unit_cost, &|mut band| {
            self.kernels.linear(&job, &mut band);
        });
    }

    /// The job of `n` inputs with them as 8 bits besides, in `scratch`, if its weights take them so. `None` if that is
    /// too short.
    pub(super) fn prepared<'j>(&self, job: Linear<'j>, n: usize, scratch: &'j mut [f32]) -> Option<Linear<'j>> {
        let (storage, cols) = (job.weights().storage(), job.weights().cols());
        if !storage.is_blocks() || cols == 0 {
            return Some(job);
        }
        let scratch = activations_len(n, cols).and_then(|len| scratch.get_mut(..len));
        debug_assert!(scratch.is_some(), "linear: the scratch is too short");
        let quantised = self.quantise(cols, job.inputs(0, n), scratch?);
        Some(job.with_quantised(quantised))
    }

    /// Rows of `cols` activations as 8 bits, in `scratch`.
    fn quantise<'s>(&self, cols: usize, x: &[f32], scratch: &'s mut [f32]) -> Activations<'s> {
        let row = scratch.len() / (x.len() / cols).max(1);
        split(self.executor, scratch, 1, row, 2 * cols, &|mut band| {
            let first = band.start() / row * cols;
            let scratch = band.row(0);
            let x = &x[first..first + scratch.len() / row * cols];
            self.kernels.quantise(cols, x, scratch);
        });
        Activations::new(scratch, cols)
    }

    /// RMSNorm of every row: `y = x / sqrt(mean(x^2) + eps) * w`; `weight` is one row of `dim`, `x` and `y` `[n][dim]`.
    pub fn rms_norm(&self, weight: &Matrix, eps: f32, x: &[f32], y: &mut [f32]) {
        let dim = weight.cols();
        require!(
            weight.rows() == 1 && dim > 0 && x.len() == y.len() && x.len() % dim == 0,
            "rms_norm: shapes disagree"
        );
        split(self.executor, y, 1, dim, 4 * dim, &|mut band| {
            let start = band.start();
            let y = band.row(0);
            self.kernels.rms_norm(weight, eps, &x[start..start + y.len()], y);
        });
    }

    /// Rotates neighbouring pairs `(2j, 2j+1)` of every head: `(a cos - b sin, a sin + b cos)`.
    ///
    /// `x` is `[n][heads][head_dim]`, `rotations` `[n][head_dim / 2]` of (cos, sin), flat: `[n][head_dim]`.
    pub fn rope(&self, rotations: &[f32], heads: usize, head_dim: usize, x: &mut [f32]) {
        let width = heads.saturating_mul(head_dim);
        require!(
            width > 0
                && head_dim % 2 == 0
                && rotations.len() % head_dim == 0
                && (rotations.len() / head_dim).checked_mul(width) == Some(x.len()),
            "rope: shapes disagree"
        );
        split(self.executor, x, 1, width, 2 * width, &|mut band| {
            let first = band.start() / width * head_dim;
            let x = band.row(0);
            let turns = x.len() / width * head_dim;
            self.kernels.rope(&rotations[first..first + turns], width, x);
        });
    }

    /// `gate = silu(gate) * up`, SwiGLU's product: `(gate / (1 + exp(-gate))) * up`.
    pub fn silu_mul(&self, gate: &mut [f32], up: &[f32]) {
        require!(gate.len() == up.len(), "silu_mul: shapes disagree");
        split(
            self.executor,
            gate,
            1,
            VALUE_UNIT,
            VALUE_UNIT * EXP_COST,
            &|mut band| {
                let up = &up[band.start()..];
                self.kernels.silu_mul(band.row(0), up);
            },
        );
    }

    /// `x = x / 2 (1 + erf(x / sqrt 2))`.
    pub fn gelu(&self, x: &mut [f32]) {
        split(self.executor, x, 1, VALUE_UNIT, VALUE_UNIT * EXP_COST, &|mut band| {
            self.kernels.gelu(band.row(0));
        });
    }

    /// `x += row` of token embeddings: row `index` of `w` added to `x` (`[cols]`).
    pub fn add_row(&self, w: &Matrix, index: usize, x: &mut [f32]) {
        require!(index < w.rows() && x.len() == w.cols(), "add_row: shapes disagree");
        if let Some(row) = w.row(index) {
            row.for_each(x, |x, w| *x += w);
        }
    }

    /// `x[i] *= 1 + scale[i % scale.len()]` over rows: the delay conditioning.
    pub fn modulate(&self, scale: &[f32], x: &mut [f32]) {
        require!(
            !scale.is_empty() && x.len() % scale.len() == 0,
            "modulate: shapes disagree"
        );
        for row in x.chunks_exact_mut(scale.len()) {
            for (x, scale) in row.iter_mut().zip(scale) {
                *x *= 1.0 + scale;
            }
        }
    }
}
