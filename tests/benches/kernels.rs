//! Speed of the kernels beside the limits of this machine.
//!
//! Every operation runs in short windows, each between two windows of the limit it is held against: peak fused
//! multiply-add of one core out of registers, or reading the same weights by nothing but loads. What is printed is the
//! median of the ratios, with the smallest and the largest. One thread is timed by its CPU time, several by the clock
//! on the wall; there a window in which a thread waited for a processor (wall time beyond CPU time) is thrown away.
//!
//! `cargo bench -p voxtral-tests --bench kernels [-- WORD]`: only the lines that contain WORD.

use std::hint::black_box;
use std::sync::OnceLock;
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

    /// Reads all bytes, in 8 streams.
    pub fn read(bytes: &[u8]) {
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2")]
            unsafe fn run(bytes: &[u8]) -> i64 {
                let stream = bytes.len() / 8 / 128 * 128;
                // SAFETY: each of the 8 streams is an eighth of the bytes, in whole steps of 128.
                unsafe {
                    let mut all = [_mm256_setzero_si256(); 4];
                    for at in (0..stream).step_by(128) {
                        for i in 0..8 {
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
            std::hint::black_box(unsafe { run(bytes) });
        }
        #[cfg(not(target_arch = "x86_64"))]
        std::hint::black_box(bytes.iter().fold(0u8, |all, byte| all | byte));
    }
}

/// Shape of weights larger than every cache, so that each call reads memory.
const LARGE: (usize, usize) = (49_152, 3072);

/// Bytes of such weights, the same for every storage: no number in them is a NaN or subnormal.
fn large_weights() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| [0x80, 0x3f].repeat(2 * LARGE.0 * LARGE.1))
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
    for n in [1, 2, 3, 4, 8] {
        let x = values(n * cols);
        let mut y = vec![0.0f32; n * part];
        let mut scratch = scratch(n, cols);
        let (mut at, mut limit_at) = (0, rows / 2 / part * part);
        let part_of = |at: &mut usize| {
            *at = (*at + part) % rows;
            &large_weights()[*at * storage.row_bytes(cols).unwrap()..][..size]
        };
        compare(
            &format!(
                "decode {} {storage:?} {cols} wide by {n}, {threads} threads",
                kernels.name()
            ),
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
                units: 1e-9 * size as f64 * threads as f64,
                threads: 1,
                f: &mut || limits::read(part_of(&mut limit_at)),
            },
        );
    }
}

/// The encoder's products against peak fused multiply-add.
fn products(kernels: Kernels, storage: Storage, executor: &dyn Executor, threads: usize) {
    for (rows, cols) in [(5120, 1280), (1280, 5120), (2048, 1280)] {
        for n in [4, 8, 100, 300] {
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
            let new = values(n_kv_heads * head_dim * capacity);
            let mut held = match cache {
                CacheType::F32 => new.clone(),
                CacheType::Bf16 => vec![0.0; new.len().div_ceil(2)],
                CacheType::Q8 => vec![0.0; new.len().div_ceil(4) + n_kv_heads * capacity],
            };
            let ops = Ops::new(kernels, &Serial);
            ops.ring_store(heads, cache, capacity, 0, &new, &mut held);
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
    for kernels in [best, Kernels::scalar(Class::Separate)] {
        attention(kernels);
        elementwise(kernels);
    }
    products(Kernels::scalar(Class::Separate), Storage::Bf16, &Serial, 1);
}
