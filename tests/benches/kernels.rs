//! Speed of the kernels beside the limits of this machine.
//!
//! Every operation runs in short windows, each between two windows of the limit it is held against: peak fused
//! multiply-add of one core out of registers, or reading the same weights by nothing but loads, on as many threads and in
//! as many parallel streams as is fastest here. What is printed is the median of the ratios, with the smallest and the
//! largest. One thread is timed by its CPU time, several by the clock on the wall; there a window in which a thread
//! waited for a processor (wall time beyond CPU time) is thrown away.
//!
//! `cargo bench -p voxtral-tests --bench kernels [-- WORD]`: only the lines that contain WORD.

use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use voxtral::Pool;
use voxtral_core::kernels::{
    CacheType, Class, Executor, Heads, Kernels, Matrix, Ops, Ring, Serial, Storage, activations_len,
};

/// Length of a window.
const WINDOW: Duration = Duration::from_micros(1500);
/// Windows that count, for each line.
const WINDOWS: usize = 25;
/// Windows that are tried for it.
const TRIES: usize = 100;
/// CPU time over wall time (and threads) of a window that counts.
const UNDISTURBED: f64 = 0.95;

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

/// Calls per second within one window, or `None` if it was disturbed.
fn rate(threads: usize, f: &mut dyn FnMut()) -> Option<f64> {
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let mut calls = 0;
    while calls == 0 || start.elapsed() < WINDOW {
        f();
        calls += 1;
    }
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    if threads == 1 {
        return Some(f64::from(calls) / cpu);
    }
    (cpu >= UNDISTURBED * wall * threads as f64).then_some(f64::from(calls) / wall)
}

/// An operation and how many units it does per call.
struct Timed<'a> {
    units: f64,
    threads: usize,
    f: &'a mut dyn FnMut(),
}

/// Whether a line is asked for.
fn wanted(name: &str) -> bool {
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    only.is_none_or(|word| name.contains(&word))
}

/// Prints the speed of `what` and its ratio to `limit`, in windows that take turns.
fn compare(name: &str, unit: &str, what: Timed, limit: Timed) {
    if !wanted(name) {
        return;
    }
    (what.f)();
    let (mut ratios, mut speeds) = (Vec::new(), Vec::new());
    for _ in 0..TRIES {
        let before = rate(limit.threads, limit.f);
        let during = rate(what.threads, what.f);
        let after = rate(limit.threads, limit.f);
        if let (Some(before), Some(during), Some(after)) = (before, during, after) {
            let limit = limit.units * (before + after) / 2.0;
            ratios.push(what.units * during / limit);
            speeds.push(what.units * during);
        }
        if ratios.len() == WINDOWS {
            break;
        }
    }
    if ratios.is_empty() {
        println!("{name:<58} no undisturbed window");
        return;
    }
    ratios.sort_by(f64::total_cmp);
    speeds.sort_by(f64::total_cmp);
    println!(
        "{name:<58} {:7.1} {unit:<7} {:5.1} % of the limit ({:.1}..{:.1}, {} windows)",
        speeds[speeds.len() / 2],
        100.0 * ratios[ratios.len() / 2],
        100.0 * ratios[0],
        100.0 * ratios[ratios.len() - 1],
        ratios.len()
    );
}

/// What one core can do at most, by instructions that this build may not be compiled for.
mod limits {
    #[cfg(target_arch = "x86_64")]
    use std::arch::x86_64::*;

    /// GFLOP of one call of [`multiply_add`].
    pub const GFLOP: f64 = 1e-9 * 2.0 * 8.0 * 12.0 * 20_000.0;

    #[cfg(target_arch = "x86_64")]
    pub fn multiply_add() {
        #[target_feature(enable = "avx2,fma")]
        unsafe fn run() -> f32 {
            // SAFETY: nothing but registers is touched.
            #[allow(unused_unsafe)]
            unsafe {
                let (a, b) = (_mm256_set1_ps(0.999), _mm256_set1_ps(0.001));
                let mut sums = [_mm256_setzero_ps(); 12];
                for _ in 0..20_000 {
                    for sum in &mut sums {
                        *sum = _mm256_fmadd_ps(*sum, a, b);
                    }
                }
                let all = sums.iter().fold(_mm256_setzero_ps(), |a, &b| _mm256_add_ps(a, b));
                _mm256_cvtss_f32(all)
            }
        }
        assert!(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"));
        // SAFETY: the set was just found.
        std::hint::black_box(unsafe { run() });
    }

    /// Plain arithmetic in 8 lanes: on machines whose peak nobody has written down here yet.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn multiply_add() {
        let mut sums = [[0.0f32; 8]; 12];
        for _ in 0..20_000 {
            for sum in sums.iter_mut().flatten() {
                *sum = *sum * 0.999 + 0.001;
            }
        }
        std::hint::black_box(sums);
    }

    /// Reads all bytes, in 1, 2, 4 or 8 streams.
    pub fn read(bytes: &[u8], streams: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2")]
            unsafe fn run<const N: usize>(bytes: &[u8]) -> i64 {
                let stream = bytes.len() / N / 128 * 128;
                // SAFETY: each of the streams is one of N parts of the bytes, in whole steps of 128.
                unsafe {
                    let mut all = [_mm256_setzero_si256(); 4];
                    for at in (0..stream).step_by(128) {
                        for i in 0..N {
                            for (j, all) in all.iter_mut().enumerate() {
                                let from = bytes.as_ptr().add(i * stream + at + 32 * j);
                                *all = _mm256_or_si256(*all, _mm256_loadu_si256(from.cast()));
                            }
                        }
                    }
                    let two = _mm256_or_si256(all[0], all[1]);
                    let four = _mm256_or_si256(_mm256_or_si256(all[2], all[3]), two);
                    _mm256_extract_epi64::<0>(four)
                }
            }
            assert!(is_x86_feature_detected!("avx2"));
            // SAFETY: the set was just found.
            std::hint::black_box(unsafe {
                match streams {
                    1 => run::<1>(bytes),
                    2 => run::<2>(bytes),
                    4 => run::<4>(bytes),
                    _ => run::<8>(bytes),
                }
            });
        }
        #[cfg(not(target_arch = "x86_64"))]
        std::hint::black_box((streams, bytes.iter().fold(0u8, |all, byte| all | byte)));
    }
}

/// Shape of weights larger than every cache, so that each call reads memory.
const LARGE: (usize, usize) = (49_152, 3072);

/// Bytes of such weights, the same for every storage: no number in them is a NaN or subnormal.
fn large_weights() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| [0x80, 0x3f].repeat(2 * LARGE.0 * LARGE.1))
}

/// Reads all bytes, a part on each thread.
fn read(executor: &dyn Executor, threads: usize, bytes: &[u8], streams: usize) {
    let next = AtomicUsize::new(0);
    let part = bytes.len() / threads;
    let work = || {
        while let Some(bytes) = bytes.chunks_exact(part).nth(next.fetch_add(1, Ordering::Relaxed)) {
            limits::read(bytes, streams);
        }
    };
    executor.run(&work);
    work();
}

/// Bytes that are read at a time: those of a window.
const READ: usize = 1536 * 3072 * 2;

/// The number of streams on each thread that reads fastest.
fn best_streams(executor: &dyn Executor, threads: usize) -> usize {
    let mut at = 0;
    let mut median = |streams: usize| {
        let mut rates: Vec<f64> = (0..TRIES)
            .filter_map(|_| {
                rate(threads, &mut || {
                    at = (at + READ) % (large_weights().len() - READ);
                    read(executor, threads, &large_weights()[at..at + READ], streams);
                })
            })
            .take(WINDOWS)
            .collect();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or(0.0)
    };
    let rates = [1, 2, 4, 8].map(|streams| (streams, median(streams)));
    let (streams, rate) = rates.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((8, 0.0));
    println!(
        "plain reading, {threads} threads of {streams} streams: {:.1} GB/s",
        1e-9 * READ as f64 * rate
    );
    streams
}

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i % 17) as f32 * 0.01 - 0.05).collect()
}

/// What linear maps of weights in blocks want.
fn scratch(n: usize, cols: usize) -> Vec<f32> {
    vec![0.0; activations_len(n, cols).unwrap()]
}

/// Decoding: 1 to 8 columns against weights that come from memory.
fn decode(kernels: Kernels, storage: Storage, executor: &dyn Executor, threads: usize) {
    let (rows, cols) = LARGE;
    let ops = Ops::new(kernels, executor);
    // A window's share of rows at a time.
    let part = 1536;
    let size = part * storage.row_bytes(cols).unwrap();
    let line = |n: usize| {
        format!(
            "decode {} {storage:?} {cols} wide by {n}, {threads} threads",
            kernels.name()
        )
    };
    if !(1..=8).any(|n| wanted(&line(n))) {
        return;
    }
    let streams = best_streams(executor, threads);
    for n in 1..=8 {
        let x = values(n * cols);
        let mut y = vec![0.0f32; n * part];
        let mut scratch = scratch(n, cols);
        let (mut at, mut limit_at) = (0, rows / 2 / part * part);
        let part_of = |at: &mut usize| {
            *at = (*at + part) % rows;
            &large_weights()[*at * storage.row_bytes(cols).unwrap()..][..size]
        };
        compare(
            &line(n),
            "GB/s",
            Timed {
                units: 1e-9 * size as f64,
                threads,
                f: &mut || {
                    let w = Matrix::new(part_of(&mut at), part, cols, storage).unwrap();
                    ops.linear(&w, None, black_box(&x), &mut scratch, &mut y);
                },
            },
            Timed {
                units: 1e-9 * size as f64,
                threads,
                f: &mut || read(executor, threads, part_of(&mut limit_at), streams),
            },
        );
    }
}

/// The encoder's products against peak fused multiply-add.
fn products(kernels: Kernels, storage: Storage, executor: &dyn Executor, threads: usize) {
    for (rows, cols) in [(5120, 1280), (1280, 5120), (2048, 1280)] {
        for n in [9, 16, 100, 300] {
            let bytes = &large_weights()[..rows * storage.row_bytes(cols).unwrap()];
            let w = Matrix::new(bytes, rows, cols, storage).unwrap();
            let x = values(n * cols);
            let mut y = vec![0.0f32; n * rows];
            let mut scratch = scratch(n, cols);
            let ops = Ops::new(kernels, executor);
            compare(
                &format!(
                    "product {} {storage:?} {rows}x{cols} by {n}, {threads} threads",
                    kernels.name()
                ),
                "GFLOP/s",
                Timed {
                    units: 2e-9 * (rows * cols * n) as f64,
                    threads,
                    f: &mut || ops.linear(black_box(&w), None, black_box(&x), &mut scratch, &mut y),
                },
                Timed {
                    units: limits::GFLOP * threads as f64,
                    threads: 1,
                    f: &mut limits::multiply_add,
                },
            );
        }
    }
}

/// The encoder's products with weights in blocks, against the same with bfloat16: here 100 % is its speed.
fn beside_bf16(kernels: Kernels, storage: Storage, executor: &dyn Executor, threads: usize) {
    let ops = Ops::new(kernels, executor);
    for (rows, cols) in [(5120, 1280), (1280, 5120), (2048, 1280)] {
        for n in [4, 8, 38, 100] {
            let [w, wide] = [storage, Storage::Bf16].map(|storage| {
                let bytes = &large_weights()[..rows * storage.row_bytes(cols).unwrap()];
                Matrix::new(bytes, rows, cols, storage).unwrap()
            });
            let x = values(n * cols);
            let (mut y, mut wide_y) = (vec![0.0f32; n * rows], vec![0.0f32; n * rows]);
            let mut scratch = scratch(n, cols);
            let units = 2e-9 * (rows * cols * n) as f64;
            compare(
                &format!(
                    "beside bf16 {} {storage:?} {rows}x{cols} by {n}, {threads} threads",
                    kernels.name()
                ),
                "GFLOP/s",
                Timed {
                    units,
                    threads,
                    f: &mut || ops.linear(black_box(&w), None, black_box(&x), &mut scratch, &mut y),
                },
                Timed {
                    units,
                    threads,
                    f: &mut || ops.linear(black_box(&wide), None, black_box(&x), &mut [], &mut wide_y),
                },
            );
        }
    }
}

/// Attention as in the encoder's chunks, as in decoding, and as in prefill.
fn attention(kernels: Kernels) {
    for (name, n_heads, n_kv_heads, head_dim, window, n) in [
        ("encoder", 32, 32, 64, 750, 100),
        ("decode at 1000", 32, 8, 128, 1000, 1),
        ("decode at 8192", 32, 8, 128, 8192, 1),
        ("prefill", 32, 8, 128, 100, 38),
    ] {
        for cache in [CacheType::F32, CacheType::Bf16, CacheType::Q8] {
            let heads = Heads {
                n_heads,
                n_kv_heads,
                head_dim,
            };
            let capacity = window - 1 + n;
            let ops = Ops::new(kernels, &Serial);
            let held = cached(&ops, heads, cache, capacity);
            let ring = Ring {
                keys: &held,
                values: &held,
                capacity,
                first: 0,
                cache,
            };
            let q = values(n * n_heads * head_dim);
            let mut y = q.clone();
            compare(
                &format!("attention {} {name}, {n} positions, {cache:?}", kernels.name()),
                "GFLOP/s",
                Timed {
                    units: 4e-9 * (n * n_heads * head_dim * window) as f64,
                    threads: 1,
                    f: &mut || ops.attention(heads, window, 10_000, black_box(&q), ring, &mut y),
                },
                Timed {
                    units: limits::GFLOP,
                    threads: 1,
                    f: &mut limits::multiply_add,
                },
            );
        }
    }
}

/// Keys or values of some positions as a cache holds them.
fn cached(ops: &Ops, heads: Heads, cache: CacheType, positions: usize) -> Vec<f32> {
    let new = values(heads.n_kv_heads * heads.head_dim * positions);
    let mut held = match cache {
        CacheType::F32 => new.clone(),
        CacheType::Bf16 => vec![0.0; new.len().div_ceil(2)],
        CacheType::Q8 => vec![0.0; new.len().div_ceil(4) + heads.n_kv_heads * positions],
    };
    ops.ring_store(heads, cache, positions, 0, &new, &mut held);
    held
}

/// What positions in the decoder's cache add to a step: time of attention over that of the weights of a layer.
fn filled_cache(kernels: Kernels, executor: &dyn Executor, threads: usize) {
    let ops = Ops::new(kernels, executor);
    let heads = Heads {
        n_heads: 32,
        n_kv_heads: 8,
        head_dim: 128,
    };
    let width = heads.n_heads * heads.head_dim;
    // Bytes of the decoder and of the tied head, for each of the layers.
    let layer = (6_062_929_920.0 + 805_306_368.0) / 26.0;
    let (rows, cols) = (1536, 3072);
    let x = values(cols);
    let mut outputs = vec![0.0; rows];
    let mut at = 0;
    for cache in [CacheType::F32, CacheType::Bf16, CacheType::Q8] {
        for window in [1000, 8192] {
            // Several layers, so that none of them is still in the processor's caches.
            let held: Vec<_> = (0..4).map(|_| cached(&ops, heads, cache, window)).collect();
            let mut turn = 0;
            let q = values(width);
            let mut y = q.clone();
            compare(
                &format!(
                    "weights over attention at {window}, {cache:?}, {} {threads} threads",
                    kernels.name()
                ),
                "layer/s",
                Timed {
                    units: READ as f64 / layer,
                    threads,
                    f: &mut || {
                        at = (at + READ) % (large_weights().len() - READ);
                        let w = Matrix::new(&large_weights()[at..at + READ], rows, cols, Storage::Bf16).unwrap();
                        ops.linear(&w, None, black_box(&x), &mut [], &mut outputs);
                    },
                },
                Timed {
                    units: 1.0,
                    threads,
                    f: &mut || {
                        turn += 1;
                        let ring = Ring {
                            keys: &held[turn % 4],
                            values: &held[(turn + 1) % 4],
                            capacity: window,
                            first: 0,
                            cache,
                        };
                        ops.attention(heads, window, 10_000, black_box(&q), ring, &mut y);
                    },
                },
            );
        }
    }
}

/// The share of all but products in an encoder layer, over 100 frames with the window full: time of the one over the
/// other. The convolutions are products as well, of less than a hundredth of all.
fn encoder_layer(kernels: Kernels, executor: &dyn Executor, threads: usize) {
    let ops = Ops::new(kernels, executor);
    let (n, dim, hidden_dim, window) = (100, 1280, 5120, 750);
    let heads = Heads {
        n_heads: 32,
        n_kv_heads: 32,
        head_dim: 64,
    };
    let width = heads.n_heads * heads.head_dim;
    let weight =
        |rows: usize, cols: usize| Matrix::new(&large_weights()[..2 * rows * cols], rows, cols, Storage::Bf16).unwrap();
    let rotations = values(n * heads.head_dim);
    for cache in [CacheType::F32, CacheType::Bf16, CacheType::Q8] {
        let capacity = window - 1 + n;
        let mut held = cached(&ops, heads, cache, capacity);
        let ring_values = held.clone();
        let (mut x, mut normed) = (values(n * dim), values(n * dim));
        let [mut q, mut k, mut a] = [(); 3].map(|()| values(n * width));
        let (mut gate, up) = (values(n * hidden_dim), values(n * hidden_dim));
        let mut rest = |q: &mut [f32], k: &mut [f32], a: &mut [f32], gate: &mut [f32], normed: &mut [f32]| {
            ops.rms_norm(&weight(1, dim), 1e-5, &values(n * dim), normed);
            ops.rope(&rotations, heads.n_heads, heads.head_dim, q);
            ops.rope(&rotations, heads.n_heads, heads.head_dim, k);
            ops.ring_store(heads, cache, capacity, 10_000, k, &mut held);
            ops.ring_store(heads, cache, capacity, 10_000, k, &mut held);
            let ring = Ring {
                keys: &held,
                values: &ring_values,
                capacity,
                first: 0,
                cache,
            };
            ops.attention(heads, window, 10_000, q, ring, a);
            ops.rms_norm(&weight(1, dim), 1e-5, &values(n * dim), normed);
            ops.silu_mul(gate, &up);
        };
        let [mut q2, mut k2, mut a2] = [(); 3].map(|()| values(n * width));
        let (mut gate2, mut normed2) = (values(n * hidden_dim), values(n * dim));
        compare(
            &format!(
                "products over the rest of an encoder layer, {cache:?}, {} {threads} threads",
                kernels.name()
            ),
            "layer/s",
            Timed {
                units: 1.0,
                threads,
                f: &mut || {
                    for out in [&mut q, &mut k, &mut a] {
                        ops.linear(&weight(width, dim), None, &normed, &mut [], out);
                    }
                    ops.linear_add(&weight(dim, width), None, &a, &mut [], &mut x);
                    for _ in 0..2 {
                        ops.linear(&weight(hidden_dim, dim), None, &normed, &mut [], &mut gate);
                    }
                    ops.linear_add(&weight(dim, hidden_dim), None, &gate, &mut [], &mut x);
                    normed.copy_from_slice(&x);
                    x.fill(0.1);
                },
            },
            Timed {
                units: 1.0,
                threads,
                f: &mut || rest(&mut q2, &mut k2, &mut a2, &mut gate2, &mut normed2),
            },
        );
    }
}

/// What goes element by element, in ns per value times the limit's: read the first column.
fn elementwise(kernels: Kernels) {
    let ops = Ops::new(kernels, &Serial);
    let x = values(100 * 2048);
    let weight: Vec<u8> = [0x80, 0x3f].repeat(2048);
    let weight = Matrix::new(&weight, 1, 2048, Storage::Bf16).unwrap();
    let rotations = values(100 * 64);
    let mut y = x.clone();
    let mut line = |name: &str, f: &mut dyn FnMut(&mut [f32])| {
        compare(
            &format!("elementwise {} {name}", kernels.name()),
            "Gvalue/s",
            Timed {
                units: 1e-9 * x.len() as f64,
                threads: 1,
                f: &mut || f(&mut y),
            },
            Timed {
                units: limits::GFLOP,
                threads: 1,
                f: &mut limits::multiply_add,
            },
        );
    };
    line("silu_mul", &mut |y| {
        y.copy_from_slice(&x);
        ops.silu_mul(y, &x);
    });
    line("gelu", &mut |y| {
        y.copy_from_slice(&x);
        ops.gelu(y);
    });
    line("rope", &mut |y| ops.rope(&rotations, 32, 64, y));
    line("rms_norm", &mut |y| ops.rms_norm(&weight, 1e-5, &x, y));
}

fn main() {
    let pool = Pool::new(2);
    let best = Kernels::detect();
    for storage in [Storage::Bf16, Storage::F16, Storage::F32] {
        decode(best, storage, &Serial, 1);
    }
    for storage in [Storage::Bf16, Storage::Q8, Storage::Q4] {
        decode(best, storage, &pool, pool.threads());
    }
    for storage in [Storage::Q8, Storage::Q4] {
        decode(best, storage, &Serial, 1);
        beside_bf16(best, storage, &Serial, 1);
        beside_bf16(best, storage, &pool, pool.threads());
    }
    for storage in [Storage::Bf16, Storage::F16] {
        products(best, storage, &Serial, 1);
    }
    products(best, Storage::Bf16, &pool, pool.threads());
    for (executor, threads) in [(&Serial as &dyn Executor, 1), (&pool, pool.threads())] {
        filled_cache(best, executor, threads);
        encoder_layer(best, executor, threads);
    }
    for kernels in [best, Kernels::scalar(Class::Separate)] {
        attention(kernels);
        elementwise(kernels);
    }
    products(Kernels::scalar(Class::Separate), Storage::Bf16, &Serial, 1);
}
