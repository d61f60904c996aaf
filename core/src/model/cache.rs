//! The KV cache of one layer: keys and values in a ring over absolute positions.

use crate::kernels::{CacheType, Heads, Ops, Ring};

/// Storage of one layer, as much as [`crate::layout`] gave it: `[2][n_kv_heads][capacity][head_dim]` elements.
///
/// The ring has room for `window - 1` old positions and the widest pass, so a pass never overwrites a key that one
/// of its own queries still sees.
pub(super) struct Cache<'m> {
    heads: Heads,
    capacity: usize,
    start: u64,
    cache: CacheType,
    keys: &'m mut [f32],
    values: &'m mut [f32],
}

impl<'m> Cache<'m> {
    /// The caches of all layers, from one region of `[n_layers][2][n_kv_heads][capacity][head_dim]` elements.
    /// `start` is the position that the stream begins at.
    pub(super) fn layers(
        region: &'m mut [f32],
        heads: Heads,
        capacity: usize,
        start: u64,
        cache: CacheType,
    ) -> impl Iterator<Item = Self> + 'm {
        // The layout has found it.
        let half = cache.floats(heads.n_kv_heads * capacity, heads.head_dim).unwrap_or(0);
        region.chunks_exact_mut((2 * half).max(1)).map(move |layer| {
            let (keys, values) = layer.split_at_mut(half);
            Cache {
                heads,
                capacity,
                start,
                cache,
                keys,
                values,
            }
        })
    }

    /// Writes the keys and values (`[n][n_kv_heads][head_dim]`) of the positions from `first`.
    pub(super) fn store(&mut self, ops: &Ops, first: u64, k: &[f32], v: &[f32]) {
        ops.ring_store(self.heads, self.cache, self.capacity, first, k, self.keys);
        ops.ring_store(self.heads, self.cache, self.capacity, first, v, self.values);
    }

    /// What attention reads.
    pub(super) fn ring(&self) -> Ring<'_> {
        Ring {
            keys: self.keys,
            values: self.values,
            capacity: self.capacity,
            first: self.start,
            cache: self.cache,
        }
    }
}
