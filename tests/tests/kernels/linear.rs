//! The linear map.

use half::{bf16, f16};
use proptest::prelude::*;
use voxtral_core::kernels::{Kernels, Matrix, Ops, Serial, Storage};

use super::all_kernels;
use super::canonical::{canonical_dot, same_bits};
use super::data::{Random, STORAGES, Weights, encode};
use super::executors::executors;

/// Runs a linear map in every way and compares bits with the definition, and values with f64.
fn check_linear(kernels: Kernels, w: &Weights, bias: Option<&Weights>, n: usize, onto: bool, random: &mut Random) {
    let x = random.values(n * w.cols);
    let before = random.values(n * w.rows);
    let mut y = before.clone();
    let ops = Ops::new(kernels, &Serial);
    let bias_matrix = bias.map(Weights::matrix);
    if onto {
        ops.linear_add(&w.matrix(), bias_matrix.as_ref(), &x, &mut [], &mut y);
    } else {
        ops.linear(&w.matrix(), bias_matrix.as_ref(), &x, &mut [], &mut y);
    }
    for i in 0..n {
        let x = &x[i * w.cols..(i + 1) * w.cols];
        for r in 0..w.rows {
            let at = i * w.rows + r;
            let mut expected = canonical_dot(kernels.class(), w.row(r), x);
            let mut exact: f64 = w.row(r).iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum();
            let mut size: f64 = w.row(r).iter().zip(x).map(|(&w, &x)| f64::from(w * x).abs()).sum();
            if let Some(bias) = bias {
                expected += bias.values[r];
                exact += f64::from(bias.values[r]);
                size += 1.0;
            }
            if onto {
                expected += before[at];
                exact += f64::from(before[at]);
                size += 1.0;
            }
            let what = format!(
                "{kernels:?} {:?} {}x{} row {r} input {i} of {n}",
                w.storage, w.rows, w.cols
            );
            assert_eq!(
                y[at].to_bits(),
                expected.to_bits(),
                "{what}: {} is not {expected}",
                y[at]
            );
            let steps = (w.cols / 8 + 8) as f64;
            assert!(
                (f64::from(y[at]) - exact).abs() <= steps * size * f64::from(f32::EPSILON),
                "{what}"
            );
        }
    }
}

fn storage() -> impl Strategy<Value = Storage> {
    prop::sample::select(&STORAGES[..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn linear_keeps_the_canonical_order(
        rows in 1usize..40,
        cols in prop_oneof![1usize..80, 632usize..660, 1270usize..1300],
        n in 1usize..30,
        storage in storage(),
        shift in 0usize..2,
        bias in prop::option::of(storage_and_shape()),
        onto: bool,
        seed: u64,
    ) {
        let mut random = Random::new(seed);
        let w = Weights::new(&mut random, rows, cols, storage, shift);
        let bias = bias.map(|(storage, column)| {
            let (rows, cols) = if column { (rows, 1) } else { (1, rows) };
            Weights::new(&mut random, rows, cols, storage, 1)
        });
        for kernels in all_kernels() {
            check_linear(kernels, &w, bias.as_ref(), n, onto, &mut random);
        }
    }
}

fn storage_and_shape() -> impl Strategy<Value = (Storage, bool)> {
    (storage(), any::<bool>())
}

#[test]
fn every_tail_and_tile() {
    let mut random = Random::new(1);
    for storage in STORAGES {
        for cols in 0..=40 {
            for rows in [1, 4, 7, 8, 17] {
                let w = Weights::new(&mut random, rows, cols, storage, cols % 2);
                for n in [1, 2, 3, 4, 5, 25] {
                    for kernels in all_kernels() {
                        check_linear(kernels, &w, None, n, false, &mut random);
                    }
                }
            }
        }
    }
}

/// Products that vanish leave -0 in a fused lane; a tail that added 0 to other lanes would lose the sign.
#[test]
fn a_tail_leaves_other_lanes_alone() {
    let tiny = f32::from_bits(1);
    for cols in 8..16 {
        let mut values = vec![tiny; cols];
        values[8..].fill(0.0);
        let (bytes, _) = encode(Storage::F32, &values);
        let w = Matrix::new(&bytes, 1, cols, Storage::F32).unwrap();
        let x = vec![-tiny; cols];
        for kernels in all_kernels() {
            let mut y = [1.0f32];
            Ops::new(kernels, &Serial).linear(&w, None, &x, &mut [], &mut y);
            let expected = canonical_dot(kernels.class(), &values, &x);
            assert_eq!(y[0].to_bits(), expected.to_bits(), "{kernels:?} {cols}");
        }
    }
}

#[test]
fn every_half_decodes_exactly() {
    for storage in [Storage::Bf16, Storage::F16] {
        let decode = |bits: u16| match storage {
            Storage::Bf16 => bf16::from_bits(bits).to_f32(),
            _ => f16::from_bits(bits).to_f32(),
        };
        let patterns: Vec<u16> = (0..=u16::MAX)
            .map(|bits| if decode(bits).is_finite() { bits } else { 0 })
            .collect();
        let bytes: Vec<u8> = patterns.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let w = Matrix::new(&bytes, 8192, 8, storage).unwrap();
        let identity: Vec<f32> = (0..64).map(|i| if i % 9 == 0 { 1.0 } else { 0.0 }).collect();
        for kernels in all_kernels() {
            let mut y = vec![0.0f32; 8 * 8192];
            Ops::new(kernels, &Serial).linear(&w, None, &identity, &mut [], &mut y);
            for (i, &bits) in patterns.iter().enumerate() {
                assert_eq!(
                    y[i % 8 * 8192 + i / 8],
                    decode(bits),
                    "{kernels:?} {storage:?} {bits:04x}"
                );
            }
        }
        let mut row = [0.0f32; 8];
        for (r, patterns) in patterns.chunks(8).enumerate() {
            w.widen_row(r, &mut row);
            assert!(
                row.iter()
                    .zip(patterns)
                    .all(|(&v, &bits)| v.to_bits() == decode(bits).to_bits())
            );
        }
    }
}

#[test]
fn linear_depends_neither_on_batch_nor_on_threads() {
    let mut random = Random::new(2);
    // Enough multiplications to be spread, a ragged last piece, and more inputs than one group of any kernel.
    let (rows, cols, n) = (307, 203, 29);
    for storage in STORAGES {
        let w = Weights::new(&mut random, rows, cols, storage, 1);
        let x = random.values(n * cols);
        let before = random.values(n * rows);
        for kernels in all_kernels() {
            let mut whole = before.clone();
            Ops::new(kernels, &Serial).linear_add(&w.matrix(), None, &x, &mut [], &mut whole);
            for executor in executors() {
                let ops = Ops::new(kernels, executor);
                for batch in [1, 2, 3, 7, n] {
                    let mut y = before.clone();
                    for (x, y) in x.chunks(batch * cols).zip(y.chunks_mut(batch * rows)) {
                        ops.linear_add(&w.matrix(), None, x, &mut [], y);
                    }
                    assert!(same_bits(&y, &whole), "{kernels:?} {storage:?} batches of {batch}");
                }
            }
        }
    }
}
