//! The text decoder: audio embeddings plus token embeddings to logits.

use super::binding::DecoderTensor;
use super::cache::Cache;
use super::weights::WeightsError;
use super::{Pass, Place, Role, rotary};
use crate::format::params::DecoderParams;
use crate::kernels::Heads;
use crate::layout::{DecoderScratch, LayerScratch, Layout, MAX_BATCH};

/// Query, key and value heads of the decoder.
pub(crate) fn heads(params: &DecoderParams) -> Heads {
    Heads {
        n_heads: params.n_heads,
        n_kv_heads: params.n_kv_heads,
        head_dim: params.head_dim,
    }
}

/// Adds the embeddings of `tokens` to the rows of `x`, `[n][dim]`.
pub(crate) fn embed(pass: &mut Pass, tokens: impl Iterator<Item = u32>, x: &mut [f32]) -> Result<(), WeightsError> {
    let Pass { model, ops, .. } = pass;
    let embeddings = model.get(Role::TokenEmbeddings)?;
    for (row, token) in x.chunks_exact_mut(embeddings.cols()).zip(tokens) {
        ops.add_row(&embeddings, token as usize, row);
    }
    Ok(())
}

/// All layers over the residual stream of `decoder.x`, `[n][dim]`, the `n` positions from `place.first`.
///
/// `x += Wo a` with `a` the grouped attention over RMSNorm(x), then `x += W2 (silu(W1 n) * (W3 n))` with
/// `n = RMSNorm(x) * (1 + s)` and `s` the layer's row of `ada`.
pub(crate) fn layers(
    pass: &mut Pass,
    layout: &Layout,
    place: Place,
    ada: &[f32],
    cache: &mut [f32],
    decoder: &mut DecoderScratch<&mut [f32]>,
    scratch: &mut LayerScratch<&mut [f32]>,
) -> Result<(), WeightsError> {
    let Pass { model, ops, probe } = pass;
    let p = &model.params().decoder;
    let heads = heads(p);
    let DecoderScratch { rotations, x, .. } = decoder;
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
        layout.decoder_capacity(),
        place.origin,
        layout.options().cache,
    );
    for (layer, (mut cache, s)) in caches.zip(ada.chunks_exact(p.dim)).enumerate() {
        let w = model.decoder_layer(layer)?;
        let role = |tensor| Role::Decoder {
            layer: layer as u32,
            tensor,
        };

        ops.rms_norm(&w.attention_norm, p.norm_eps, x, n);
        probe.input(role(DecoderTensor::Wq), w.wq.cols(), n);
        ops.linear(&w.wq, None, n, quantised, q);
        ops.linear(&w.wk, None, n, quantised, k);
        ops.linear(&w.wv, None, n, quantised, v);
        ops.rope(rotations, heads.n_heads, heads.head_dim, q);
        ops.rope(rotations, heads.n_kv_heads, heads.head_dim, k);
        cache.store(ops, place.first, k, v);
        ops.attention(heads, layout.decoder_window(), place.first, q, cache.ring(), a);
        probe.input(role(DecoderTensor::Wo), w.wo.cols(), a);
        ops.linear_add(&w.wo, None, a, quantised, x);

        ops.rms_norm(&w.ffn_norm, p.norm_eps, x, n);
        ops.modulate(s, n);
        probe.input(role(DecoderTensor::W1), w.w1.cols(), n);
        ops.linear(&w.w1, None, n, quantised, gate);
        ops.linear(&w.w3, None, n, quantised, up);
        ops.silu_mul(gate, up);
        probe.input(role(DecoderTensor::W2), w.w2.cols(), gate);
        ops.linear_add(&w.w2, None, gate, quantised, x);
    }
    Ok(())
}

/// The tokens that follow the last `n` rows of `decoder.x`, in the first of `tokens`: of each the largest of its logits
/// `RMSNorm(x) E^T`, the token embedding being the head, or `None` if one is not finite. Logits are the first rows of
/// `decoder.logits`; where the layout has no room for them, they are nowhere stored.
pub(crate) fn head(
    pass: &mut Pass,
    n: usize,
    decoder: &mut DecoderScratch<&mut [f32]>,
    quantised: &mut [f32],
    tokens: &mut [Option<usize>; MAX_BATCH],
) -> Result<(), WeightsError> {
    let Pass { model, ops, probe } = pass;
    let p = &model.params().decoder;
    let DecoderScratch { x, last, logits, .. } = decoder;
    let (x, last) = (&x[x.len() - n * p.dim..], &mut last[..n * p.dim]);
    let embeddings = model.get(Role::TokenEmbeddings)?;
    ops.rms_norm(&model.get(Role::DecoderNorm)?, p.norm_eps, x, last);
    probe.input(Role::TokenEmbeddings, p.dim, last);
    if logits.is_empty() {
        ops.linear_argmax(&embeddings, last, quantised, &mut tokens[..n]);
    } else {
        let logits = &mut logits[..n * p.vocab_size];
        ops.linear(&embeddings, None, last, quantised, logits);
        for (token, logits) in tokens.iter_mut().zip(logits.chunks_exact(p.vocab_size)) {
            *token = ops.argmax(logits);
        }
    }
    Ok(())
}
