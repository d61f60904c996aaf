//! The causal audio encoder and the adapter behind it: the stem's frames to decoder inputs.

use super::binding::EncoderTensor;
use super::cache::Cache;
use super::probe::Stage;
use super::weights::WeightsError;
use super::{Pass, Place, Role, rotary};
use crate::format::params::EncoderParams;
use crate::kernels::Heads;
use crate::layout::{AdapterScratch, EncoderScratch, LayerScratch, Layout};

/// Query, key and value heads of the encoder.
pub(crate) fn heads(params: &EncoderParams) -> Heads {
    Heads {
        n_heads: params.n_heads,
        n_kv_heads: params.n_kv_heads,
        head_dim: params.head_dim,
    }
}

/// All layers over the residual stream `x`, `[n][dim]`, the `n` frames from `place.first`.
///
/// `x += Wo a + bo` with `a` the attention over RMSNorm(x), then `x += W2 (silu(W1 n) * (W3 n)) + b2` with
/// `n = RMSNorm(x)`.
pub(crate) fn layers(
    pass: &mut Pass,
    layout: &Layout,
    place: Place,
    cache: &mut [f32],
    encoder: EncoderScratch<&mut [f32]>,
    scratch: LayerScratch<&mut [f32]>,
) -> Result<(), WeightsError> {
    let Pass { model, ops, probe } = pass;
    let p = &model.params().encoder;
    let heads = heads(p);
    let EncoderScratch { rotations, x } = encoder;
    let LayerScratch {
        n,
        q,
        k,
        v,
        a,
        gate,
        up,
        quantised,
    } = scratch;
    rotary::rotations(p.rope_theta, p.head_dim, place.first, rotations);

    let caches = Cache::layers(
        cache,
        heads,
        layout.encoder_capacity(),
        place.origin,
        layout.options().cache,
    );
    for (layer, mut cache) in caches.enumerate() {
        let w = model.encoder_layer(layer)?;
        let role = |tensor| Role::Encoder {
            layer: layer as u32,
            tensor,
        };

        ops.rms_norm(&w.attention_norm, p.norm_eps, x, n);
        probe.input(role(EncoderTensor::Wq), w.wq.cols(), n);
        ops.linear(&w.wq, w.wq_bias.as_ref(), n, quantised, q);
        ops.linear(&w.wk, None, n, quantised, k);
        ops.linear(&w.wv, w.wv_bias.as_ref(), n, quantised, v);
        ops.rope(rotations, heads.n_heads, heads.head_dim, q);
        ops.rope(rotations, heads.n_kv_heads, heads.head_dim, k);
        cache.store(ops, place.first, k, v);
        ops.attention(heads, p.sliding_window, place.first, q, cache.ring(), a);
        probe.input(role(EncoderTensor::Wo), w.wo.cols(), a);
        ops.linear_add(&w.wo, w.wo_bias.as_ref(), a, quantised, x);

        ops.rms_norm(&w.ffn_norm, p.norm_eps, x, n);
        probe.input(role(EncoderTensor::W1), w.w1.cols(), n);
        ops.linear(&w.w1, None, n, quantised, gate);
        ops.linear(&w.w3, None, n, quantised, up);
        ops.silu_mul(gate, up);
        probe.input(role(EncoderTensor::W2), w.w2.cols(), gate);
        ops.linear_add(&w.w2, w.w2_bias.as_ref(), gate, quantised, x);
        probe.stage(Stage::EncoderLayer(layer), place.first, x);
    }
    Ok(())
}

/// Final norm, four frames to one row, and the adapter's two linear maps with GELU between, into `y`,
/// `[n / 4][decoder dim]`.
pub(crate) fn adapt(
    pass: &mut Pass,
    first: u64,
    x: &[f32],
    scratch: AdapterScratch<&mut [f32]>,
    y: &mut [f32],
) -> Result<(), WeightsError> {
    let Pass { model, ops, probe } = pass;
    let AdapterScratch { n, hidden, quantised } = scratch;
    ops.rms_norm(&model.get(Role::EncoderNorm)?, model.params().encoder.norm_eps, x, n);
    probe.stage(Stage::EncoderOut, first, n);
    // Frames lie one behind the other, so four of them are one row of the adapter's input as they are.
    let (first_map, second_map) = (model.get(Role::AdapterIn)?, model.get(Role::AdapterOut)?);
    probe.input(Role::AdapterIn, first_map.cols(), n);
    ops.linear(&first_map, None, n, quantised, hidden);
    ops.gelu(hidden);
    probe.input(Role::AdapterOut, second_map.cols(), hidden);
    ops.linear(&second_map, None, hidden, quantised, y);
    probe.stage(Stage::Adapter, first / model.params().downsample_factor as u64, y);
    Ok(())
}
