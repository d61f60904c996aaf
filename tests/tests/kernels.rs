//! The kernels against the written definition of their order, against f64, and against each other.

use std::thread;

use half::{bf16, f16};
use proptest::prelude::*;
use voxtral_core::kernels::{Class, Executor, Heads, InstructionSet, Kernels, Matrix, Ops, Ring, Serial, Storage};

const STORAGES: [Storage; 3] = [Storage::Bf16, Storage::F16, Storage::F32];

/// Both scalar classes, and what this machine has besides.
fn all_kernels() -> Vec<Kernels> {
    vec![
        Kernels::scalar(Class::Separate),
        Kernels::scalar(Class::Fused),
        Kernels::detect(),
    ]
}

// ---- Executors ----

/// Calls the closure several times on several threads, and once more on the caller's.
struct Crowd;
impl Executor for Crowd {
    fn run(&self, work: &(dyn Fn() + Sync)) {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    work();
                    work();
                });
            }
        });
        work();
    }
}

/// Hands the closure on to other executors, inside of other closures.
struct Nested;
impl Executor for Nested {
    fn run(&self, work: &(dyn Fn() + Sync)) {
        Crowd.run(&|| {
            Serial.run(work);
            thread::scope(|scope| {
                scope.spawn(work);
            });
        });
    }
}

fn executors() -> [&'static dyn Executor; 3] {
    [&Serial, &Crowd, &Nested]
}

// ---- Data ----

/// A small generator (Marsaglia's xorshift) of values in [-1, 1).
struct Random(u64);
impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
    fn value(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }
    fn values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.value()).collect()
    }
}

/// Weights in memory, from an address that is odd if `shift` is, and what they decode to.
struct Weights {
    memory: Vec<u8>,
    shift: usize,
    rows: usize,
    cols: usize,
    storage: Storage,
    values: Vec<f32>,
}

fn encode(storage: Storage, values: &[f32]) -> (Vec<u8>, Vec<f32>) {
    match storage {
        Storage::Bf16 => {
            let values: Vec<bf16> = values.iter().map(|&v| bf16::from_f32(v)).collect();
            let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            (bytes, values.iter().map(|v| v.to_f32()).collect())
        }
        Storage::F16 => {
            let values: Vec<f16> = values.iter().map(|&v| f16::from_f32(v)).collect();
            let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            (bytes, values.iter().map(|v| v.to_f32()).collect())
        }
        Storage::F32 => (values.iter().flat_map(|v| v.to_le_bytes()).collect(), values.to_vec()),
    }
}

impl Weights {
    fn new(random: &mut Random, rows: usize, cols: usize, storage: Storage, shift: usize) -> Self {
        let (bytes, values) = encode(storage, &random.values(rows * cols));
        let mut memory = vec![0u8; shift];
        // A vector of bytes may begin anywhere; make the address even, so that `shift` decides.
        memory.reserve(bytes.len() + 1);
        let shift = shift + memory.as_ptr() as usize % 2;
        memory.resize(shift, 0);
        memory.extend(bytes);
        Self {
            memory,
            shift,
            rows,
            cols,
            storage,
            values,
        }
    }
    fn matrix(&self) -> Matrix<'_> {
        Matrix::new(&self.memory[self.shift..], self.rows, self.cols, self.storage).unwrap()
    }
    fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.cols..(row + 1) * self.cols]
    }
}

// ---- The canonical order, written once more ----

fn mac(class: Class, a: f32, b: f32, acc: f32) -> f32 {
    match class {
        Class::Fused => a.mul_add(b, acc),
        Class::Separate => acc + a * b,
    }
}

fn tree(l: [f32; 8]) -> f32 {
    ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

fn canonical_dot(class: Class, a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 8];
    for k in 0..a.len() {
        lanes[k % 8] = mac(class, a[k], b[k], lanes[k % 8]);
    }
    tree(lanes)
}

/// Attention of one query over all keys and values of its head since position 0, as documented.
fn canonical_attention(
    class: Class,
    q: &[f32],
    keys: &[Vec<f32>],
    values: &[Vec<f32>],
    visible: std::ops::RangeInclusive<usize>,
) -> Vec<f32> {
    let scale = 1.0 / libm::sqrtf(q.len() as f32);
    let (mut m, mut l, mut o) = (f32::NEG_INFINITY, 0.0f32, vec![0.0f32; q.len()]);
    for block in visible.start() / 64..=visible.end() / 64 {
        let places: Vec<usize> = (64 * block..64 * block + 64).filter(|j| visible.contains(j)).collect();
        let scores: Vec<f32> = places
            .iter()
            .map(|&j| canonical_dot(class, q, &keys[j]) * scale)
            .collect();
        let m_new = scores.iter().fold(m, |a, &b| a.max(b));
        let shrink = libm::expf(m - m_new);
        m = m_new;
        let mut lanes = [0.0f32; 8];
        o.iter_mut().for_each(|o| *o *= shrink);
        for (&j, s) in places.iter().zip(scores) {
            let p = libm::expf(s - m);
            lanes[j % 8] += p;
            for (o, &v) in o.iter_mut().zip(&values[j]) {
                *o = mac(class, p, v, *o);
            }
        }
        l = l * shrink + tree(lanes);
    }
    o.iter().map(|o| o / l).collect()
}

fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

// ---- Linear ----

/// Runs a linear map in every way and compares bits with the definition, and values with f64.
fn check_linear(kernels: Kernels, w: &Weights, bias: Option<&Weights>, n: usize, onto: bool, random: &mut Random) {
    let x = random.values(n * w.cols);
    let before = random.values(n * w.rows);
    let mut y = before.clone();
    let ops = Ops::new(kernels, &Serial);
    let bias_matrix = bias.map(Weights::matrix);
    if onto {
        ops.linear_add(&w.matrix(), bias_matrix.as_ref(), &x, &mut y);
    } else {
        ops.linear(&w.matrix(), bias_matrix.as_ref(), &x, &mut y);
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
            Ops::new(kernels, &Serial).linear(&w, None, &x, &mut y);
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
            Ops::new(kernels, &Serial).linear(&w, None, &identity, &mut y);
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
            Ops::new(kernels, &Serial).linear_add(&w.matrix(), None, &x, &mut whole);
            for executor in executors() {
                let ops = Ops::new(kernels, executor);
                for batch in [1, 2, 3, 7, n] {
                    let mut y = before.clone();
                    for (x, y) in x.chunks(batch * cols).zip(y.chunks_mut(batch * rows)) {
                        ops.linear_add(&w.matrix(), None, x, y);
                    }
                    assert!(same_bits(&y, &whole), "{kernels:?} {storage:?} batches of {batch}");
                }
            }
        }
    }
}

// ---- RMSNorm, RoPE and the elementwise ones ----

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
    for storage in STORAGES {
        let w = Weights::new(&mut random, 5, 7, storage, 1);
        for row in 0..5 {
            let x = random.values(7);
            let mut y = x.clone();
            ops.add_row(&w.matrix(), row, &mut y);
            assert!((0..7).all(|i| y[i] == x[i] + w.row(row)[i]));
            assert_eq!(
                w.matrix().row(row).unwrap().bytes(),
                &w.matrix().bytes()[row * 7 * storage.size()..][..7 * storage.size()]
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

proptest! {
    #[test]
    fn argmax_takes_the_lowest_of_the_largest(values in prop::collection::vec(-3i8..3, 1..50), nan in prop::option::of(0usize..50)) {
        let ops = Ops::new(Kernels::baseline(), &Serial);
        let mut x: Vec<f32> = values.iter().map(|&v| f32::from(v)).collect();
        let largest = values.iter().max();
        prop_assert_eq!(ops.argmax(&x), values.iter().position(|v| Some(v) == largest));
        if let Some(at) = nan.filter(|&at| at < x.len()) {
            x[at] = f32::NAN;
            prop_assert_eq!(ops.argmax(&x), None);
        }
    }
}

#[test]
fn argmax_of_extremes() {
    let ops = Ops::new(Kernels::baseline(), &Serial);
    assert_eq!(ops.argmax(&[]), None);
    assert_eq!(ops.argmax(&[f32::NEG_INFINITY; 3]), Some(0));
    assert_eq!(ops.argmax(&[0.0, f32::INFINITY, f32::INFINITY]), Some(1));
    assert_eq!(ops.argmax(&[-0.0, 0.0]), Some(0));
    assert_eq!(ops.argmax(&[f32::INFINITY, -f32::NAN]), None);
}

// ---- Attention ----

/// Queries, keys and values of a stream from position 0.
struct Stream {
    heads: Heads,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Stream {
    fn new(random: &mut Random, heads: Heads, total: usize) -> Self {
        let widened = |values: Vec<f32>| values.iter().map(|v| 3.0 * v).collect();
        Self {
            heads,
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
        let mut keys = vec![f32::NAN; capacity * kv_width];
        let mut values = keys.clone();
        let mut y = vec![f32::NAN; self.q.len()];
        let mut first = 0;
        for &chunk in chunks.iter().cycle() {
            let next = (first + chunk).min(total);
            ops.ring_store(
                self.heads,
                capacity,
                first as u64,
                &self.k[first * kv_width..next * kv_width],
                &mut keys,
            );
            ops.ring_store(
                self.heads,
                capacity,
                first as u64,
                &self.v[first * kv_width..next * kv_width],
                &mut values,
            );
            let ring = Ring {
                keys: &keys,
                values: &values,
                capacity,
            };
            let range = first * q_width..next * q_width;
            ops.attention(
                self.heads,
                window,
                first as u64,
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
        let total = self.q.len() / (n_heads * head_dim);
        let (mut y, mut exact) = (vec![0.0; self.q.len()], vec![0.0; self.q.len()]);
        for h in 0..n_heads {
            let kv = h / (n_heads / n_kv_heads);
            let q = self.head(&self.q, n_heads, h);
            let (k, v) = (self.head(&self.k, n_kv_heads, kv), self.head(&self.v, n_kv_heads, kv));
            for p in 0..total {
                let visible = (p + 1).saturating_sub(window)..=p;
                let at = (p * n_heads + h) * head_dim;
                y[at..at + head_dim].copy_from_slice(&canonical_attention(class, &q[p], &k, &v, visible.clone()));
                let scores: Vec<f64> = visible
                    .clone()
                    .map(|j| {
                        (0..head_dim)
                            .map(|d| f64::from(q[p][d]) * f64::from(k[j][d]))
                            .sum::<f64>()
                    })
                    .map(|dot| dot / (head_dim as f64).sqrt())
                    .collect();
                let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
                for (j, s) in visible.zip(&scores) {
                    for d in 0..head_dim {
                        exact[at + d] += (s - max).exp() / sum * f64::from(v[j][d]);
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
        seed: u64,
    ) {
        let heads = Heads { n_heads: n_kv_heads * group, n_kv_heads, head_dim };
        let stream = Stream::new(&mut Random::new(seed), heads, total);
        for kernels in all_kernels() {
            let (expected, exact) = stream.expected(kernels.class(), window);
            let y = stream.run(Ops::new(kernels, &Serial), window, &chunks, spare);
            prop_assert!(same_bits(&y, &expected), "{:?}", kernels);
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
    let stream = Stream::new(&mut Random::new(6), heads, 1200);
    for kernels in all_kernels() {
        let one_by_one = stream.run(Ops::new(kernels, &Serial), 70, &[1], 0);
        assert!(same_bits(&one_by_one, &stream.expected(kernels.class(), 70).0));
        for executor in executors() {
            for (chunks, spare) in [(&[100][..], 0), (&[64], 1), (&[1, 99, 7], 3)] {
                let y = stream.run(Ops::new(kernels, executor), 70, chunks, spare);
                assert!(same_bits(&y, &one_by_one), "{kernels:?} {chunks:?}");
            }
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
        ops.ring_store(heads, capacity, base + 50, &kv, &mut ring);
        let view = Ring {
            keys: &ring,
            values: &ring,
            capacity,
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
    for kernels in all_kernels() {
        let ops = Ops::new(kernels, &Serial);
        let attend = |keys: &[f32]| {
            let ring = Ring {
                keys,
                values: keys,
                capacity,
            };
            let mut y = [0.0; 9];
            ops.attention(heads, window, 99, &[0.5; 9], ring, &mut y);
            y
        };
        let clean = Random::new(8).values(9 * capacity);
        for position in 0..capacity {
            let mut keys = clean.clone();
            keys[9 * position] = f32::NAN;
            let y = attend(&keys);
            if position < 30 {
                assert!(same_bits(&y, &attend(&clean)), "{kernels:?} {position}");
            } else {
                assert!(y.iter().all(|y| y.is_nan()), "{kernels:?} {position}");
            }
        }
    }
}

// ---- Choice of kernels ----

#[test]
fn kernels_say_what_they_are() {
    assert_eq!(Kernels::scalar(Class::Fused).class(), Class::Fused);
    assert_eq!(Kernels::scalar(Class::Separate).class(), Class::Separate);
    assert!(Kernels::baseline().name().starts_with("scalar"));
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("fma")
        && std::is_x86_feature_detected!("f16c")
    {
        assert_eq!(Kernels::detect().name(), "avx2+fma");
        // SAFETY: std has just found the set.
        let assumed = unsafe { Kernels::assume(InstructionSet::Avx2Fma) };
        assert_eq!((assumed.name(), assumed.class()), ("avx2+fma", Class::Fused));
    }
    let detected = Kernels::detect();
    assert_eq!(Ops::new(detected, &Serial).kernels().name(), detected.name());
}

// ---- Misuse ----

/// Without debug assertions, shapes that disagree leave the output alone. (With them they stop the program.)
#[cfg(not(debug_assertions))]
#[test]
fn shapes_that_disagree_change_nothing() {
    let bytes = [0x3f; 4 * 3 * 2];
    let w = Matrix::new(&bytes, 4, 3, Storage::Bf16).unwrap();
    let heads = Heads {
        n_heads: 2,
        n_kv_heads: 1,
        head_dim: 4,
    };
    for kernels in all_kernels() {
        let ops = Ops::new(kernels, &Serial);
        let mut y = [7.0f32; 16];
        ops.linear(&w, None, &[1.0; 3], &mut y[..5]);
        ops.linear(&w, None, &[1.0; 4], &mut y[..4]);
        ops.linear_add(&w, Some(&w), &[1.0; 3], &mut y[..4]);
        ops.linear(&w, None, &[1.0; 3], &mut []);
        ops.rms_norm(&w, 1e-5, &[1.0; 3], &mut y[..3]);
        ops.rms_norm(&w.row(0).unwrap(), 1e-5, &[1.0; 4], &mut y[..4]);
        ops.rope(&[1.0; 4], 2, 4, &mut y);
        ops.rope(&[1.0; 3], 1, 3, &mut y[..3]);
        ops.ring_store(heads, 4, 0, &[1.0; 5], &mut y);
        ops.ring_store(heads, 1, 0, &[1.0; 8], &mut y[..4]);
        ops.ring_store(Heads { head_dim: 0, ..heads }, 4, 0, &[1.0; 4], &mut y);
        ops.silu_mul(&mut y, &[1.0; 3]);
        ops.add_row(&w, 4, &mut y[..3]);
        ops.add_row(&w, 0, &mut y[..4]);
        ops.modulate(&[], &mut y);
        ops.modulate(&[1.0; 3], &mut y);
        w.widen_row(4, &mut y[..3]);
        w.widen_row(0, &mut y[..4]);
        let held = [1.0f32; 16];
        let ring = Ring {
            keys: &held,
            values: &held,
            capacity: 4,
        };
        let q = [1.0; 16];
        ops.attention(heads, 0, 0, &q, ring, &mut y);
        ops.attention(heads, 4, 3, &q, ring, &mut y);
        ops.attention(heads, 2, u64::MAX, &q, ring, &mut y);
        ops.attention(heads, 2, 0, &q[..8], ring, &mut y);
        ops.attention(
            heads,
            2,
            0,
            &q,
            Ring {
                values: &held[..12],
                ..ring
            },
            &mut y,
        );
        ops.attention(heads, 2, 0, &q, Ring { capacity: 0, ..ring }, &mut y);
        ops.attention(Heads { n_kv_heads: 0, ..heads }, 2, 0, &q, ring, &mut y);
        assert_eq!(y, [7.0; 16], "{kernels:?}");
    }
}

// ---- Memory that ends where the data ends ----

#[cfg(unix)]
mod guarded {
    //! Every kernel on slices that begin or end exactly at a page that cannot be touched.

    use super::*;
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

    /// Large enough for the page size of every system.
    const PAGE: usize = 1 << 16;

    /// Memory between two pages without access.
    struct Guarded {
        base: *mut u8,
        len: usize,
        start: usize,
        count: usize,
    }

    impl Guarded {
        /// `count` bytes that end `gap` bytes before the page that follows.
        fn ending(count: usize, gap: usize) -> Self {
            let inner = (count + gap).div_ceil(PAGE).max(1) * PAGE;
            Self::new(inner, PAGE + inner - gap - count, count)
        }
        /// `count` bytes that begin `gap` bytes after the page that precedes.
        fn beginning(count: usize, gap: usize) -> Self {
            Self::new((count + gap).div_ceil(PAGE).max(1) * PAGE, PAGE + gap, count)
        }
        fn new(inner: usize, start: usize, count: usize) -> Self {
            let len = inner + 2 * PAGE;
            // SAFETY: a new mapping anywhere, which nothing else refers to; its outer pages lose all access before
            // anything is made of them.
            let base = unsafe {
                let base = mmap_anonymous(
                    std::ptr::null_mut(),
                    len,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::PRIVATE,
                )
                .unwrap();
                mprotect(base, PAGE, MprotectFlags::empty()).unwrap();
                mprotect(base.byte_add(PAGE + inner), PAGE, MprotectFlags::empty()).unwrap();
                base.cast::<u8>()
            };
            Self {
                base,
                len,
                start,
                count,
            }
        }
        fn bytes(&mut self) -> &mut [u8] {
            // SAFETY: these bytes lie between the outer pages, and are borrowed with `self`.
            unsafe { std::slice::from_raw_parts_mut(self.base.add(self.start), self.count) }
        }
        fn floats(&mut self) -> &mut [f32] {
            assert_eq!(self.start % 4, 0);
            // SAFETY: as for `bytes`; the address is a multiple of 4, and any bits are an f32.
            unsafe { std::slice::from_raw_parts_mut(self.base.add(self.start).cast(), self.count / 4) }
        }
    }

    impl Drop for Guarded {
        fn drop(&mut self) {
            // SAFETY: the mapping is this value's own.
            unsafe { munmap(self.base.cast(), self.len).unwrap() };
        }
    }

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
        for storage in STORAGES {
            for cols in (1..=33).chain([641, 647]) {
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
                        for kernels in all_kernels() {
                            let ops = Ops::new(kernels, &Serial);
                            let mut expected = vec![0.0; n * rows];
                            ops.linear(&w.matrix(), None, &x, &mut expected);
                            for place in &mut places {
                                place.bytes().copy_from_slice(bytes);
                                let matrix = Matrix::new(place.bytes(), rows, cols, storage).unwrap();
                                for (x, y) in xs.iter_mut().zip(&mut ys) {
                                    y.floats().fill(0.0);
                                    ops.linear(&matrix, None, x.floats(), y.floats());
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
            let [q, keys, values] = [4, 7, 7].map(|count| random.values(count * head_dim));
            let w = Weights::new(&mut random, 1, head_dim, Storage::F32, 0);
            for kernels in all_kernels() {
                let ops = Ops::new(kernels, &Serial);
                let ring = Ring {
                    keys: &keys,
                    values: &values,
                    capacity,
                };
                let (mut attended, mut normed) = (vec![0.0; q.len()], vec![0.0; q.len()]);
                ops.attention(heads, window, 20, &q, ring, &mut attended);
                ops.rms_norm(&w.matrix(), 1e-5, &q, &mut normed);
                let (mut qs, mut ks, mut vs) = (placed(&q), placed(&keys), placed(&values));
                let mut ys = placed(&vec![0.0; q.len()]);
                for i in 0..2 {
                    let ring = Ring {
                        keys: ks[i].floats(),
                        values: vs[i].floats(),
                        capacity,
                    };
                    ops.attention(heads, window, 20, qs[i].floats(), ring, ys[i].floats());
                    assert!(same_bits(ys[i].floats(), &attended), "{kernels:?} {head_dim}");
                    ops.rms_norm(&w.matrix(), 1e-5, qs[i].floats(), ys[i].floats());
                    assert!(same_bits(ys[i].floats(), &normed), "{kernels:?} {head_dim}");
                }
            }
        }
    }
}
