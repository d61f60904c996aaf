//! Delay conditioning: how the decoder is told how far the text lags behind the audio.

use super::Pass;
use super::probe::Stage;
use super::weights::WeightsError;
use crate::layout::ConditionScratch;

/// Base of the sinusoid's frequencies.
const THETA: f64 = 10_000.0;

/// Computes `s = B gelu(A t_cond)` of every decoder layer into `ada`, `[n_layers][dim]`.
///
/// `t_cond = [cos(t f), sin(t f)]` with `f_i = 10000^(-i / (dim / 2))` and `t` the delay as a number of tokens.
pub(crate) fn condition(
    pass: &mut Pass,
    delay_tokens: usize,
    scratch: ConditionScratch<&mut [f32]>,
    ada: &mut [f32],
) -> Result<(), WeightsError> {
    let Pass { model, ops, probe } = pass;
    let dim = model.params().decoder.dim;
    let ConditionScratch { t_cond, hidden } = scratch;
    let half = dim / 2;
    for i in 0..half {
        let angle = delay_tokens as f64 * libm::pow(THETA, -(i as f64) / half as f64);
        let (sin, cos) = libm::sincos(angle);
        t_cond[i] = cos as f32;
        t_cond[half + i] = sin as f32;
    }
    probe.stage(Stage::TimeCondition, 0, t_cond);
    for (layer, s) in ada.chunks_exact_mut(dim).enumerate() {
        let (a, b) = model.ada(layer)?;
        ops.linear(&a, None, t_cond, &mut [], hidden);
        ops.gelu(hidden);
        ops.linear(&b, None, hidden, &mut [], s);
        probe.stage(Stage::Conditioning(layer), 0, s);
    }
    Ok(())
}
