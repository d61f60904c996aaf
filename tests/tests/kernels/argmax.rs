//! The largest of some values, and of the outputs of a linear map that are nowhere stored.

use proptest::prelude::*;
use voxtral_core::kernels::{Kernels, Matrix, Ops, Serial, Storage, activations_len};

use super::all_kernels;
use super::data::{Random, STORAGES, Weights};
use super::executors::executors;

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
    assert_eq!(ops.argmax(&[f32::MIN; 3]), Some(0));
    assert_eq!(ops.argmax(&[0.0, f32::MAX, f32::MAX]), Some(1));
    assert_eq!(ops.argmax(&[0.0, f32::NEG_INFINITY]), None);
    assert_eq!(ops.argmax(&[-0.0, 0.0]), Some(0));
    assert_eq!(ops.argmax(&[f32::INFINITY, 0.0]), None);
}

/// [`Ops::linear_argmax`] of as many inputs as `x` has.
fn linear_argmax(ops: Ops, w: &Matrix, x: &[f32]) -> Vec<Option<usize>> {
    let mut found = vec![Some(7); x.len() / w.cols()];
    let mut scratch = vec![0.0; activations_len(found.len(), w.cols()).unwrap()];
    ops.linear_argmax(w, x, &mut scratch, &mut found);
    found
}

/// [`Ops::argmax`] of each row of the outputs of [`Ops::linear`].
fn argmax_of_linear(ops: Ops, w: &Matrix, x: &[f32]) -> Vec<Option<usize>> {
    let mut y = vec![0.0; x.len() / w.cols() * w.rows()];
    let mut scratch = vec![0.0; activations_len(x.len() / w.cols(), w.cols()).unwrap()];
    ops.linear(w, None, x, &mut scratch, &mut y);
    y.chunks(w.rows()).map(|y| ops.argmax(y)).collect()
}

/// Weights of few values and inputs of small integers: every dot product is exact, and many are equal.
fn coarse(random: &mut Random, count: usize) -> Vec<f32> {
    random.values(count).iter().map(|x| (x * 2.0).round()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn linear_argmax_is_the_argmax_of_linear(
        rows in prop_oneof![1usize..400, 5_000usize..9_000],
        cols in 1usize..5,
        n in 1usize..20,
        low in prop::option::of(any::<prop::sample::Index>()),
        nan in prop::option::of(any::<prop::sample::Index>()),
        seed: u64,
    ) {
        let mut random = Random::new(seed);
        let mut weights = coarse(&mut random, rows * cols);
        let mut x = coarse(&mut random, n * cols);
        x[0] = 1.0;
        // All alike but for one, of which the others are the largest if it is low.
        if let Some(at) = low {
            weights.fill(-1e30);
            weights[at.index(rows) * cols] = random.value();
        }
        if let Some(at) = nan {
            weights[at.index(rows) * cols] = f32::NAN;
        }
        let bytes: Vec<u8> = weights.iter().flat_map(|w| w.to_le_bytes()).collect();
        let w = Matrix::new(&bytes, rows, cols, Storage::F32).unwrap();
        for kernels in all_kernels() {
            let ops = Ops::new(kernels, &Serial);
            let expected = argmax_of_linear(ops, &w, &x);
            prop_assert!(nan.is_none() || expected.iter().any(Option::is_none));
            prop_assert_eq!(linear_argmax(ops, &w, &x), expected);
        }
    }
}

/// Large enough for several threads.
#[test]
fn linear_argmax_depends_on_nothing_but_values() {
    let mut random = Random::new(9);
    for storage in STORAGES {
        let w = Weights::new(&mut random, 40_000, 24, storage, 1);
        let x = random.values(3 * 24);
        for kernels in all_kernels() {
            let expected = argmax_of_linear(Ops::new(kernels, &Serial), &w.matrix(), &x);
            for executor in executors() {
                for n in [1, 3] {
                    let found = linear_argmax(Ops::new(kernels, executor), &w.matrix(), &x[..24 * n]);
                    assert_eq!(found, expected[..n], "{kernels:?} {storage:?}");
                }
            }
        }
    }
}

#[test]
fn linear_argmax_takes_the_lowest_of_equals_over_all_pieces() {
    let (rows, cols) = (40_000, 8);
    let bytes = [0x80, 0x3f].repeat(rows * cols);
    let w = Matrix::new(&bytes, rows, cols, Storage::Bf16).unwrap();
    for kernels in all_kernels() {
        assert_eq!(linear_argmax(Ops::new(kernels, &Serial), &w, &[1.0; 16]), [Some(0); 2]);
    }
}
