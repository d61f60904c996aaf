//! The encoders of every storage.

use half::f16;
use proptest::prelude::*;
use voxtral_core::kernels::{EncodeError, Matrix, Storage, encode_row};

use super::data::{BLOCKS, LEVELS, Random, STORAGES, encode};

fn encoded(storage: Storage, row: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let mut bytes = vec![0xA5; storage.row_bytes(row.len()).unwrap()];
    encode_row(storage, row, importance, &mut bytes).unwrap();
    bytes
}

fn decoded(storage: Storage, cols: usize, bytes: &[u8]) -> Vec<f32> {
    let mut row = vec![0.0; cols];
    Matrix::new(bytes, 1, cols, storage).unwrap().widen_row(0, &mut row);
    row
}

/// The columns of every block of a row.
fn blocks(cols: usize) -> impl Iterator<Item = Vec<usize>> {
    (0..cols.div_ceil(256) * 8).map(move |block| {
        let group = block / 8 * 256..cols.min(block / 8 * 256 + 256);
        group.filter(|k| k / 4 % 8 == block % 8).collect()
    })
}

/// Rows of blocks of very different sizes.
fn rows() -> impl Strategy<Value = Vec<f32>> {
    (1usize..20, any::<u64>()).prop_map(|(steps, seed)| {
        let mut random = Random::new(seed);
        let sizes: Vec<f32> = (0..steps).map(|_| (random.value() * 12.0).exp2()).collect();
        (0..32 * steps)
            .map(|k| random.value().powi(3) * sizes[k / 4 % steps])
            .collect()
    })
}

fn squared_error(a: &[f32], b: &[f32], weight: &[f32]) -> f64 {
    let errors = a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2));
    errors.zip(weight).map(|(e, &w)| e * f64::from(w)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The largest value of a block has a level of at least 64 in Q8, so others are off by half of a 64th of it; Q4's
    /// levels are at most 17 of 62 apart, and a scale that cuts the largest value off by more is never the best.
    #[test]
    fn errors_are_bounded(row in rows()) {
        for (storage, gap) in [(Storage::Q8, 0.51 / 64.0), (Storage::Q4, 17.0 / 62.0)] {
            let back = decoded(storage, row.len(), &encoded(storage, &row, None));
            for block in blocks(row.len()) {
                let largest = block.iter().map(|&k| row[k].abs()).fold(0.0f32, f32::max);
                for k in block {
                    let error = (back[k] - row[k]).abs();
                    prop_assert!(error <= largest * gap + 2f32.powi(-18), "{storage:?} {k}: {} {}", row[k], back[k]);
                }
            }
        }
    }

    /// What came out of an encoder goes in again as it is.
    #[test]
    fn encoding_is_idempotent(row in rows()) {
        for storage in BLOCKS {
            let back = decoded(storage, row.len(), &encoded(storage, &row, None));
            let again = decoded(storage, row.len(), &encoded(storage, &back, None));
            prop_assert_eq!(&back, &again, "{:?}", storage);
        }
    }

    /// Any scale and levels are found again, not only those that an encoder would choose.
    #[test]
    fn representable_rows_come_back(scale in 0x0400u16..0x5C00, levels in prop::collection::vec(any::<u8>(), 32)) {
        let scale = f16::from_bits(scale).to_f32();
        let eight: Vec<f32> = levels.iter().map(|&l| scale * f32::from((l as i8).max(-127))).collect();
        prop_assert_eq!(&decoded(Storage::Q8, 32, &encoded(Storage::Q8, &eight, None)), &eight);
        let four: Vec<f32> = levels.iter().map(|&l| scale * f32::from(LEVELS[usize::from(l & 15)])).collect();
        prop_assert_eq!(&decoded(Storage::Q4, 32, &encoded(Storage::Q4, &four, None)), &four);
    }

    /// Columns that count more are met better, by the measure that says so.
    #[test]
    fn importance_counts(row in rows(), seed: u64) {
        let mut random = Random::new(seed);
        let importance: Vec<f32> = row.iter().map(|_| (random.value() * 8.0).exp2()).collect();
        for storage in BLOCKS {
            let plain = decoded(storage, row.len(), &encoded(storage, &row, None));
            let weighted = decoded(storage, row.len(), &encoded(storage, &row, Some(&importance)));
            let (of_plain, of_weighted) =
                (squared_error(&row, &plain, &importance), squared_error(&row, &weighted, &importance));
            prop_assert!(of_weighted <= of_plain * 1.05 + 1e-12, "{:?}: {} {}", storage, of_weighted, of_plain);
            let alike = vec![0.0; row.len()];
            prop_assert_eq!(encoded(storage, &row, Some(&alike)), encoded(storage, &row, None));
        }
    }

    #[test]
    fn nothing_panics(row in prop::collection::vec(any::<f32>(), 0..100), importance in prop::collection::vec(any::<f32>(), 0..100), len in 0usize..500) {
        for storage in STORAGES.into_iter().chain(BLOCKS) {
            let _ = encode_row(storage, &row, Some(&importance), &mut vec![0; len]);
            let _ = encode_row(storage, &row, None, &mut vec![0; storage.row_bytes(row.len()).unwrap_or(len)]);
        }
    }
}

/// Without importance the search is not worse than the plain scale, over many blocks.
#[test]
fn a_search_beats_the_plain_scale() {
    let mut random = Random::new(5);
    // Nearly a normal distribution.
    let row: Vec<f32> = (0..256 * 64).map(|_| random.values(12).iter().sum()).collect();
    let ones = vec![1.0; row.len()];
    for (storage, plain_levels) in [(Storage::Q8, 127.0f32), (Storage::Q4, 8.0)] {
        let searched = squared_error(&row, &decoded(storage, row.len(), &encoded(storage, &row, None)), &ones);
        let mut plain = row.clone();
        for block in blocks(row.len()) {
            let largest = block.iter().map(|&k| row[k].abs()).fold(0.0f32, f32::max);
            for k in block {
                let scale = largest / plain_levels;
                plain[k] = (row[k] / scale).round().clamp(-plain_levels, plain_levels) * scale;
            }
        }
        assert!(searched < squared_error(&row, &plain, &ones), "{storage:?}");
    }
}

#[test]
fn zeros_stay_zeros() {
    for storage in BLOCKS {
        let mut row = vec![0.0; 512];
        row[4..8].fill(3.0);
        let back = decoded(storage, 512, &encoded(storage, &row, None));
        for block in blocks(512) {
            if block.iter().all(|&k| row[k] == 0.0) {
                assert!(block.iter().all(|&k| back[k].to_bits() == 0), "{storage:?}");
            }
        }
    }
}

#[test]
fn plain_storages_round_to_nearest() {
    let mut random = Random::new(6);
    let row = random.values(77);
    for storage in STORAGES {
        let (bytes, values) = encode(storage, &row);
        assert_eq!(encoded(storage, &row, None), bytes);
        assert_eq!(decoded(storage, 77, &bytes), values);
    }
}

#[test]
fn refusals() {
    let mut out = [0u8; 1000];
    for storage in BLOCKS {
        let len = storage.row_bytes(64).unwrap();
        let mut row = [1.0f32; 64];
        let encode =
            |row: &[f32], importance: Option<&[f32]>, out: &mut [u8]| encode_row(storage, row, importance, out);
        let cols = 63;
        assert_eq!(
            encode(&row[..63], None, &mut out[..len]),
            Err(EncodeError::Columns { storage, cols })
        );
        assert_eq!(
            encode(&row, None, &mut out[..len - 1]),
            Err(EncodeError::Length {
                expected: len,
                found: len - 1
            })
        );
        assert_eq!(
            encode(&row, Some(&[1.0; 63]), &mut out[..len]),
            Err(EncodeError::Importance {
                expected: 64,
                found: 63
            })
        );
        for odd in [-1.0, f32::NAN, f32::INFINITY] {
            let mut importance = [1.0; 64];
            importance[9] = odd;
            assert_eq!(
                encode(&row, Some(&importance), &mut out[..len]),
                Err(EncodeError::InvalidImportance { col: 9 })
            );
        }
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            row[40] = odd;
            let error = encode(&row, None, &mut out[..len]).unwrap_err();
            assert_eq!(error, EncodeError::NotFinite { col: 40 });
            assert_eq!(error.to_string(), "the weight in column 40 is not a finite number");
        }
        row[40] = 1e30;
        assert_eq!(
            encode(&row, None, &mut out[..len]),
            Err(EncodeError::TooLarge { col: 40 })
        );
    }
    assert_eq!(
        encode_row(Storage::F16, &[1.0, 70_000.0], None, &mut out[..4]),
        Err(EncodeError::TooLarge { col: 1 })
    );
}
