//! From f32 to every storage: the encoders beside [`super::matrix`]'s and [`super::blocks`]' decoders.

use core::fmt;

use half::{bf16, f16};

use super::Storage;
use super::blocks::{BLOCKS, GROUP, LEVELS, Levels, Q4, Q8, SCALES, STEP};

/// Why a row could not be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The storage has no rows of so many elements.
    Columns {
        /// What was asked for.
        storage: Storage,
        /// Elements of the row.
        cols: usize,
    },
    /// The output is not as long as the row is in that storage.
    Length {
        /// [`Storage::row_bytes`].
        expected: usize,
        /// Bytes that were given.
        found: usize,
    },
    /// There is not one importance per column.
    Importance {
        /// Elements of the row.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// An importance is negative, infinite or no number.
    InvalidImportance {
        /// Its column.
        col: usize,
    },
    /// A weight is infinite or no number.
    NotFinite {
        /// Its column.
        col: usize,
    },
    /// A weight is beyond what the storage can hold.
    TooLarge {
        /// Its column.
        col: usize,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Columns { storage, cols } => {
                write!(
                    f,
                    "{storage:?} has no rows of {cols} elements: they are multiples of {STEP}"
                )
            }
            Self::Length { expected, found } => {
                write!(f, "expected {expected} bytes for the encoded row, found {found}")
            }
            Self::Importance { expected, found } => {
                write!(f, "expected {expected} importances, one per column, found {found}")
            }
            Self::InvalidImportance { col } => {
                write!(f, "the importance of column {col} is not a number of at least 0")
            }
            Self::NotFinite { col } => write!(f, "the weight in column {col} is not a finite number"),
            Self::TooLarge { col } => write!(f, "the weight in column {col} is too large for the storage"),
        }
    }
}

impl core::error::Error for EncodeError {}

/// Encodes one row of weights into `out`, which is [`Storage::row_bytes`] long.
///
/// The halves round to nearest, ties to even. In blocks each scale is searched: among some candidates the one with the
/// least squared error of the decoded values, each column weighted by its `importance` (the mean square of the
/// activations there, if known; all alike where a block's are all 0). Rows that a storage holds exactly come back
/// exactly.
///
/// # Errors
/// [`EncodeError`]; `out` is then unspecified.
pub fn encode_row(
    storage: Storage,
    row: &[f32],
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> Result<(), EncodeError> {
    let cols = row.len();
    let expected = storage.row_bytes(cols).ok_or(EncodeError::Columns { storage, cols })?;
    if out.len() != expected {
        let found = out.len();
        return Err(EncodeError::Length { expected, found });
    }
    if let Some(importance) = importance {
        if importance.len() != cols {
            let (expected, found) = (cols, importance.len());
            return Err(EncodeError::Importance { expected, found });
        }
        if let Some(col) = importance.iter().position(|&i| !(i.is_finite() && i >= 0.0)) {
            return Err(EncodeError::InvalidImportance { col });
        }
    }
    if let Some(col) = row.iter().position(|w| !w.is_finite()) {
        return Err(EncodeError::NotFinite { col });
    }
    match storage {
        Storage::Bf16 => halves(row, out, |w| {
            Some(bf16::from_f32(w)).filter(|w| w.is_finite()).map(bf16::to_le_bytes)
        }),
        Storage::F16 => halves(row, out, |w| {
            Some(f16::from_f32(w)).filter(|w| w.is_finite()).map(f16::to_le_bytes)
        }),
        Storage::F32 => {
            for (out, w) in out.chunks_exact_mut(4).zip(row) {
                out.copy_from_slice(&w.to_le_bytes());
            }
            Ok(())
        }
        Storage::Q8 => blocks::<Q8>(row, importance, out),
        Storage::Q4 => blocks::<Q4>(row, importance, out),
    }
}

fn halves(row: &[f32], out: &mut [u8], round: impl Fn(f32) -> Option<[u8; 2]>) -> Result<(), EncodeError> {
    for (col, (out, &w)) in out.chunks_exact_mut(2).zip(row).enumerate() {
        out.copy_from_slice(&round(w).ok_or(EncodeError::TooLarge { col })?);
    }
    Ok(())
}

fn blocks<L: Search>(row: &[f32], importance: Option<&[f32]>, out: &mut [u8]) -> Result<(), EncodeError> {
    out.fill(0);
    let groups = out.chunks_mut(SCALES + GROUP * L::BITS / 8);
    for (g, (row, out)) in row.chunks(GROUP).zip(groups).enumerate() {
        let (scales, levels) = out.split_at_mut(SCALES);
        let width = row.len();
        for l in 0..BLOCKS {
            let column = |i: usize| i / 4 * STEP + 4 * l + i % 4;
            let count = width / BLOCKS;
            let mut block = Block {
                weights: [0.0; STEP],
                importance: [0.0; STEP],
            };
            for i in 0..count {
                block.weights[i] = row[column(i)];
                block.importance[i] = importance.map_or(1.0, |all| all[g * GROUP + column(i)]);
            }
            if !block.importance.iter().any(|&i| i > 0.0) {
                block.importance[..count].fill(1.0);
            }
            let largest = (0..count).fold(0, |a, i| {
                if block.weights[i].abs() > block.weights[a].abs() {
                    i
                } else {
                    a
                }
            });
            let scale = L::search(&block, block.weights[largest]).ok_or(EncodeError::TooLarge {
                col: g * GROUP + column(largest),
            })?;
            scales[2 * l..2 * l + 2].copy_from_slice(&scale.to_le_bytes());
            let inverse = inverse(scale.to_f32());
            for i in 0..count {
                L::write(levels, width, column(i), L::index(block.weights[i] * inverse));
            }
        }
    }
    Ok(())
}

/// The weights of a block, and what their errors count; zeros behind those that it has.
struct Block {
    weights: [f32; STEP],
    importance: [f32; STEP],
}

/// 1 / scale, or 0 for a scale of 0.
fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// How a scale is found.
trait Search: Levels {
    /// What [`Levels::write`] writes for a weight divided by its scale.
    fn index(w: f32) -> u8;
    /// The level for a weight divided by its scale.
    fn level(w: f32) -> f32;
    /// The best scale for a block, given its weight of the largest size; `None` if no scale is large enough.
    fn search(block: &Block, largest: f32) -> Option<f16>;

    /// The weighted squared error of a block, and what the weighted sums of `weight * level` and `level^2` are.
    fn error(block: &Block, scale: f32) -> (f32, f32, f32) {
        let inverse = inverse(scale);
        // Lanes, so that a compiler may add several at once.
        let (mut errors, mut products, mut squares) = ([0.0f32; 8], [0.0f32; 8], [0.0f32; 8]);
        for (w, i) in block.weights.chunks_exact(8).zip(block.importance.chunks_exact(8)) {
            for lane in 0..8 {
                let (w, i) = (w[lane], i[lane]);
                let level = Self::level(w * inverse);
                let error = w - scale * level;
                errors[lane] += i * error * error;
                products[lane] += i * w * level;
                squares[lane] += i * level * level;
            }
        }
        let sum = |lanes: [f32; 8]| lanes.iter().sum::<f32>();
        (sum(errors), sum(products), sum(squares))
    }
}

/// The better of the best scale so far and a candidate.
fn consider<L: Search>(block: &Block, candidate: f32, best: &mut Option<(f32, f16)>) -> (f32, f32) {
    let scale = f16::from_f32(candidate);
    if !scale.is_finite() {
        return (0.0, 0.0);
    }
    let (error, products, squares) = L::error(block, scale.to_f32());
    if best.is_none_or(|(least, _)| error < least) {
        *best = Some((error, scale));
    }
    (products, squares)
}

impl Search for Q8 {
    fn index(w: f32) -> u8 {
        Self::level(w) as i8 as u8
    }

    #[inline(always)]
    fn level(w: f32) -> f32 {
        /// Rounds values of at most 2^22 to an integer, ties to even.
        const ROUNDING: f32 = 12_582_912.0;
        w.clamp(-127.0, 127.0) + ROUNDING - ROUNDING
    }

    fn search(block: &Block, largest: f32) -> Option<f16> {
        if largest == 0.0 {
            return Some(f16::ZERO);
        }
        let mut best = None;
        // Below 64 half of a scale does as well, with twice the levels; subnormal scales have no halves.
        for level in (1..=127u8).rev() {
            let scale = largest.abs() / f32::from(level);
            if level < 64 && scale >= 2.0 * f16::MIN_POSITIVE.to_f32() {
                break;
            }
            consider::<Self>(block, scale, &mut best);
        }
        best.map(|(_, scale)| scale)
    }
}

impl Search for Q4 {
    #[inline(always)]
    fn index(w: f32) -> u8 {
        LEVELS
            .windows(2)
            .map(|pair| u8::from(w > (f32::from(pair[0]) + f32::from(pair[1])) / 2.0))
            .sum()
    }

    #[inline(always)]
    fn level(w: f32) -> f32 {
        let mut level = f32::from(LEVELS[0]);
        for pair in LEVELS.windows(2) {
            let (low, high) = (f32::from(pair[0]), f32::from(pair[1]));
            level = if w > (low + high) / 2.0 { high } else { level };
        }
        level
    }

    fn search(block: &Block, largest: f32) -> Option<f16> {
        if largest == 0.0 {
            return Some(f16::ZERO);
        }
        let mut best = None;
        // Scales that give the largest weight each of the levels: if the block came out of one, it is among them.
        for level in LEVELS {
            consider::<Self>(block, largest / f32::from(level), &mut best);
        }
        // Scales around those that give it the outermost levels, and what the levels found make of them: given the
        // levels, the best scale is sum(weight * level) / sum(level^2).
        for outermost in [LEVELS[0], LEVELS[15]] {
            for step in 0..10u8 {
                let scale = largest / f32::from(outermost) * (0.80 + 0.04 * f32::from(step));
                let (products, squares) = consider::<Self>(block, scale, &mut best);
                if squares > 0.0 {
                    consider::<Self>(block, products / squares, &mut best);
                }
            }
        }
        best.map(|(_, scale)| scale)
    }
}
