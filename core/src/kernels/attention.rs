//! Causal attention with a sliding window over keys and values in rings.

use core::ops::Range;

use super::math::exp;
use super::ops::Ops;
use super::ring::{CacheType, Held, Ring};
use super::set::{Rows, Set};
use super::split::{Band, split};

/// Keys are visited in blocks that begin at multiples of this many absolute positions, a multiple of the 8 lanes.
const BLOCK: usize = 64;
/// Most queries that look at a block together.
const TOGETHER: usize = 12;

/// What the queries that look at the keys together need, in memory where no vector lies across two lines of the caches.
/// It is made once for all of a band: zeroing it costs about as much as a few keys do.
#[repr(align(64))]
struct Desk {
    scores: [Scores; TOGETHER],
    /// Queries and outputs, side by side.
    q: [f32; PACKED],
    sums: [f32; PACKED],
}

/// Most values of queries that are laid out side by side before they look at anything.
const PACKED: usize = TOGETHER * 128;

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
    pub(super) fn kv_width(&self) -> Option<usize> {
        self.n_kv_heads.checked_mul(self.head_dim)
    }
    /// Length of the keys or the values of a ring, or `None` if that overflows.
    pub(super) fn ring_len(&self, cache: CacheType, capacity: usize) -> Option<usize> {
        cache.floats(self.n_kv_heads.checked_mul(capacity)?, self.head_dim)
    }
    /// Values of one position in queries, or `None` if the counts do not fit together.
    fn q_width(&self) -> Option<usize> {
        let shared = self.n_kv_heads > 0 && self.n_heads % self.n_kv_heads == 0;
        self.n_heads
            .checked_mul(self.head_dim)
            .filter(|&width| shared && width > 0)
    }
}

impl Ops<'_> {
    /// Causal attention with a sliding window: the query at position `p` sees `p - window + 1 ..= p`, as far as these
    /// are in the ring.
    ///
    /// `q` is `[n][n_heads][head_dim]` at positions `first..first + n`, already in the ring; `y` has its shape. The
    /// ring has room for all that the queries see: `min(window - 1, first - ring.first) + n` positions. Keys and
    /// values of
    /// bfloat16 are widened, which is exact, and then used as those of f32 are. Levels of 8 bits are used like that too,
    /// and their scales come in where they meet: `dot(q, k[j])` is then `dot(q, levels) * scale`, and `p[j] v[j]` is
    /// `(p[j] * scale) levels`.
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
        let held = heads.ring_len(ring.cache, ring.capacity);
        let earlier = usize::try_from(first.saturating_sub(ring.first))
            .unwrap_or(usize::MAX)
            .min(window.saturating_sub(1));
        require!(
            q.len() % width == 0
                && y.len() == q.len()
                && held == Some(ring.keys.len())
                && held == Some(ring.values.len())
                && window > 0
                && ring.first <= first
                && earlier.saturating_add(n) <= ring.capacity
                && first.checked_add(n as u64).is_some(),
            "attention: shapes disagree"
        );
        let job = Attention {
            heads,
            window: window as u64,
            first,
            q,
            ring,
        };
        let group = heads.n_heads / heads.n_kv_heads;
        let cost = n.saturating_mul(earlier + n).saturating_mul(2 * group * heads.head_dim);
        // Split by heads of keys and values, so that one thread finds them in its cache for all queries.
        split(self.executor, y, n, group * heads.head_dim, cost, &|mut band| {
            self.kernels.attention(&job, &mut band);
        });
    }
}

/// The scores of one query with the positions of a block, later their weights in its sum.
pub(super) type Scores = [f32; BLOCK];

/// What [`Ops::attention`] is asked to do, of shapes that agree.
pub(super) struct Attention<'a> {
    heads: Heads,
    window: u64,
    first: u64,
    q: &'a [f32],
    ring: Ring<'a>,
}

/// The outputs of attention that lie in a band: whole groups of query heads.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(super) unsafe fn attend<S: Set>(job: &Attention, band: &mut Band) {
    let Heads {
        n_heads,
        n_kv_heads,
        head_dim,
    } = job.heads;
    let group = n_heads / n_kv_heads;
    let Ring {
        keys,
        values,
        capacity,
        cache,
        ..
    } = job.ring;
    let held = |values| Held::new(cache, values, n_kv_heads * capacity, head_dim);
    let mut desk = Desk {
        scores: [[0.0; BLOCK]; TOGETHER],
        q: [0.0; PACKED],
        sums: [0.0; PACKED],
    };
    for kv in 0..band.width() / (group * head_dim) {
        let head = band.start() / head_dim + kv * group;
        let rows = head / group * capacity..(head / group + 1) * capacity;
        let visible = Visible {
            keys: held(keys).rows(rows.clone()),
            values: held(values).rows(rows),
            capacity,
            first: job.ring.first,
            window: job.window,
            head_dim,
        };
        // The queries that look at the keys together: the heads of one position, or, where heads have their own keys,
        // positions of one head.
        let (heads, positions) = if group > 1 {
            (group.min(TOGETHER), 1)
        } else {
            (1, TOGETHER)
        };
        for i in (0..band.height()).step_by(positions) {
            let positions = positions.min(band.height() - i);
            for h in (0..group).step_by(heads) {
                let heads = heads.min(group - h);
                let columns = (kv * group + h) * head_dim..(kv * group + h + heads) * head_dim;
                let queries = Queries {
                    q: Rows {
                        values: &job.q[(i * n_heads + head + h) * head_dim..],
                        stride: if group > 1 { head_dim } else { n_heads * head_dim },
                        width: head_dim,
                    },
                    count: heads * positions,
                    first: job.first + i as u64,
                    step: u64::from(group == 1),
                };
                // SAFETY: by the caller.
                unsafe {
                    if group > 1 {
                        let mut y = Band::whole(&mut band.row(i)[columns], heads);
                        visible.attend::<S>(&queries, &mut y, &mut desk.scores);
                    } else {
                        visible.attend_apart::<S>(&queries, &mut band.part(i..i + positions, columns), &mut desk);
                    }
                }
            }
        }
    }
}

/// Queries over the same keys and values, at most [`TOGETHER`].
struct Queries<'a> {
    q: Rows<'a>,
    count: usize,
    /// Position of the first one.
    first: u64,
    /// Positions from one to the next.
    step: u64,
}

impl Queries<'_> {
    #[inline(always)]
    fn position(&self, c: usize) -> u64 {
        self.first + c as u64 * self.step
    }
}

/// Keys and values that the queries of some heads may look at.
struct Visible<'a> {
    keys: Held<'a>,
    values: Held<'a>,
    capacity: usize,
    first: u64,
    window: u64,
    head_dim: usize,
}

impl Visible<'_> {
    /// [`Visible::attend`] for queries and outputs that lie apart, often by a multiple of 4 KiB, where lines of the
    /// caches displace each other: all that fit pass through a place where they are neighbours.
    #[inline(always)]
    unsafe fn attend_apart<S: Set>(&self, queries: &Queries, y: &mut Band, desk: &mut Desk) {
        let len = queries.count * self.head_dim;
        if len > PACKED {
            // SAFETY: by the caller.
            return unsafe { self.attend::<S>(queries, y, &mut desk.scores) };
        }
        let (q, sums) = (&mut desk.q[..len], &mut desk.sums[..len]);
        for (c, q) in q.chunks_exact_mut(self.head_dim).enumerate() {
            q.copy_from_slice(queries.q.row(c));
        }
        let packed = Queries {
            q: Rows {
                values: q,
                stride: self.head_dim,
                width: self.head_dim,
            },
            ..*queries
        };
        let mut packed_y = Band::whole(sums, queries.count);
        // SAFETY: by the caller.
        unsafe { self.attend::<S>(&packed, &mut packed_y, &mut desk.scores) };
        for (c, sums) in sums.chunks_exact(self.head_dim).enumerate() {
            y.row(c).copy_from_slice(sums);
        }
    }

    /// The attention of all `queries`, of which row `c` of `y` is that of query `c`.
    #[inline(always)]
    unsafe fn attend<S: Set>(&self, queries: &Queries, y: &mut Band, scores: &mut [Scores; TOGETHER]) {
        let scale = 1.0 / libm::sqrtf(self.head_dim as f32);
        let mut softmax = Softmax {
            max: [f32::NEG_INFINITY; TOGETHER],
            sum: [0.0; TOGETHER],
        };
        for c in 0..queries.count {
            y.row(c).fill(0.0);
        }
        let last = queries.position(queries.count - 1);
        let mut start = self.oldest(queries.first);
        start -= start % BLOCK as u64;
        while start <= last {
            // Places of the block that every query sees.
            let mut all = 0..BLOCK;
            for c in 0..queries.count {
                let seen = self.seen(start, queries.position(c));
                all = all.start.max(seen.start)..all.end.min(seen.end);
            }
            all.end = all.end.max(all.start);
            let count = queries.count;
            let seen = |c: usize| self.seen(start, queries.position(c));
            // Scores are those of all places that any of them sees; places outside of what a query sees weigh nothing.
            let any = seen(0).start..seen(count - 1).end;
            // SAFETY: by the caller.
            unsafe { self.score::<S>(start, any, queries.q, &mut scores[..count]) };
            for (c, scores) in scores[..count].iter_mut().enumerate() {
                let seen = seen(c);
                scores[..seen.start].fill(f32::NEG_INFINITY);
                scores[seen.end..].fill(f32::NEG_INFINITY);
            }
            // SAFETY: by the caller.
            unsafe { softmax.weigh::<S>(scale, &mut scores[..count], y) };
            // Sums touch nothing that a query does not see, not even to weigh it with 0, which may be infinite or no
            // number. What all see they sum together, and the rest each by itself, in the order of positions. There is
            // a loop over these turns, since all that it calls is inlined.
            let turn = |i: usize| match i.checked_sub(count) {
                None => (i..i + 1, seen(i).start..all.start.min(seen(i).end)),
                Some(0) => (0..count, all.clone()),
                Some(c) => (c - 1..c, all.end.max(seen(c - 1).start)..seen(c - 1).end),
            };
            let turns = if all == (0..BLOCK) {
                count..count + 1
            } else {
                0..2 * count + 1
            };
            for i in turns {
                let (which, places) = turn(i);
                let mut y = y.part(which.clone(), 0..self.head_dim);
                // SAFETY: by the caller.
                unsafe { self.sum::<S>(start, places, &scores[which], &mut y) };
            }
            start += BLOCK as u64;
        }
        for c in 0..queries.count {
            y.row(c).iter_mut().for_each(|y| *y /= softmax.sum[c]);
        }
    }

    /// The oldest position that a query at `position` sees.
    #[inline(always)]
    fn oldest(&self, position: u64) -> u64 {
        position.saturating_sub(self.window - 1).max(self.first)
    }

    /// The places of the block from `start` that a query at `position` sees.
    #[inline(always)]
    fn seen(&self, start: u64, position: u64) -> Range<usize> {
        let place = |position: u64| position.saturating_sub(start).min(BLOCK as u64) as usize;
        place(self.oldest(position))..place(position + 1)
    }

    /// Scores of the given places of the block from `start`.
    #[inline(always)]
    unsafe fn score<S: Set>(&self, start: u64, places: Range<usize>, q: Rows, scores: &mut [Scores]) {
        let mut runs = self.runs(start, places);
        while let Some((at, slots)) = runs.next() {
            // Their values come next.
            let ahead = self.values.address(slots.start);
            let keys = self.keys.rows(slots);
            // SAFETY: by the caller.
            unsafe { S::scores(q, keys.stored(), ahead, at, scores) };
            if let Some(scales) = keys.scales() {
                for scores in scores.iter_mut() {
                    scores[at..].iter_mut().zip(scales).for_each(|(s, scale)| *s *= scale);
                }
            }
        }
    }

    /// Adds the weighted values of the given places of the block from `start`.
    #[inline(always)]
    unsafe fn sum<S: Set>(&self, start: u64, places: Range<usize>, p: &[Scores], y: &mut Band) {
        let mut runs = self.runs(start, places);
        while let Some((at, slots)) = runs.next() {
            // The keys of the next block come next.
            let ahead = self.keys.address(slots.start + BLOCK);
            let values = self.values.rows(slots);
            let mut scaled = [[0.0; BLOCK]; TOGETHER];
            let p = match values.scales() {
                None => p,
                Some(scales) => {
                    for (scaled, p) in scaled.iter_mut().zip(p) {
                        for ((scaled, p), scale) in scaled[at..].iter_mut().zip(&p[at..]).zip(scales) {
                            *scaled = p * scale;
                        }
                    }
                    &scaled[..p.len()]
                }
            };
            // SAFETY: by the caller.
            unsafe { S::accumulate(p, at, values.stored(), ahead, y) };
        }
    }

    /// The runs of neighbouring slots that the given places of the block from `start` lie in.
    #[inline(always)]
    fn runs(&self, start: u64, places: Range<usize>) -> Runs {
        let slot = if places.is_empty() {
            0
        } else {
            ((start + places.start as u64) % self.capacity as u64) as usize
        };
        Runs {
            capacity: self.capacity,
            slot,
            places,
        }
    }
}

/// See [`Visible::runs`]: each time the first place of a run, and its slots.
struct Runs {
    capacity: usize,
    slot: usize,
    places: Range<usize>,
}

impl Runs {
    #[inline(always)]
    fn next(&mut self) -> Option<(usize, Range<usize>)> {
        if self.places.is_empty() {
            return None;
        }
        let at = self.places.start;
        let run = self.places.len().min(self.capacity - self.slot);
        let slots = self.slot..self.slot + run;
        self.places.start += run;
        self.slot = 0;
        Some((at, slots))
    }
}

/// The online softmax of some queries: of each the largest score so far, and the sum of all weights relative to it.
struct Softmax {
    max: [f32; TOGETHER],
    sum: [f32; TOGETHER],
}

impl Softmax {
    /// Turns the scores of a block into weights relative to the largest so far of each query; its row of `y` and its
    /// sum shrink to the same.
    ///
    /// Places that a query does not see hold -inf, hence weigh 0, which adds nothing to the sum. All queries take each
    /// step together and without a choice, since a processor would wait for the result of one.
    ///
    /// # Safety
    /// The machine has the set.
    #[inline(always)]
    unsafe fn weigh<S: Set>(&mut self, scale: f32, scores: &mut [Scores], y: &mut Band) {
        // Whole vectors.
        let mut shrink = [0.0; TOGETHER.next_multiple_of(8)];
        for ((max, shrink), scores) in self.max.iter_mut().zip(&mut shrink).zip(scores.iter_mut()) {
            // SAFETY: by the caller.
            let larger = unsafe { S::scale_and_max(scale, *max, scores) };
            // Two that are equal may be infinite, and have no difference.
            *shrink = if larger > *max { *max - larger } else { 0.0 };
            *max = larger;
        }
        for shrink in &mut shrink {
            *shrink = exp(*shrink);
        }
        for (c, scores) in scores.iter_mut().enumerate() {
            y.row(c).iter_mut().for_each(|y| *y *= shrink[c]);
            // A query that has seen nothing yet has no largest to take off.
            let max = self.max[c].max(f32::MIN);
            // SAFETY: by the caller.
            self.sum[c] = self.sum[c] * shrink[c] + unsafe { S::exp_and_sum(max, scores) };
        }
    }
}
