//! Sums of products along the inner dimension, for a few rows and columns at once.

use super::super::matrix::{Bf16, Element, F16, F32, I8, Native};
use super::Vector;

/// Decoding into a vector.
pub(super) trait Load<V>: Element {
    /// 8 elements.
    ///
    /// # Safety
    /// `8 * UNITS` units can be read at `units`; the machine has the set.
    unsafe fn load(units: *const Self::Unit) -> V;
}

impl<V: Vector> Load<V> for Bf16 {
    #[inline(always)]
    unsafe fn load(units: *const u8) -> V {
        // SAFETY: by the caller.
        unsafe { V::load_bf16(units) }
    }
}

impl<V: Vector> Load<V> for F16 {
    #[inline(always)]
    unsafe fn load(units: *const u8) -> V {
        // SAFETY: by the caller.
        unsafe { V::load_f16(units) }
    }
}

impl<V: Vector> Load<V> for F32 {
    #[inline(always)]
    unsafe fn load(units: *const u8) -> V {
        // SAFETY: by the caller.
        unsafe { V::load_f32(units) }
    }
}

impl<V: Vector> Load<V> for I8 {
    #[inline(always)]
    unsafe fn load(units: *const u8) -> V {
        // SAFETY: by the caller.
        unsafe { V::load_i8(units) }
    }
}

impl<V: Vector> Load<V> for Native {
    #[inline(always)]
    unsafe fn load(units: *const f32) -> V {
        // SAFETY: by the caller.
        unsafe { V::load(units) }
    }
}

/// Rows for a tile: where the first begins, and units from one to the next.
#[derive(Clone, Copy)]
pub(super) struct Strided<T> {
    pub(super) start: *const T,
    pub(super) stride: usize,
}

/// Adds the products of `R` rows and `C` columns along `count` elements to their lanes, `lanes[c][r]`.
///
/// # Safety
/// `count` elements can be read of each of `R` rows `w` and `C` rows `x`; the machine has the set.
#[inline(always)]
pub(super) unsafe fn tile<V: Vector, E: Load<V>, const R: usize, const C: usize>(
    w: Strided<E::Unit>,
    x: Strided<f32>,
    count: usize,
    lanes: &mut [[V; R]; C],
) {
    let whole = count - count % 8;
    let mut sums = *lanes;
    let mut k = 0;
    while k < whole {
        // SAFETY: `k + 8 <= count`.
        unsafe {
            let mut xs = [V::zero(); C];
            for c in 0..C {
                xs[c] = V::load(x.start.add(c * x.stride + k));
            }
            for r in 0..R {
                let w = E::load(w.start.add(r * w.stride + k * E::UNITS));
                for c in 0..C {
                    sums[c][r] = w.mul_add(xs[c], sums[c][r]);
                }
            }
        }
        k += 8;
    }
    if whole < count {
        for r in 0..R {
            for c in 0..C {
                // SAFETY: `count - whole` elements remain of each row.
                unsafe {
                    let w = core::slice::from_raw_parts(
                        w.start.add(r * w.stride + whole * E::UNITS),
                        (count - whole) * E::UNITS,
                    );
                    let x = core::slice::from_raw_parts(x.start.add(c * x.stride + whole), count - whole);
                    tail::<V, E>(w, x, &mut sums[c][r]);
                }
            }
        }
    }
    *lanes = sums;
}

/// The elements of a tail that fills no 8 lanes; the other lanes stay as they are.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
unsafe fn tail<V: Vector, E: Load<V>>(w: &[E::Unit], x: &[f32], lanes: &mut V) {
    let (mut ws, mut xs) = ([0.0f32; 8], [0.0f32; 8]);
    let count = x.len().min(8);
    for (to, units) in ws.iter_mut().zip(w.chunks_exact(E::UNITS)) {
        *to = E::read(units);
    }
    for (to, x) in xs.iter_mut().zip(x) {
        *to = *x;
    }
    let (mut kept, mut sums) = ([0.0f32; 8], [0.0f32; 8]);
    // SAFETY: all four arrays have 8 values.
    unsafe {
        lanes.store(kept.as_mut_ptr());
        V::load(ws.as_ptr())
            .mul_add(V::load(xs.as_ptr()), *lanes)
            .store(sums.as_mut_ptr());
        kept[..count].copy_from_slice(&sums[..count]);
        *lanes = V::load(kept.as_ptr());
    }
}

/// The dot products of 8 sums.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(super) unsafe fn reduced<V: Vector>(lanes: [V; 8]) -> [f32; 8] {
    let mut dots = [0.0; 8];
    // SAFETY: `dots` has 8 values.
    unsafe { V::reduce(lanes).store(dots.as_mut_ptr()) };
    dots
}

/// [`super::super::set::Set::dot`].
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(in super::super) unsafe fn dot<V: Vector>(a: &[f32], b: &[f32]) -> f32 {
    // SAFETY: by the caller.
    unsafe { dot_of::<V, Native>(a, b) }
}

/// The canonical dot product of elements of any kind and values, as many as both have.
///
/// # Safety
/// The machine has the set.
#[inline(always)]
pub(super) unsafe fn dot_of<V: Vector, E: Load<V>>(a: &[E::Unit], b: &[f32]) -> f32 {
    let a_row = Strided {
        start: a.as_ptr(),
        stride: 0,
    };
    let b_row = Strided {
        start: b.as_ptr(),
        stride: 0,
    };
    // SAFETY: each slice is a row of as many elements as both have.
    unsafe {
        let mut lanes = [[V::zero()]];
        tile::<V, E, 1, 1>(a_row, b_row, (a.len() / E::UNITS).min(b.len()), &mut lanes);
        let mut all = [V::zero(); 8];
        all[0] = lanes[0][0];
        reduced(all)[0]
    }
}
