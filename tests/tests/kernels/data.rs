//! Generated values and weights.

use half::{bf16, f16};
use voxtral_core::kernels::{CacheType, Matrix, Storage};

pub const CACHES: [CacheType; 2] = [CacheType::F32, CacheType::Bf16];

/// Length of a slice of f32 that holds `count` elements of a cache.
pub fn cache_len(cache: CacheType, count: usize) -> usize {
    match cache {
        CacheType::F32 => count,
        CacheType::Bf16 => count.div_ceil(2),
    }
}

/// What a cache gives back of some values.
pub fn cached(cache: CacheType, values: &[f32]) -> Vec<f32> {
    match cache {
        CacheType::F32 => values.to_vec(),
        CacheType::Bf16 => values.iter().map(|&v| bf16::from_f32(v).to_f32()).collect(),
    }
}

pub const STORAGES: [Storage; 3] = [Storage::Bf16, Storage::F16, Storage::F32];

/// A small generator (Marsaglia's xorshift) of values in [-1, 1).
pub struct Random(u64);
impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
    pub fn value(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }
    pub fn values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.value()).collect()
    }
}

/// Weights in memory, from an address that is odd if `shift` is, and what they decode to.
pub struct Weights {
    memory: Vec<u8>,
    shift: usize,
    pub rows: usize,
    pub cols: usize,
    pub storage: Storage,
    pub values: Vec<f32>,
}

pub fn encode(storage: Storage, values: &[f32]) -> (Vec<u8>, Vec<f32>) {
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
    pub fn new(random: &mut Random, rows: usize, cols: usize, storage: Storage, shift: usize) -> Self {
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
    pub fn matrix(&self) -> Matrix<'_> {
        Matrix::new(&self.memory[self.shift..], self.rows, self.cols, self.storage).unwrap()
    }
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.cols..(row + 1) * self.cols]
    }
}
