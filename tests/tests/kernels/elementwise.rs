//! RMSNorm, RoPE, and what goes element by element.

use voxtral_core::kernels::{Kernels, Matrix, Ops, Serial, Storage};

use super::all_kernels;
use super::canonical::{canonical_dot, same_bits};
use super::data::{BLOCKS, Random, STORAGES, Weights};
use super::executors::executors;

#[test]
fn rms_norm_keeps_the_canonical_order() {
    let mut random = Random::new(3);
    let eps = 1e-5f32;
    for (n, dim) in [(1, 1), (3, 5), (2, 64), (7, 100), (70, 1000)] {
        for storage in STORAGES {
            let w = Weights::new(&mut random, 1, dim, storage, 1);
            let x = random.values(n * dim);
            for kernels in all_kernels() {
                let mut expected = Vec::new();
                for x in x.chunks(dim) {
                    let r = 1.0 / libm::sqrtf(canonical_dot(kernels.class(), x, x) / dim as f32 + eps);
                    expected.extend(x.iter().zip(&w.values).map(|(x, w)| (x * r) * w));
                    let mean = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / dim as f64;
                    let exact = 1.0 / (mean + f64::from(eps)).sqrt();
                    assert!((f64::from(r) / exact - 1.0).abs() < 1e-5);
                }
                for executor in executors() {
                    let mut y = vec![f32::NAN; n * dim];
                    Ops::new(kernels, executor).rms_norm(&w.matrix(), eps, &x, &mut y);
                    assert!(same_bits(&y, &expected), "{kernels:?} {storage:?} {n}x{dim}");
                }
            }
        }
    }
}

#[test]
fn rope_turns_neighbouring_pairs() {
    let mut random = Random::new(4);
    for (n, heads, head_dim) in [(1, 1, 2), (3, 2, 10), (70, 32, 128)] {
        let rotations: Vec<f32> = (0..n * head_dim / 2)
            .flat_map(|i| [(i as f32 * 0.7).cos(), (i as f32 * 0.7).sin()])
            .collect();
        let x = random.values(n * heads * head_dim);
        let mut expected = x.clone();
        for i in 0..n {
            for h in 0..heads {
                for j in 0..head_dim / 2 {
                    let (at, turn) = ((i * heads + h) * head_dim + 2 * j, i * head_dim + 2 * j);
                    let (a, b, cos, sin) = (x[at], x[at + 1], rotations[turn], rotations[turn + 1]);
                    expected[at] = a * cos - b * sin;
                    expected[at + 1] = a * sin + b * cos;
                }
            }
        }
        for kernels in all_kernels() {
            for executor in executors() {
                let mut y = x.clone();
                Ops::new(kernels, executor).rope(&rotations, heads, head_dim, &mut y);
                assert!(same_bits(&y, &expected), "{kernels:?} {n} {heads} {head_dim}");
            }
        }
    }
}

#[test]
fn gelu_is_the_erf_form_and_silu_is_x_times_its_logistic() {
    let x: Vec<f32> = (-40_000..=40_000).map(|i| i as f32 * 0.001).collect();
    let up: Vec<f32> = x.iter().map(|x| 0.5 - x / 50.0).collect();
    for executor in executors() {
        let ops = Ops::new(Kernels::baseline(), executor);
        let (mut gelu, mut silu) = (x.clone(), x.clone());
        ops.gelu(&mut gelu);
        ops.silu_mul(&mut silu, &up);
        for i in 0..x.len() {
            let v = f64::from(x[i]);
            let exact = v / 2.0 * (1.0 + libm::erf(v / 2f64.sqrt()));
            assert!(
                (f64::from(gelu[i]) - exact).abs() < 3e-7 * (1.0 + v.abs()),
                "gelu {v}: {} {exact}",
                gelu[i]
            );
            let exact = v / (1.0 + (-v).exp()) * f64::from(up[i]);
            assert!(
                (f64::from(silu[i]) - exact).abs() < 3e-7 * (1.0 + exact.abs()),
                "silu {v}: {} {exact}",
                silu[i]
            );
        }
    }
    let mut ends = [f32::INFINITY, 1e30, -1e30, -0.0];
    Ops::new(Kernels::baseline(), &Serial).gelu(&mut ends);
    assert_eq!(ends, [f32::INFINITY, 1e30, 0.0, 0.0]);
}

#[test]
fn add_row_and_modulate() {
    let mut random = Random::new(5);
    let ops = Ops::new(Kernels::baseline(), &Serial);
    for (storage, cols) in STORAGES
        .map(|storage| (storage, 7))
        .into_iter()
        .chain(BLOCKS.map(|storage| (storage, 352)))
    {
        let w = Weights::new(&mut random, 5, cols, storage, 1);
        let stride = storage.row_bytes(cols).unwrap();
        for row in 0..5 {
            let x = random.values(cols);
            let mut y = x.clone();
            ops.add_row(&w.matrix(), row, &mut y);
            assert!((0..cols).all(|i| y[i] == x[i] + w.row(row)[i]));
            assert_eq!(
                w.matrix().row(row).unwrap().bytes(),
                &w.matrix().bytes()[row * stride..][..stride]
            );
        }
        assert!(w.matrix().row(5).is_none());
    }
    let mut x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    ops.modulate(&[0.0, 1.0, -2.0], &mut x);
    assert_eq!(x, [1.0, 4.0, -3.0, 4.0, 10.0, -6.0]);
}

#[test]
fn a_matrix_has_exactly_its_bytes() {
    assert!(Matrix::new(&[0; 24], 3, 4, Storage::Bf16).is_some());
    assert!(Matrix::new(&[0; 23], 3, 4, Storage::F16).is_none());
    assert!(Matrix::new(&[0; 25], 3, 4, Storage::Bf16).is_none());
    assert!(Matrix::new(&[0; 24], 3, 4, Storage::F32).is_none());
    assert!(Matrix::new(&[], usize::MAX, 2, Storage::Bf16).is_none());
    assert!(Matrix::new(&[], usize::MAX / 2 + 1, 1, Storage::Bf16).is_none());
}
