//! Every kernel on slices that begin or end exactly at a page that cannot be touched.

use voxtral_core::kernels::{Heads, Matrix, Ops, Ring, Serial, Storage, activations_len};
use voxtral_tests::guard::Guarded;

use super::all_kernels;
use super::canonical::same_bits;
use super::data::{BLOCKS, CACHES, Random, STORAGES, Weights, cache_len};

/// Both ends of the memory that `count` values may be at.
fn placed(values: &[f32]) -> [Guarded; 2] {
    [
        Guarded::ending(4 * values.len(), 0),
        Guarded::beginning(4 * values.len(), 0),
    ]
    .map(|mut place| {
        place.floats().copy_from_slice(values);
        place
    })
}

#[test]
fn linear() {
    let mut random = Random::new(9);
    for storage in STORAGES.into_iter().chain(BLOCKS) {
        let widths: Vec<usize> = if storage.is_blocks() {
            (32..=288).step_by(32).chain([1280]).collect()
        } else {
            (1..=33).chain([641, 647]).collect()
        };
        for cols in widths {
            for rows in [1, 4, 9, 17] {
                let w = Weights::new(&mut random, rows, cols, storage, 0);
                let bytes = w.matrix().bytes();
                let mut places = [
                    Guarded::ending(bytes.len(), 0),
                    Guarded::ending(bytes.len(), 1),
                    Guarded::beginning(bytes.len(), 0),
                    Guarded::beginning(bytes.len(), 1),
                ];
                for n in [1, 2, 3, 4] {
                    let x = random.values(n * cols);
                    let (mut xs, mut ys) = (placed(&x), placed(&vec![0.0; n * rows]));
                    let mut scratches = placed(&vec![0.0; activations_len(n, cols).unwrap()]);
                    let mut scratch = vec![0.0; activations_len(n, cols).unwrap()];
                    for kernels in all_kernels() {
                        let ops = Ops::new(kernels, &Serial);
                        let mut expected = vec![0.0; n * rows];
                        ops.linear(&w.matrix(), None, &x, &mut scratch, &mut expected);
                        for place in &mut places {
                            place.bytes().copy_from_slice(bytes);
                            let matrix = Matrix::new(place.bytes(), rows, cols, storage).unwrap();
                            for ((x, y), scratch) in xs.iter_mut().zip(&mut ys).zip(&mut scratches) {
                                y.floats().fill(0.0);
                                ops.linear(&matrix, None, x.floats(), scratch.floats(), y.floats());
                                assert!(
                                    same_bits(y.floats(), &expected),
                                    "{kernels:?} {storage:?} {rows}x{cols}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn attention_and_rms_norm() {
    let mut random = Random::new(10);
    for head_dim in (1..=40).chain([63, 64, 65, 71, 72, 129]) {
        let heads = Heads {
            n_heads: 2,
            n_kv_heads: 1,
            head_dim,
        };
        let (window, capacity) = (6, 7);
        let [q, new_keys, new_values] = [4, 7, 7].map(|count| random.values(count * head_dim));
        let w = Weights::new(&mut random, 1, head_dim, Storage::F32, 0);
        for (kernels, cache) in all_kernels()
            .into_iter()
            .flat_map(|kernels| CACHES.map(|cache| (kernels, cache)))
        {
            let ops = Ops::new(kernels, &Serial);
            let stored = |values: &[f32]| {
                let mut places = placed(&vec![0.0; cache_len(cache, values.len() / head_dim, head_dim)]);
                for place in &mut places {
                    ops.ring_store(heads, cache, capacity, 14, values, place.floats());
                }
                places
            };
            let (mut ks, mut vs) = (stored(&new_keys), stored(&new_values));
            let (keys, values) = (ks[0].floats().to_vec(), vs[0].floats().to_vec());
            let ring = Ring {
                keys: &keys,
                values: &values,
                capacity,
                first: 0,
                cache,
            };
            let (mut attended, mut normed) = (vec![0.0; q.len()], vec![0.0; q.len()]);
            ops.attention(heads, window, 20, &q, ring, &mut attended);
            ops.rms_norm(&w.matrix(), 1e-5, &q, &mut normed);
            let mut qs = placed(&q);
            let mut ys = placed(&vec![0.0; q.len()]);
            for i in 0..2 {
                let ring = Ring {
                    keys: ks[i].floats(),
                    values: vs[i].floats(),
                    capacity,
                    first: 0,
                    cache,
                };
                ops.attention(heads, window, 20, qs[i].floats(), ring, ys[i].floats());
                assert!(same_bits(ys[i].floats(), &attended), "{kernels:?} {cache:?} {head_dim}");
                ops.rms_norm(&w.matrix(), 1e-5, qs[i].floats(), ys[i].floats());
                assert!(same_bits(ys[i].floats(), &normed), "{kernels:?} {head_dim}");
            }
        }
    }
}
