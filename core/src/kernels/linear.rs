//! What a linear map is asked to do, and what follows each of its dot products: the same for every instruction set.

use super::Matrix;
use super::activations::Activations;

/// Most columns that count as few: reading the weights takes about as long as using them.
pub(super) const FEW: usize = 8;

/// Rows of weights that kernels take together, for `n` columns. Pieces of work come in multiples of it, so that only
/// the last one has a remainder.
pub(super) const fn panel(n: usize) -> usize {
    if n <= FEW { 48 } else { 16 }
}

/// `y[i] = W x[i] (+ b)` or `y[i] += W x[i] (+ b)`, of shapes that agree.
pub(super) struct Linear<'a> {
    w: &'a Matrix<'a>,
    bias: Option<&'a Matrix<'a>>,
    x: &'a [f32],
    quantised: Option<Activations<'a>>,
    onto: bool,
}

impl<'a> Linear<'a> {
    /// `None` if the shapes disagree. `x` is `[n][cols]`, a bias has as many elements as `w` has rows.
    pub(super) fn new(
        w: &'a Matrix<'a>,
        bias: Option<&'a Matrix<'a>>,
        x: &'a [f32],
        n: usize,
        onto: bool,
    ) -> Option<Self> {
        let fits = n.checked_mul(w.cols()) == Some(x.len())
            && bias.is_none_or(|bias| bias.rows().checked_mul(bias.cols()) == Some(w.rows()));
        let quantised = None;
        fits.then_some(Self {
            w,
            bias,
            x,
            quantised,
            onto,
        })
    }

    /// The same with the input as 8 bits besides, which weights in blocks take.
    pub(super) fn with_quantised(self, quantised: Activations<'a>) -> Self {
        Self {
            quantised: Some(quantised),
            ..self
        }
    }

    /// The input as 8 bits; it is there for weights in blocks.
    #[inline(always)]
    pub(super) fn quantised(&self) -> Option<Activations<'a>> {
        self.quantised
    }

    /// The same for some rows of the weights, without the bias.
    pub(super) fn of_rows<'b>(&'b self, w: &'b Matrix<'b>) -> Linear<'b> {
        Linear { w, bias: None, ..*self }
    }

    /// The weights.
    pub(super) fn weights(&self) -> &'a Matrix<'a> {
        self.w
    }

    /// Rows `first..first + count` of the input; all of them exist, or this panics.
    #[inline(always)]
    pub(super) fn inputs(&self, first: usize, count: usize) -> &'a [f32] {
        let cols = self.w.cols();
        &self.x[first * cols..(first + count) * cols]
    }

    /// The bias of weight row `row`, if there is one.
    pub(super) fn bias(&self, row: usize) -> Option<f32> {
        self.bias.map(|bias| bias.element(row))
    }

    /// Turns a dot product into an output.
    #[inline(always)]
    pub(super) fn finish(&self, bias: Option<f32>, dot: f32, y: &mut f32) {
        let value = match bias {
            Some(bias) => dot + bias,
            None => dot,
        };
        *y = if self.onto { *y + value } else { value };
    }
}
