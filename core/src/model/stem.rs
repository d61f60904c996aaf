//! The convolution stem: mel frames in, half as many encoder frames out.

use super::Role;
use super::binding::CONV_KERNEL;
use super::probe::{Probe, Stage};
use super::weights::{Model, WeightsError};
use crate::audio::MEL_BINS;
use crate::kernels::Ops;
use crate::layout::{StemCarry, StemScratch};

/// Stride of the second convolution.
const STRIDE: usize = 2;

/// Two causal convolutions of kernel 3, the second of stride 2, GELU after each.
///
/// `out0[t] = gelu(conv0(mel[t-2..=t]))`, `x[t] = gelu(conv1(out0[2t-1..=2t+1]))`. `scratch.mel` holds two frames of
/// room and then this pass's frames; what the next pass needs of the past is kept in `carry`, which is zero at the
/// start of the audio.
pub(super) fn stem(
    model: &Model,
    ops: &Ops,
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
    let dim = model.params().encoder.dim;

    carry_over(carry.mel, mel);
    gather(mel, MEL_BINS, 1, mel_patches);
    let fresh = &mut conv0[dim..];
    ops.linear(
        &model.get(Role::Conv0Weight)?,
        Some(&model.get(Role::Conv0Bias)?),
        mel_patches,
        fresh,
    );
    ops.gelu(fresh);

    carry_over(carry.conv0, conv0);
    gather(conv0, dim, STRIDE, conv0_patches);
    ops.linear(
        &model.get(Role::Conv1Weight)?,
        Some(&model.get(Role::Conv1Bias)?),
        conv0_patches,
        x,
    );
    ops.gelu(x);
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

/// Shows the mel frames of this pass, which follow the carried two in `mel`.
pub(super) fn show_mel(probe: &mut dyn Probe, first_frame: u64, mel: &[f32]) {
    probe.stage(Stage::Mel, first_frame, &mel[(CONV_KERNEL - 1) * MEL_BINS..]);
}
