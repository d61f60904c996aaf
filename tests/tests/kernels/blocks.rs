//! The linear map with weights in blocks.

use half::f16;
use proptest::prelude::*;
use voxtral_core::kernels::{Class, Kernels, Matrix, Ops, Serial, Storage, activations_len};

use super::all_kernels;
use super::canonical::{same_bits, tree};
use super::data::{BLOCKS, Place, Random, Weights};
use super::executors::executors;

/// Activations of 8 bits, by the written rule: scales and levels.
fn quantised(x: &[f32]) -> (Vec<f32>, Vec<i32>) {
    let block = |k: usize| k / 256 * 8 + k / 4 % 8;
    let mut largest = vec![0.0f32; x.len().div_ceil(256) * 8];
    for (k, x) in x.iter().enumerate() {
        largest[block(k)] = largest[block(k)].max(x.abs());
    }
    let levels = x.iter().enumerate().map(|(k, x)| {
        let largest = largest[block(k)];
        if largest < 2f32.powi(-119) {
            0
        } else {
            (x * (127.0 / largest)).round_ties_even() as i32
        }
    });
    let levels = levels.collect();
    let scale = |&l: &f32| if l < 2f32.powi(-119) { 0.0 } else { l / 127.0 };
    (largest.iter().map(scale).collect(), levels)
}

/// The canonical dot product of a row in blocks and activations, as `kernels` tells it.
fn canonical_blocks_dot(class: Class, storage: Storage, row: &[u8], x: &[f32]) -> f32 {
    let cols = x.len();
    let (x_scales, x_levels) = quantised(x);
    let mut lanes = [0.0f32; 8];
    for group in 0..cols.div_ceil(256) {
        for (l, lane) in lanes.iter_mut().enumerate() {
            let (mut sum, mut scale) = (0, 0.0);
            for k in (group * 256..cols.min(group * 256 + 256)).filter(|k| k / 4 % 8 == l) {
                let block = Place::of(storage, cols, k).read(row);
                sum += i32::from(block.level) * x_levels[k];
                scale = block.scale;
            }
            let scale = scale * x_scales[group * 8 + l];
            *lane = match class {
                Class::Fused => (sum as f32).mul_add(scale, *lane),
                Class::Separate => *lane + sum as f32 * scale,
            };
        }
    }
    tree(lanes)
}

fn scratch(n: usize, cols: usize) -> Vec<f32> {
    vec![f32::NAN; activations_len(n, cols).unwrap()]
}

/// Runs a linear map in every way and compares bits with the definition, and values with f64.
fn check(kernels: Kernels, w: &Weights, bias: Option<&Weights>, n: usize, onto: bool, random: &mut Random) {
    let x = random.values(n * w.cols);
    let before = random.values(n * w.rows);
    let mut y = before.clone();
    let mut scratch = scratch(n, w.cols);
    let ops = Ops::new(kernels, &Serial);
    let bias_matrix = bias.map(Weights::matrix);
    let run = if onto { Ops::linear_add } else { Ops::linear };
    run(&ops, &w.matrix(), bias_matrix.as_ref(), &x, &mut scratch, &mut y);
    for i in 0..n {
        let x = &x[i * w.cols..(i + 1) * w.cols];
        for r in 0..w.rows {
            let at = i * w.rows + r;
            let row = w.matrix().row(r).unwrap();
            let mut expected = canonical_blocks_dot(kernels.class(), w.storage, row.bytes(), x);
            let mut exact: f64 = w.row(r).iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum();
            // What half a level of the activations makes at most: values are below 1.
            let mut far: f64 = w.row(r).iter().map(|&w| f64::from(w).abs() / 253.9).sum::<f64>() + 1e-5;
            if let Some(bias) = bias {
                expected += bias.values[r];
                exact += f64::from(bias.values[r]);
            }
            if onto {
                expected += before[at];
                exact += f64::from(before[at]);
                far += 1e-6;
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
            assert!(
                (f64::from(y[at]) - exact).abs() <= far,
                "{what}: {} is not {exact}",
                y[at]
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn linear_keeps_the_canonical_order(
        rows in 1usize..40,
        steps in prop_oneof![1usize..20, 30usize..34, 39usize..42],
        n in 1usize..30,
        storage in prop::sample::select(&BLOCKS[..]),
        shift in 0usize..2,
        bias: bool,
        onto: bool,
        seed: u64,
    ) {
        let mut random = Random::new(seed);
        let w = Weights::new(&mut random, rows, 32 * steps, storage, shift);
        let bias = bias.then(|| Weights::new(&mut random, 1, rows, Storage::F32, 1));
        for kernels in all_kernels() {
            check(kernels, &w, bias.as_ref(), n, onto, &mut random);
        }
    }
}

#[test]
fn every_width_and_tile() {
    let mut random = Random::new(1);
    for storage in BLOCKS {
        for steps in (0..=18).chain([32, 40]) {
            for rows in [1, 2, 7, 8, 17] {
                let w = Weights::new(&mut random, rows, 32 * steps, storage, steps % 2);
                for n in [1, 2, 3, 4, 5, 25] {
                    for kernels in all_kernels() {
                        check(kernels, &w, None, n, false, &mut random);
                    }
                }
            }
        }
    }
}

/// The largest products there are, of levels that no encoder writes besides, stay exact.
#[test]
fn extreme_levels() {
    let cols = 288;
    for storage in BLOCKS {
        for byte in [0x80u8, 0x7F, 0xFF, 0x00] {
            let mut row = vec![byte; storage.row_bytes(cols).unwrap()];
            for group in [0, storage.row_bytes(256).unwrap()] {
                for scale in row[group..group + 16].chunks_exact_mut(2) {
                    scale.copy_from_slice(&f16::from_f32(0.5).to_le_bytes());
                }
            }
            let bytes = row.repeat(9);
            let w = Matrix::new(&bytes, 9, cols, storage).unwrap();
            for sign in [1.0f32, -1.0] {
                for n in [1, 3, 12] {
                    let x = vec![sign; n * cols];
                    let expected = canonical_blocks_dot(Class::Fused, storage, &row, &x[..cols]);
                    for kernels in all_kernels() {
                        let mut y = vec![0.0; n * 9];
                        Ops::new(kernels, &Serial).linear(&w, None, &x, &mut scratch(n, cols), &mut y);
                        assert!(
                            y.iter().all(|&y| y == expected),
                            "{kernels:?} {storage:?} {byte:02x} {sign}"
                        );
                    }
                }
            }
        }
    }
}

/// Activations that are no numbers do not come out as numbers; tiny ones count as zeros.
#[test]
fn odd_activations() {
    let mut random = Random::new(3);
    let cols = 320;
    for storage in BLOCKS {
        let w = Weights::new(&mut random, 10, cols, storage, 0);
        for kernels in all_kernels() {
            for n in [1, 3, 12] {
                for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    for at in [0, 255, 256, 319] {
                        let mut x = random.values(n * cols);
                        x[(n - 1) * cols + at] = odd;
                        let mut y = vec![0.0; n * 10];
                        Ops::new(kernels, &Serial).linear(&w.matrix(), None, &x, &mut scratch(n, cols), &mut y);
                        let (numbers, others) = y.split_at((n - 1) * 10);
                        assert!(numbers.iter().all(|y| y.is_finite()), "{kernels:?}");
                        assert!(others.iter().all(|y| y.is_nan()), "{kernels:?} {odd} {at}");
                    }
                }
                let mut y = vec![1.0; n * 10];
                let x = vec![2f32.powi(-120); n * cols];
                Ops::new(kernels, &Serial).linear(&w.matrix(), None, &x, &mut scratch(n, cols), &mut y);
                assert!(y.iter().all(|&y| y == 0.0), "{kernels:?}");
            }
        }
    }
}

#[test]
fn linear_depends_neither_on_batch_nor_on_threads() {
    let mut random = Random::new(2);
    let (rows, cols, n) = (307, 288, 29);
    for storage in BLOCKS {
        let w = Weights::new(&mut random, rows, cols, storage, 1);
        let x = random.values(n * cols);
        let before = random.values(n * rows);
        for kernels in all_kernels() {
            let mut whole = before.clone();
            let mut scratch = scratch(n, cols);
            Ops::new(kernels, &Serial).linear_add(&w.matrix(), None, &x, &mut scratch, &mut whole);
            for executor in executors() {
                let ops = Ops::new(kernels, executor);
                for batch in [1, 2, 3, 7, n] {
                    let mut y = before.clone();
                    for (x, y) in x.chunks(batch * cols).zip(y.chunks_mut(batch * rows)) {
                        ops.linear_add(&w.matrix(), None, x, &mut scratch, y);
                    }
                    assert!(same_bits(&y, &whole), "{kernels:?} {storage:?} batches of {batch}");
                }
            }
        }
    }
}
