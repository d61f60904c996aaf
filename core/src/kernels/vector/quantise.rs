//! Activations of 8 bits, 32 columns at a time.

use super::super::activations::{FRONT_BYTES, ROUNDING, each_group, scales_and_inverses, write_front};
use super::super::blocks::STEP;
use super::Integers;

/// Vectors of [`STEP`] columns.
const VECTORS: usize = STEP / 8;

/// [`super::super::activations::quantise`].
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(in super::super) unsafe fn quantise<V: Integers>(cols: usize, x: &[f32], out: &mut [f32]) {
    // SAFETY: by the caller.
    each_group(cols, x, out, |x, out| unsafe { group::<V>(x, out) });
}

/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn group<V: Integers>(x: &[f32], out: &mut [u8]) {
    let (front, levels) = out.split_at_mut(FRONT_BYTES);
    // SAFETY: a step has `STEP` values, or bytes, and so have the arrays; the caller vouches for the set.
    unsafe {
        let mut largest = [V::zero(); VECTORS];
        for x in x.chunks_exact(STEP) {
            for j in 0..VECTORS {
                largest[j] = V::load(x.as_ptr().add(8 * j)).abs().larger_bits(largest[j]);
            }
        }
        let mut sizes = [0.0f32; STEP];
        for j in 0..VECTORS {
            largest[j].store(sizes.as_mut_ptr().add(8 * j));
        }
        let (scales, inverses) = scales_and_inverses(&sizes.map(f32::to_bits));
        let mut factors = [V::zero(); VECTORS];
        for j in 0..VECTORS {
            factors[j] = V::load(inverses.as_ptr().add(8 * j));
        }
        let mut sums = V::no_sums();
        for (x, levels) in x.chunks_exact(STEP).zip(levels.chunks_exact_mut(STEP)) {
            let mut rounded = [V::splat(ROUNDING); VECTORS];
            for j in 0..VECTORS {
                rounded[j] = V::load(x.as_ptr().add(8 * j)).mul(factors[j]).add(rounded[j]);
            }
            let bytes = V::lowest_bytes(rounded);
            V::store_bytes(bytes, levels.as_mut_ptr());
            sums = V::add_bytes(bytes, sums);
        }
        write_front(&scales, &V::to_array(sums), front);
    }
}
