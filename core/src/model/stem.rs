//! The convolution stem: mel frames in, half as many encoder frames out.

use super::Pass;
use super::Role;
use super::binding::CONV_KERNEL;
use super::probe::Stage;
use super::weights::WeightsError;
use crate::audio::MEL_BINS;
use crate::layout::{StemCarry, StemScratch};

/// Stride of the second convolution.
const STRIDE: usize = 2;

/// Two causal convolutions of kernel 3, the second of stride 2, GELU after each: `scratch.mel` to the residual
/// stream `x`, `[n][dim]`, encoder frames `first..first + n` counted from the start of the padded audio.
///
/// `out0[t] = gelu(conv0(mel[t-2..=t]))`, `x[t] = gelu(conv1(out0[2t-1..=2t+1]))`. `scratch.mel` holds two frames of
/// room and then this pass's frames; what the next pass needs of the past is kept in `carry`, which is zero at the
/// start of the audio.
pub(crate) fn stem(
    pass: &mut Pass,
    first: u64,
    carry: &mut StemCarry<&mut [f32]>,
    scratch: StemScratch<&mut [f32]>,
    x: &mut [f32],
) -> Result<(), WeightsError> {
    let StemScratch {
        mel,
        mel_patches,
        conv0,
        conv0_patches,
    } = scratch;
    let Pass { model, ops, probe } = pass;
    let dim = model.params().encoder.dim;

    probe.stage(Stage::Mel, STRIDE as u64 * first, &mel[carry.mel.len()..]);
    carry_over(carry.mel, mel);
    gather(mel, MEL_BINS, 1, mel_patches);
    let fresh = &mut conv0[dim..];
    ops.linear(
        &model.get(Role::Conv0Weight)?,
        Some(&model.get(Role::Conv0Bias)?),
        mel_patches,
        &mut [],
        fresh,
    );
    ops.gelu(fresh);

    carry_over(carry.conv0, conv0);
    gather(conv0, dim, STRIDE, conv0_patches);
    ops.linear(
        &model.get(Role::Conv1Weight)?,
        Some(&model.get(Role::Conv1Bias)?),
        conv0_patches,
        &mut [],
        x,
    );
    ops.gelu(x);
    probe.stage(Stage::ConvStem, first, x);
    Ok(())
}

/// Puts the rows kept from the last pass in front of `rows`, and keeps the last rows for the next.
fn carry_over(carry: &mut [f32], rows: &mut [f32]) {
    let kept = carry.len();
    rows[..kept].copy_from_slice(carry);
    carry.copy_from_slice(&rows[rows.len() - kept..]);
}

/// Lays the kernel's view of `rows` (`[n][channels]`) out as `patches`, `[n_out][channels][3]`: the order of the
/// convolution's weights `[out][in][k]`, so that the convolution is a matrix product.
fn gather(rows: &[f32], channels: usize, stride: usize, patches: &mut [f32]) {
    for (t, patch) in patches.chunks_exact_mut(channels * CONV_KERNEL).enumerate() {
        let seen = &rows[t * stride * channels..][..CONV_KERNEL * channels];
        for (k, row) in seen.chunks_exact(channels).enumerate() {
            for (channel, value) in row.iter().enumerate() {
                patch[channel * CONV_KERNEL + k] = *value;
            }
        }
    }
}
