//! Keys and values as rings over absolute positions, and causal attention with a sliding window over them.

use super::Kernels;
use super::ops::Ops;
use super::scalar::reduce;
use super::split::split;

/// Keys are visited in blocks that begin at multiples of this many absolute positions, a multiple of the 8 lanes.
const BLOCK: usize = 64;

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

impl Heads {
    /// Values of one position in keys or values, or `None` if that overflows.
    fn kv_width(&self) -> Option<usize> {
        self.n_kv_heads.checked_mul(self.head_dim)
    }
    /// Values of one position in queries, or `None` if the counts do not fit together.
    fn q_width(&self) -> Option<usize> {
        let shared = self.n_kv_heads > 0 && self.n_heads % self.n_kv_heads == 0;
        self.n_heads
            .checked_mul(self.head_dim)
            .filter(|&width| shared && width > 0)
    }
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

impl Ops<'_> {
    /// Writes `n` new positions, `first..first + n`, into a ring: `x` is `[n][n_kv_heads][head_dim]`, `ring`
    /// `[n_kv_heads][capacity][head_dim]`, `n` at most `capacity`.
    pub fn ring_store(&self, heads: Heads, capacity: usize, first: u64, x: &[f32], ring: &mut [f32]) {
        let width = heads.kv_width().filter(|&width| width > 0);
        debug_assert!(width.is_some(), "ring_store: no heads");
        let Some(width) = width else { return };
        let n = x.len() / width;
        require!(
            x.len() % width == 0 && n <= capacity && width.checked_mul(capacity) == Some(ring.len()),
            "ring_store: shapes disagree"
        );
        for (position, x) in (first..).zip(x.chunks_exact(width)) {
            let slot = (position % capacity as u64) as usize;
            let slots = ring.chunks_exact_mut(heads.head_dim).skip(slot).step_by(capacity);
            for (slot, x) in slots.zip(x.chunks_exact(heads.head_dim)) {
                slot.copy_from_slice(x);
            }
        }
    }

    /// Causal attention with a sliding window: the query at position `p` sees `p - window + 1 ..= p`.
    ///
    /// `q` is `[n][n_heads][head_dim]` at positions `first..first + n`, already in the ring; `y` has its shape. The
    /// ring has room for all that the queries see: `min(window, first + 1) - 1 + n` positions.
    ///
    /// The canonical order is an online softmax over blocks of 64 absolute positions, in rising order. In each block:
    /// `s[j] = dot(q, k[j]) * (1 / sqrt(head_dim))`; `m' = max(m, s)`; `l` and the output are multiplied by
    /// `exp(m - m')`; `p[j] = exp(s[j] - m')`; `l` gains the sum of `p`, taken in 8 lanes by `j % 8` and the tree of
    /// dot products; the output gains `p[j] v[j]` in the order of `j` by the class's multiply-accumulate. In the end
    /// the output is divided by `l`.
    pub fn attention(&self, heads: Heads, window: usize, first: u64, q: &[f32], ring: Ring, y: &mut [f32]) {
        let width = heads.q_width();
        debug_assert!(width.is_some(), "attention: heads do not fit together");
        let Some(width) = width else { return };
        let n = q.len() / width;
        let held = heads.kv_width().and_then(|width| width.checked_mul(ring.capacity));
        let earlier = usize::try_from(first)
            .unwrap_or(usize::MAX)
            .min(window.saturating_sub(1));
        require!(
            q.len() % width == 0
                && y.len() == q.len()
                && held == Some(ring.keys.len())
                && held == Some(ring.values.len())
                && window > 0
                && earlier.saturating_add(n) <= ring.capacity
                && first.checked_add(n as u64).is_some(),
            "attention: shapes disagree"
        );
        let group = heads.n_heads / heads.n_kv_heads;
        let head_dim = heads.head_dim;
        let head_len = ring.capacity * head_dim;
        let cost = n.saturating_mul(earlier + n).saturating_mul(2 * head_dim);
        // Split by heads, so that one thread finds the keys of a head in its cache for all queries.
        split(self.executor, y, n, head_dim, cost, &|mut band| {
            for head in 0..band.width() / head_dim {
                let index = band.start() / head_dim + head;
                let kv = index / group * head_len..(index / group + 1) * head_len;
                let visible = Visible {
                    keys: &ring.keys[kv.clone()],
                    values: &ring.values[kv],
                    capacity: ring.capacity,
                    window,
                };
                for i in 0..band.height() {
                    let q = &q[i * width + index * head_dim..][..head_dim];
                    let y = &mut band.row(i)[head * head_dim..][..head_dim];
                    visible.attend(self.kernels, first + i as u64, q, y);
                }
            }
        });
    }
}

/// What the queries of one head may look at.
struct Visible<'a> {
    keys: &'a [f32],
    values: &'a [f32],
    capacity: usize,
    window: usize,
}

impl Visible<'_> {
    /// Attention of the query `q` at `position`, into `y`; both of one head's width.
    fn attend(&self, kernels: Kernels, position: u64, q: &[f32], y: &mut [f32]) {
        let head_dim = q.len();
        let scale = 1.0 / libm::sqrtf(head_dim as f32);
        let mut max = f32::NEG_INFINITY;
        let mut sum = 0.0f32;
        y.fill(0.0);
        let mut start = position.saturating_sub(self.window as u64 - 1);
        while start <= position {
            let offset = (start % BLOCK as u64) as usize;
            let count = (position - start + 1).min((BLOCK - offset) as u64) as usize;
            // The lanes of the sum go by absolute position; places outside the window hold 0, which adds nothing.
            let mut p = [0.0f32; BLOCK];
            self.for_each_run(start, count, |done, slots| {
                let out = &mut p[offset + done..][..slots.len()];
                kernels.dots(q, &self.keys[slots.start * head_dim..slots.end * head_dim], out);
            });
            let mut block_max = max;
            for s in &mut p[offset..offset + count] {
                *s *= scale;
                if *s > block_max {
                    block_max = *s;
                }
            }
            if block_max > max {
                let shrink = libm::expf(max - block_max);
                sum *= shrink;
                y.iter_mut().for_each(|y| *y *= shrink);
                max = block_max;
            }
            for s in &mut p[offset..offset + count] {
                *s = libm::expf(*s - max);
            }
            let mut lanes = [0.0f32; 8];
            for p in p.chunks_exact(8) {
                for (lane, p) in lanes.iter_mut().zip(p) {
                    *lane += p;
                }
            }
            sum += reduce(&lanes);
            self.for_each_run(start, count, |done, slots| {
                let p = &p[offset + done..][..slots.len()];
                kernels.accumulate(p, &self.values[slots.start * head_dim..slots.end * head_dim], y);
            });
            start += count as u64;
        }
        y.iter_mut().for_each(|y| *y /= sum);
    }

    /// Calls `f` with each run of neighbouring slots that `count` positions from `start` lie in, in order, and with
    /// how many positions came before it.
    #[inline(always)]
    fn for_each_run(&self, start: u64, count: usize, mut f: impl FnMut(usize, core::ops::Range<usize>)) {
        let mut done = 0;
        while done < count {
            let slot = ((start + done as u64) % self.capacity as u64) as usize;
            let run = (count - done).min(self.capacity - slot);
            f(done, slot..slot + run);
            done += run;
        }
    }
}
