//! What an instruction set has to bring, and the operations that are the same code for every set.
//!
//! The functions here are generic and always inlined: each set compiles them for itself, inside of functions that may
//! use its instructions. What they do besides calling the set is element by element, without a fused operation, so it
//! has equal bits however the compiler arranges it.

use super::attention::{Attention, Scores};
use super::linear::Linear;
use super::ring::Stored;
use super::split::Band;
use super::{Class, Matrix};

/// Rows of equal width in a slice, at equal distances.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) values: &'a [f32],
    pub(super) stride: usize,
    pub(super) width: usize,
}

impl<'a> Rows<'a> {
    /// Row `index`; it exists, or this panics.
    #[inline(always)]
    pub(super) fn row(&self, index: usize) -> &'a [f32] {
        &self.values[index * self.stride..][..self.width]
    }
}

/// An instruction set: the operations whose order of sums is canonical, each in its own way.
///
/// # Safety
/// The methods are unsafe because the machine has to have the set; nothing else is asked of a caller.
pub(super) trait Set {
    /// A short name for people.
    const NAME: &'static str;
    /// How its multiply-accumulate rounds.
    const CLASS: Class;

    /// The outputs of a linear map that lie in a band: its columns are rows of the weights.
    unsafe fn linear(job: &Linear, band: &mut Band);

    /// [`super::activations::quantise`].
    unsafe fn quantise(cols: usize, x: &[f32], out: &mut [f32]);

    /// The canonical dot product of two slices of one length.
    unsafe fn dot(a: &[f32], b: &[f32]) -> f32;

    /// `scores[c][at + j] = dot(q[c], keys[j])` for every `c` below `scores.len()` and every row of `keys`, which is
    /// as wide as those of `q`. As much memory as the keys take is needed next from `ahead` on, any address.
    unsafe fn scores(q: Rows, keys: Stored, ahead: *const u8, at: usize, scores: &mut [Scores]);

    /// `y[c] += p[c][at + j] * values[j]` for every row `c` of `y`, over `j` in rising order; `values` has rows as
    /// wide as those of `y`, and `ahead` is as in [`Set::scores`].
    unsafe fn accumulate(p: &[Scores], at: usize, values: Stored, ahead: *const u8, y: &mut Band);

    /// `scores[j] *= scale`; the largest of them and of `max`, NaN aside.
    unsafe fn scale_and_max(scale: f32, max: f32, scores: &mut Scores) -> f32;

    /// `scores[j] = exp(scores[j] - max)`; their canonical sum.
    unsafe fn exp_and_sum(max: f32, scores: &mut Scores) -> f32;

    /// `gate = silu(gate) * up`, as far as both go.
    unsafe fn silu_mul(gate: &mut [f32], up: &[f32]);

    /// `x = gelu(x)`.
    unsafe fn gelu(x: &mut [f32]);
}

/// The functions of one instruction set, each compiled with its instructions.
///
/// They are unsafe because the machine has to have that set; nothing else is asked of a caller.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) class: Class,
    /// [`Set::linear`].
    pub(super) linear: unsafe fn(&Linear, &mut Band),
    /// [`Set::quantise`].
    pub(super) quantise: unsafe fn(usize, &[f32], &mut [f32]),
    /// [`super::attention::attend`].
    pub(super) attention: unsafe fn(&Attention, &mut Band),
    /// [`rms_norm`].
    pub(super) rms_norm: unsafe fn(&Matrix, f32, &[f32], &mut [f32]),
    /// [`rope`].
    pub(super) rope: unsafe fn(&[f32], usize, &mut [f32]),
    /// [`Set::silu_mul`].
    pub(super) silu_mul: unsafe fn(&mut [f32], &[f32]),
    /// [`Set::gelu`].
    pub(super) gelu: unsafe fn(&mut [f32]),
}

/// Makes the table of a [`Set`], whose functions are compiled with the given attributes.
macro_rules! table {
    ($set:ty, $(#[$attribute:meta])*) => {{
        use $crate::kernels::attention::{Attention, attend};
        use $crate::kernels::linear::Linear;
        use $crate::kernels::set::{self, Set, Table};
        use $crate::kernels::split::Band;
        use $crate::kernels::Matrix;

        $(#[$attribute])*
        unsafe fn linear(job: &Linear, band: &mut Band) {
            // SAFETY: the caller vouches for the instruction set.
            unsafe { <$set>::linear(job, band) }
        }
        $(#[$attribute])*
        unsafe fn quantise(cols: usize, x: &[f32], out: &mut [f32]) {
            // SAFETY: the caller vouches for the instruction set.
            unsafe { <$set>::quantise(cols, x, out) }
        }
        $(#[$attribute])*
        unsafe fn attention(job: &Attention, band: &mut Band) {
            // SAFETY: the caller vouches for the instruction set.
            unsafe { attend::<$set>(job, band) }
        }
        $(#[$attribute])*
        unsafe fn rms_norm(weight: &Matrix, eps: f32, x: &[f32], y: &mut [f32]) {
            // SAFETY: the caller vouches for the instruction set.
            unsafe { set::rms_norm::<$set>(weight, eps, x, y) }
        }
        $(#[$attribute])*
        unsafe fn rope(rotations: &[f32], width: usize, x: &mut [f32]) {
            set::rope(rotations, width, x);
        }
        $(#[$attribute])*
        unsafe fn silu_mul(gate: &mut [f32], up: &[f32]) {
            // SAFETY: the caller vouches for the instruction set.
            unsafe { <$set>::silu_mul(gate, up) }
        }
        $(#[$attribute])*
        unsafe fn gelu(x: &mut [f32]) {
            // SAFETY: the caller vouches for the instruction set.
            unsafe { <$set>::gelu(x) }
        }
        Table {
            name: <$set>::NAME,
            class: <$set>::CLASS,
            linear,
            quantise,
            attention,
            rms_norm,
            rope,
            silu_mul,
            gelu,
        }
    }};
}
pub(super) use table;

/// RMSNorm of rows as wide as `weight` has columns.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(super) unsafe fn rms_norm<S: Set>(weight: &Matrix, eps: f32, x: &[f32], y: &mut [f32]) {
    let dim = weight.cols();
    for (x, y) in x.chunks_exact(dim).zip(y.chunks_exact_mut(dim)) {
        // SAFETY: by the caller.
        let squares = unsafe { S::dot(x, x) };
        let r = 1.0 / libm::sqrtf(squares / dim as f32 + eps);
        for (x, y) in x.iter().zip(y.iter_mut()) {
            *y = *x * r;
        }
        weight.for_each(y, |y, w| *y *= w);
    }
}

/// Rotates the pairs of rows of `width` values, each row by its own `rotations`, of which it holds a few repetitions.
#[inline(always)]
pub(super) fn rope(rotations: &[f32], width: usize, x: &mut [f32]) {
    let rows = x.len() / width;
    let head_dim = rotations.len() / rows;
    for (row, rotations) in x.chunks_exact_mut(width).zip(rotations.chunks_exact(head_dim)) {
        for head in row.chunks_exact_mut(head_dim) {
            for (pair, rotation) in head.chunks_exact_mut(2).zip(rotations.chunks_exact(2)) {
                let (a, b, cos, sin) = (pair[0], pair[1], rotation[0], rotation[1]);
                pair[0] = a * cos - b * sin;
                pair[1] = a * sin + b * cos;
            }
        }
    }
}
