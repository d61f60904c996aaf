//! Generated values and weights.

use half::{bf16, f16};
use voxtral_core::kernels::{CacheType, Matrix, Storage, encode_row};

pub const CACHES: [CacheType; 3] = [CacheType::F32, CacheType::Bf16, CacheType::Q8];

/// Length of a slice of f32 that holds `rows` rows of `width` elements of a cache.
pub fn cache_len(cache: CacheType, rows: usize, width: usize) -> usize {
    match cache {
        CacheType::F32 => rows * width,
        CacheType::Bf16 => (rows * width).div_ceil(2),
        CacheType::Q8 => (rows * width).div_ceil(4) + rows,
    }
}

/// What a cache gives back of rows of `width` values: elements, and for each row what they are to be multiplied by.
pub fn cached(cache: CacheType, width: usize, values: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let ones = vec![1.0; values.len() / width];
    match cache {
        CacheType::F32 => (values.to_vec(), ones),
        CacheType::Bf16 => (values.iter().map(|&v| bf16::from_f32(v).to_f32()).collect(), ones),
        CacheType::Q8 => {
            let largest = |row: &[f32]| row.iter().fold(0.0f32, |a, b| a.max(b.abs()));
            let rows = values.chunks_exact(width);
            let levels = rows.clone().flat_map(|row| {
                let inverse = 127.0 / largest(row);
                row.iter().map(move |v| (v * inverse).round_ties_even())
            });
            (levels.collect(), rows.map(|row| largest(row) / 127.0).collect())
        }
    }
}

/// Those whose elements stand alone.
pub const STORAGES: [Storage; 3] = [Storage::Bf16, Storage::F16, Storage::F32];
/// Those whose elements share scales.
pub const BLOCKS: [Storage; 2] = [Storage::Q8, Storage::Q4];

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

/// Rows of `cols` values in a storage, and what they decode to.
pub fn encode_rows(storage: Storage, cols: usize, values: &[f32]) -> (Vec<u8>, Vec<f32>) {
    if !storage.is_blocks() {
        return encode(storage, values);
    }
    let (mut bytes, mut decoded) = (Vec::new(), Vec::new());
    for row in values.chunks_exact(cols.max(1)) {
        let mut encoded = vec![0; storage.row_bytes(cols).unwrap()];
        encode_row(storage, row, None, &mut encoded).unwrap();
        decoded.extend((0..cols).map(|k| {
            let block = Place::of(storage, cols, k).read(&encoded);
            block.scale * f32::from(block.level)
        }));
        bytes.extend(encoded);
    }
    (bytes, decoded)
}

/// A weight of a block storage.
pub struct Block {
    pub scale: f32,
    pub level: i8,
}

/// Where in the bytes of a row a column of a block storage is, by the written description of the layout.
pub struct Place {
    scale: usize,
    level: usize,
    /// Which half of the byte.
    half: Option<bool>,
}

impl Place {
    pub fn of(storage: Storage, cols: usize, k: usize) -> Self {
        let bits = if storage == Storage::Q8 { 8 } else { 4 };
        let (group, i) = (k / 256 * (16 + 32 * bits), k % 256);
        let scale = group + 2 * (i / 4 % 8);
        let (level, half) = if storage == Storage::Q8 {
            (i, None)
        } else {
            // 64 columns in 32 bytes, the last 32 in 16.
            let half = if cols - (k - k % 64) >= 64 { 32 } else { 16 };
            (i / 64 * 32 + i % 64 % half, Some(i % 64 >= half))
        };
        let level = group + 16 + level;
        Self { scale, level, half }
    }

    pub fn read(&self, row: &[u8]) -> Block {
        let scale = f16::from_le_bytes([row[self.scale], row[self.scale + 1]]).to_f32();
        let byte = row[self.level];
        let level = match self.half {
            None => byte as i8,
            Some(upper) => LEVELS[usize::from(if upper { byte >> 4 } else { byte & 15 })],
        };
        Block { scale, level }
    }
}

/// What the 16 levels of Q4 are.
pub const LEVELS: [i8; 16] = [-63, -50, -38, -30, -22, -15, -10, -4, 1, 7, 13, 19, 26, 35, 45, 62];

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
        Storage::Q8 | Storage::Q4 => panic!("blocks are encoded by rows"),
    }
}

impl Weights {
    pub fn new(random: &mut Random, rows: usize, cols: usize, storage: Storage, shift: usize) -> Self {
        let (bytes, values) = encode_rows(storage, cols, &random.values(rows * cols));
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
