//! Functions of single elements, and sums of them.
//!
//! Within one element almost every operation waits for the one before, and a processor looks only so far ahead for
//! others: several vectors go through each operation together.

use super::super::attention::Scores;
use super::super::math::{self, Number};
use super::super::scalar::reduce;
use super::Vector;

/// Vectors that go through a formula together.
const TOGETHER: usize = 4;

/// Vectors side by side.
#[derive(Clone, Copy)]
struct Side<V, const N: usize>([V; N]);

/// Takes each vector of `$all` through `$f`, which is called with its index. A loop, since a closure that some other
/// function calls is not compiled for the set.
macro_rules! each {
    ($all:expr, $i:ident => $f:expr) => {{
        let mut all = $all;
        for $i in 0..N {
            // SAFETY: the machine has the set, by the caller.
            all[$i] = unsafe { $f };
        }
        Side(all)
    }};
}

impl<V: Vector, const N: usize> Side<V, N> {
    /// `8 * N` values. They can be read at `from`.
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: no memory is touched; the machine has the set, by the caller.
        let zeros = [unsafe { V::zero() }; N];
        each!(zeros, i => V::load(from.add(8 * i)))
    }

    /// Writes `8 * N` values. They can be written at `to`.
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        for i in 0..N {
            // SAFETY: by the caller.
            unsafe { self.0[i].store(to.add(8 * i)) };
        }
    }
}

impl<V: Vector, const N: usize> Number for Side<V, N> {
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the machine has the set, by the caller.
        Self([unsafe { V::splat(value) }; N])
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        each!(self.0, i => self.0[i].add(b.0[i]))
    }
    #[inline(always)]
    unsafe fn sub(self, b: Self) -> Self {
        each!(self.0, i => self.0[i].sub(b.0[i]))
    }
    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        each!(self.0, i => self.0[i].mul(b.0[i]))
    }
    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        each!(self.0, i => self.0[i].div(b.0[i]))
    }
    #[inline(always)]
    unsafe fn abs(self) -> Self {
        each!(self.0, i => self.0[i].abs())
    }
    #[inline(always)]
    unsafe fn at_least(self, low: f32) -> Self {
        // SAFETY: the machine has the set, by the caller.
        let low = unsafe { V::splat(low) };
        each!(self.0, i => self.0[i].at_least(low))
    }
    #[inline(always)]
    unsafe fn at_most(self, high: f32) -> Self {
        // SAFETY: the machine has the set, by the caller.
        let high = unsafe { V::splat(high) };
        each!(self.0, i => self.0[i].at_most(high))
    }
    #[inline(always)]
    unsafe fn if_negative(self, negative: Self, otherwise: Self) -> Self {
        each!(self.0, i => self.0[i].if_negative(negative.0[i], otherwise.0[i]))
    }
    #[inline(always)]
    unsafe fn times_two_to(self, shifted: Self) -> Self {
        each!(self.0, i => self.0[i].times_two_to(shifted.0[i]))
    }
}

/// [`super::super::set::Set::scale_and_max`].
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(in super::super) unsafe fn scale_and_max<V: Vector>(scale: f32, max: f32, scores: &mut Scores) -> f32 {
    let mut lanes = [0.0; 8];
    // SAFETY: `scores` are a multiple of 8 values, and `lanes` 8; the caller vouches for the set.
    unsafe {
        let scale = V::splat(scale);
        let mut largest = V::splat(max);
        for scores in scores.chunks_exact_mut(8) {
            let scaled = V::load(scores.as_ptr()).mul(scale);
            scaled.store(scores.as_mut_ptr());
            largest = largest.at_least(scaled);
        }
        largest.store(lanes.as_mut_ptr());
    }
    // No lane is NaN, so any order will do.
    let larger = |a, b| if a > b { a } else { b };
    let of_2 = |i: usize| larger(lanes[i], lanes[i + 4]);
    larger(larger(of_2(0), of_2(2)), larger(of_2(1), of_2(3)))
}

/// [`super::super::set::Set::exp_and_sum`].
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(in super::super) unsafe fn exp_and_sum<V: Vector>(max: f32, scores: &mut Scores) -> f32 {
    const { assert!(size_of::<Scores>() % size_of::<[[f32; 8]; TOGETHER]>() == 0) };
    let mut lanes = [0.0; 8];
    // SAFETY: `scores` are a multiple of so many values, and `lanes` 8; the caller vouches for the set.
    unsafe {
        let max = Side([V::splat(max); TOGETHER]);
        let mut sum = V::zero();
        for scores in scores.chunks_exact_mut(8 * TOGETHER) {
            let p = math::exp_of(Side::load(scores.as_ptr()).sub(max));
            p.store(scores.as_mut_ptr());
            for i in 0..TOGETHER {
                sum = sum.add(p.0[i]);
            }
        }
        sum.store(lanes.as_mut_ptr());
    }
    reduce(&lanes)
}

/// [`super::super::set::Set::silu_mul`].
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(in super::super) unsafe fn silu_mul<V: Vector>(gate: &mut [f32], up: &[f32]) {
    let mut gates = gate.chunks_exact_mut(8 * TOGETHER);
    let mut ups = up.chunks_exact(8 * TOGETHER);
    for (gate, up) in (&mut gates).zip(&mut ups) {
        // SAFETY: both have so many values; the caller vouches for the set.
        unsafe {
            let values = math::silu(Side::<V, TOGETHER>::load(gate.as_ptr()));
            values.mul(Side::load(up.as_ptr())).store(gate.as_mut_ptr());
        }
    }
    for (gate, up) in gates.into_remainder().iter_mut().zip(ups.remainder()) {
        // SAFETY: f32 needs no instruction set.
        *gate = unsafe { math::silu(*gate) } * up;
    }
}

/// [`super::super::set::Set::gelu`].
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(in super::super) unsafe fn gelu<V: Vector>(x: &mut [f32]) {
    let mut all = x.chunks_exact_mut(8 * TOGETHER);
    for x in &mut all {
        // SAFETY: there are so many values; the caller vouches for the set.
        unsafe { math::gelu(Side::<V, TOGETHER>::load(x.as_ptr())).store(x.as_mut_ptr()) };
    }
    for x in all.into_remainder() {
        // SAFETY: f32 needs no instruction set.
        *x = unsafe { math::gelu(*x) };
    }
}
