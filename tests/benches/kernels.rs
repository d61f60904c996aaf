//! Speed of the linear map and of attention for every instruction set of this machine, on one thread.

use std::hint::black_box;
use std::time::Instant;

use voxtral_core::kernels::{Class, Heads, Kernels, Matrix, Ops, Ring, Serial, Storage};

/// Seconds of the fastest of several calls.
fn fastest(mut f: impl FnMut()) -> f64 {
    let begin = Instant::now();
    let mut best = f64::INFINITY;
    for _ in 0..1000 {
        let start = Instant::now();
        f();
        best = best.min(start.elapsed().as_secs_f64());
        if begin.elapsed().as_secs_f64() > 0.3 {
            break;
        }
    }
    best
}

fn main() {
    let mut sets = vec![Kernels::scalar(Class::Separate)];
    if Kernels::detect().name() != sets[0].name() {
        sets.push(Kernels::detect());
    }
    for kernels in &sets {
        for (storage, fill) in [
            (Storage::Bf16, [0x80, 0x3f]),
            (Storage::F16, [0x00, 0x3c]),
            (Storage::F32, [0, 0]),
        ] {
            for (rows, cols) in [(5120, 1280), (1280, 5120)] {
                for n in [1, 4, 8, 64, 102] {
                    let bytes = fill.repeat(rows * cols * storage.size() / 2);
                    let w = Matrix::new(&bytes, rows, cols, storage).unwrap();
                    let x: Vec<f32> = (0..n * cols).map(|i| (i % 17) as f32 * 0.01).collect();
                    let mut y = vec![0.0f32; n * rows];
                    let ops = Ops::new(*kernels, &Serial);
                    let seconds = fastest(|| ops.linear(black_box(&w), None, black_box(&x), &mut y));
                    println!(
                        "{:>9} {storage:?} {rows}x{cols} by {n:<3} {:7.1} GFLOP/s {:6.1} GB/s of weights",
                        kernels.name(),
                        2e-9 * (rows * cols * n) as f64 / seconds,
                        1e-9 * bytes.len() as f64 / seconds
                    );
                }
            }
        }
        let heads = Heads {
            n_heads: 32,
            n_kv_heads: 32,
            head_dim: 64,
        };
        let (window, n) = (750, 8);
        let capacity = window - 1 + n;
        let held: Vec<f32> = (0..32 * 64 * capacity).map(|i| (i % 23) as f32 * 0.01 - 0.1).collect();
        let ring = Ring {
            keys: &held,
            values: &held,
            capacity,
        };
        let q: Vec<f32> = (0..n * 32 * 64).map(|i| (i % 19) as f32 * 0.01).collect();
        let mut y = q.clone();
        let ops = Ops::new(*kernels, &Serial);
        let seconds = fastest(|| ops.attention(heads, window, 5000, black_box(&q), ring, &mut y));
        println!(
            "{:>9} attention, 32 heads of 64, window 750: {:.0} us a position",
            kernels.name(),
            1e6 * seconds / n as f64
        );
    }
}
