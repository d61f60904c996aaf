//! Rings of keys and values, and attention over them.

use proptest::prelude::*;
use voxtral_core::kernels::{CacheType, Class, Heads, Kernels, Ops, Ring, Serial};

use super::all_kernels;
use super::canonical::{canonical_attention, same_bits};
use super::data::{CACHES, Random, cache_len, cached};
use super::executors::executors;

/// Queries, keys and values of a stream.
struct Stream {
    heads: Heads,
    /// Its first position.
    start: u64,
    cache: CacheType,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Stream {
    fn new(random: &mut Random, heads: Heads, cache: CacheType, total: usize) -> Self {
        let widened = |values: Vec<f32>| values.iter().map(|v| 3.0 * v).collect();
        Self {
            heads,
            start: 0,
            cache,
            q: widened(random.values(total * heads.n_heads * heads.head_dim)),
            k: widened(random.values(total * heads.n_kv_heads * heads.head_dim)),
            v: random.values(total * heads.n_kv_heads * heads.head_dim),
        }
    }

    /// All outputs, the stream taken in chunks of the given sizes over and over.
    fn run(&self, ops: Ops, window: usize, chunks: &[usize], spare: usize) -> Vec<f32> {
        let (q_width, kv_width) = (
            self.heads.n_heads * self.heads.head_dim,
            self.heads.n_kv_heads * self.heads.head_dim,
        );
        let total = self.q.len() / q_width;
        let capacity = window - 1 + chunks.iter().max().unwrap() + spare;
        let mut keys = vec![f32::NAN; cache_len(self.cache, capacity * self.heads.n_kv_heads, self.heads.head_dim)];
        let mut values = keys.clone();
        let mut y = vec![f32::NAN; self.q.len()];
        let mut first = 0;
        for &chunk in chunks.iter().cycle() {
            let next = (first + chunk).min(total);
            ops.ring_store(
                self.heads,
                self.cache,
                capacity,
                self.start + first as u64,
                &self.k[first * kv_width..next * kv_width],
                &mut keys,
            );
            ops.ring_store(
                self.heads,
                self.cache,
                capacity,
                self.start + first as u64,
                &self.v[first * kv_width..next * kv_width],
                &mut values,
            );
            let ring = Ring {
                keys: &keys,
                values: &values,
                capacity,
                first: self.start,
                cache: self.cache,
            };
            let range = first * q_width..next * q_width;
            ops.attention(
                self.heads,
                window,
                self.start + first as u64,
                &self.q[range.clone()],
                ring,
                &mut y[range],
            );
            first = next;
            if first == total {
                break;
            }
        }
        y
    }

    /// Head `head` of all positions in `data`, which has `heads` of them.
    fn head(&self, data: &[f32], heads: usize, head: usize) -> Vec<Vec<f32>> {
        data.chunks(heads * self.heads.head_dim)
            .map(|row| row[head * self.heads.head_dim..][..self.heads.head_dim].to_vec())
            .collect()
    }

    /// All outputs by the definition, and by a softmax in f64.
    fn expected(&self, class: Class, window: usize) -> (Vec<f32>, Vec<f64>) {
        let Heads {
            n_heads,
            n_kv_heads,
            head_dim,
        } = self.heads;
        let [keys, values] = [&self.k, &self.v].map(|all| cached(self.cache, head_dim, all));
        let (mut y, mut exact) = (vec![0.0; self.q.len()], vec![0.0; self.q.len()]);
        for h in 0..n_heads {
            let kv = h / (n_heads / n_kv_heads);
            let q = self.head(&self.q, n_heads, h);
            let [k, v] = [&keys, &values].map(|(elements, scales)| {
                let scales = scales.iter().skip(kv).step_by(n_kv_heads).copied();
                self.head(elements, n_kv_heads, kv)
                    .into_iter()
                    .zip(scales)
                    .collect::<Vec<_>>()
            });
            for (p, q) in q.iter().enumerate() {
                let visible = (p + 1).saturating_sub(window)..=p;
                let at = (p * n_heads + h) * head_dim;
                y[at..at + head_dim].copy_from_slice(&canonical_attention(class, q, &k, &v, visible.clone()));
                let scores: Vec<f64> = visible
                    .clone()
                    .map(|j| {
                        (0..head_dim)
                            .map(|d| f64::from(q[d]) * f64::from(k[j].0[d]) * f64::from(k[j].1))
                            .sum::<f64>()
                    })
                    .map(|dot| dot / (head_dim as f64).sqrt())
                    .collect();
                let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
                for (j, s) in visible.zip(&scores) {
                    for d in 0..head_dim {
                        exact[at + d] += (s - max).exp() / sum * f64::from(v[j].0[d]) * f64::from(v[j].1);
                    }
                }
            }
        }
        (y, exact)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn attention_is_a_masked_softmax_in_the_canonical_order(
        n_kv_heads in 1usize..4,
        group in 1usize..5,
        head_dim in prop_oneof![1usize..40, 60usize..80],
        window in prop_oneof![1usize..20, 50usize..150],
        total in 1usize..200,
        chunks in prop::collection::vec(1usize..30, 1..5),
        spare in 0usize..5,
        cache in prop::sample::select(&CACHES),
        seed: u64,
    ) {
        let heads = Heads { n_heads: n_kv_heads * group, n_kv_heads, head_dim };
        let stream = Stream::new(&mut Random::new(seed), heads, cache, total);
        for kernels in all_kernels() {
            let (expected, exact) = stream.expected(kernels.class(), window);
            let y = stream.run(Ops::new(kernels, &Serial), window, &chunks, spare);
            prop_assert!(same_bits(&y, &expected), "{:?} {:?}", kernels, cache);
            prop_assert!(y.iter().zip(&exact).all(|(&y, exact)| (f64::from(y) - exact).abs() < 1e-5));
        }
    }
}

#[test]
fn attention_depends_neither_on_chunks_nor_on_threads() {
    let heads = Heads {
        n_heads: 6,
        n_kv_heads: 3,
        head_dim: 20,
    };
    // Rings that wrap many times: the longest holds 169 of 1200 positions.
    for (kernels, cache) in all_kernels()
        .into_iter()
        .flat_map(|kernels| CACHES.map(|cache| (kernels, cache)))
    {
        let stream = Stream::new(&mut Random::new(6), heads, cache, 1200);
        let one_by_one = stream.run(Ops::new(kernels, &Serial), 70, &[1], 0);
        assert!(same_bits(&one_by_one, &stream.expected(kernels.class(), 70).0));
        for executor in executors() {
            for (chunks, spare) in [(&[100][..], 0), (&[64], 1), (&[1, 99, 7], 3)] {
                let y = stream.run(Ops::new(kernels, executor), 70, chunks, spare);
                assert!(same_bits(&y, &one_by_one), "{kernels:?} {cache:?} {chunks:?}");
            }
        }
    }
}

/// Nothing before the start of a stream is looked at (it is NaN there), and where blocks begin at the same places the
/// bits are those of a stream from 0; elsewhere the values are, up to rounding.
#[test]
fn attention_of_a_stream_that_starts_elsewhere() {
    let heads = Heads {
        n_heads: 4,
        n_kv_heads: 2,
        head_dim: 12,
    };
    for (kernels, cache) in all_kernels()
        .into_iter()
        .flat_map(|kernels| CACHES.map(|cache| (kernels, cache)))
    {
        let mut stream = Stream::new(&mut Random::new(11), heads, cache, 300);
        let ops = Ops::new(kernels, &Serial);
        let expected = stream.run(ops, 70, &[13], 5);
        for start in [64, 1 << 21, (1 << 32) - 64, 1 << 50] {
            stream.start = start;
            assert!(same_bits(&stream.run(ops, 70, &[13], 5), &expected), "{start}");
        }
        for start in [1, 63, (1 << 24) - 7, (1 << 32) - 33] {
            stream.start = start;
            let y = stream.run(ops, 70, &[13], 5);
            assert!(y.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5), "{start}");
        }
    }
}

#[test]
fn attention_at_positions_beyond_32_bits() {
    let heads = Heads {
        n_heads: 1,
        n_kv_heads: 1,
        head_dim: 8,
    };
    // A multiple of the block and of the ring's capacity, so that the same run from 0 has the same blocks.
    let far = 64 * 37 * (1u64 << 32);
    let mut random = Random::new(7);
    let (window, capacity) = (37, 37);
    let (q, kv) = (random.values(8), random.values(8 * capacity));
    let outputs = [0, far].map(|base| {
        let ops = Ops::new(Kernels::detect(), &Serial);
        let mut ring = vec![0.0; 8 * capacity];
        ops.ring_store(heads, CacheType::F32, capacity, base + 50, &kv, &mut ring);
        let view = Ring {
            keys: &ring,
            values: &ring,
            capacity,
            first: 0,
            cache: CacheType::F32,
        };
        let mut y = vec![0.0; 8];
        ops.attention(heads, window, base + 50 + 36, &q, view, &mut y);
        y
    });
    assert!(same_bits(&outputs[0], &outputs[1]));
}

#[test]
fn a_nan_in_the_window_shows_and_one_outside_does_not() {
    let heads = Heads {
        n_heads: 1,
        n_kv_heads: 1,
        head_dim: 9,
    };
    let (window, capacity) = (70, 100);
    for (kernels, cache) in all_kernels()
        .into_iter()
        .flat_map(|kernels| CACHES.map(|cache| (kernels, cache)))
    {
        let ops = Ops::new(kernels, &Serial);
        let attend = |keys: &[f32]| {
            let mut stored = vec![0.0; cache_len(cache, keys.len() / heads.head_dim, heads.head_dim)];
            ops.ring_store(heads, cache, capacity, 0, keys, &mut stored);
            let ring = Ring {
                keys: &stored,
                values: &stored,
                capacity,
                first: 0,
                cache,
            };
            let mut y = [0.0; 9];
            ops.attention(heads, window, 99, &[0.5; 9], ring, &mut y);
            y
        };
        let clean = Random::new(8).values(9 * capacity);
        // One whose payload has only bits that bfloat16 lacks.
        for nan in [f32::NAN, f32::from_bits(0x7F80_0001)] {
            for position in 0..capacity {
                let mut keys = clean.clone();
                keys[9 * position] = nan;
                let y = attend(&keys);
                if position < 30 {
                    assert!(same_bits(&y, &attend(&clean)), "{kernels:?} {cache:?} {position}");
                } else {
                    assert!(y.iter().all(|y| y.is_nan()), "{kernels:?} {cache:?} {position}");
                }
            }
        }
    }
}

/// Two elements to a value, each to the nearest, ties to even; only the slots that were written change.
#[test]
fn a_cache_of_bf16_rounds_to_nearest_even() {
    let heads = Heads {
        n_heads: 2,
        n_kv_heads: 1,
        head_dim: 3,
    };
    let ops = Ops::new(Kernels::detect(), &Serial);
    // 3 slots of 3 elements: 5 values, half of the last unused.
    let mut ring = [0.0; 5];
    let x = [
        0x3F80_8000,
        0x3F81_8000,
        0x3F80_8001,
        0xBF80_7FFF,
        0x7F7F_FFFF,
        0x8000_0000,
    ]
    .map(f32::from_bits);
    ops.ring_store(heads, CacheType::Bf16, 3, 4, &x, &mut ring);
    let bytes: Vec<u8> = ring.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let halves: Vec<u16> = bytes.chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
    assert_eq!(halves, [0, 0, 0, 0x3F80, 0x3F82, 0x3F81, 0xBF80, 0x7F80, 0x8000, 0]);
}
