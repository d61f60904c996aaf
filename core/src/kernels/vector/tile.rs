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

/// Inputs for a tile: 8 values from element `k` on (a multiple of 8) of column `c` lie at
/// `start + c * apart + k * step`. A last group of fewer than 8 lies as whole ones do.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    start: *const f32,
    apart: usize,
    step: usize,
}

impl Columns {
    /// Each column's values one after the other.
    #[inline(always)]
    pub(super) fn apart(columns: Strided<f32>) -> Self {
        Self {
            start: columns.start,
            apart: columns.stride,
            step: 1,
        }
    }

    /// 8 values of each of `count` columns in turn; `start` is that of the first column of the tile.
    #[inline(always)]
    pub(super) fn in_turn(start: *const f32, count: usize) -> Self {
        Self {
            start,
            apart: 8,
            step: count,
        }
    }

    /// Where the values from element `k` on of column `c` lie, which there are.
    #[inline(always)]
    unsafe fn at(&self, c: usize, k: usize) -> *const f32 {
        // SAFETY: by the caller.
        unsafe { self.start.add(c * self.apart + k * self.step) }
    }
}

/// Adds the products of `R` rows and `C` columns along `count` elements to their lanes, `lanes[c][r]`.
///
/// # Safety
/// `count` elements can be read of each of `R` rows `w` and `C` columns `x`; the machine has the set.
#[inline(always)]
pub(super) unsafe fn tile<V: Vector, E: Load<V>, const R: usize, const C: usize>(
    w: Strided<E::Unit>,
    x: Columns,
    count: usize,
    lanes: &mut [[V; R]; C],
) {
    // SAFETY: by the caller.
    unsafe { rest_of_tile::<V, E, R, C>(w, x, 0, count, lanes) }
}

/// What is fetched while a tile is summed. No closure: the compiler would be free to call one, with all sums written to
/// memory before.
pub(super) trait Ahead: Copy {
    /// Fetches what goes with elements `k..k + 32`.
    fn fetch(self, k: usize);
}

/// Nothing is fetched.
impl Ahead for () {
    #[inline(always)]
    fn fetch(self, _k: usize) {}
}

/// [`tile`] that fetches with every 32nd element.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
pub(super) unsafe fn fetching_tile<V: Vector, E: Load<V>, const R: usize, const C: usize>(
    w: Strided<E::Unit>,
    x: Columns,
    count: usize,
    lanes: &mut [[V; R]; C],
    ahead: impl Ahead,
) {
    let mut sums = *lanes;
    let mut k = 0;
    // SAFETY: all elements read are below `count`; the rest by the caller.
    unsafe {
        while count - k >= 32 {
            ahead.fetch(k);
            for i in 0..4 {
                eight::<V, E, R, C>(w, x, k + 8 * i, &mut sums);
            }
            k += 32;
        }
        rest_of_tile::<V, E, R, C>(w, x, k, count, &mut sums);
    }
    *lanes = sums;
}

/// [`tile`] from element `k` on, a multiple of 8.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn rest_of_tile<V: Vector, E: Load<V>, const R: usize, const C: usize>(
    w: Strided<E::Unit>,
    x: Columns,
    mut k: usize,
    count: usize,
    lanes: &mut [[V; R]; C],
) {
    let mut sums = *lanes;
    while count - k >= 8 {
        // SAFETY: `k + 8 <= count`.
        unsafe { eight::<V, E, R, C>(w, x, k, &mut sums) };
        k += 8;
    }
    if k < count {
        for r in 0..R {
            for c in 0..C {
                // SAFETY: `count - k` elements remain of each row.
                unsafe {
                    let units = w.start.add(r * w.stride + k * E::UNITS);
                    let w = core::slice::from_raw_parts(units, (count - k) * E::UNITS);
                    let x = core::slice::from_raw_parts(x.at(c, k), count - k);
                    tail::<V, E>(w, x, &mut sums[c][r]);
                }
            }
        }
    }
    *lanes = sums;
}

/// The products of elements `k..k + 8`. Weights wait in registers for the columns if there is room for them beside the
/// sums and a column, of 16 registers in all; else columns wait for the weights.
///
/// # Safety
/// They can be read of each of `R` rows `w` and `C` columns `x`; the machine has the set.
#[inline(always)]
unsafe fn eight<V: Vector, E: Load<V>, const R: usize, const C: usize>(
    w: Strided<E::Unit>,
    x: Columns,
    k: usize,
    sums: &mut [[V; R]; C],
) {
    // SAFETY: by the caller.
    unsafe {
        if R * C + R < 16 {
            let mut ws = [V::zero(); R];
            for r in 0..R {
                ws[r] = E::load(w.start.add(r * w.stride + k * E::UNITS));
            }
            for c in 0..C {
                let x = V::load(x.at(c, k));
                for r in 0..R {
                    sums[c][r] = ws[r].mul_add(x, sums[c][r]);
                }
            }
        } else {
            let mut xs = [V::zero(); C];
            for c in 0..C {
                xs[c] = V::load(x.at(c, k));
            }
            for r in 0..R {
                let w = E::load(w.start.add(r * w.stride + k * E::UNITS));
                for c in 0..C {
                    sums[c][r] = w.mul_add(xs[c], sums[c][r]);
                }
            }
        }
    }
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
    let b_row = Columns::apart(Strided {
        start: b.as_ptr(),
        stride: 0,
    });
    // SAFETY: each slice is a row of as many elements as both have.
    unsafe {
        let mut lanes = [[V::zero()]];
        tile::<V, E, 1, 1>(a_row, b_row, (a.len() / E::UNITS).min(b.len()), &mut lanes);
        let mut all = [V::zero(); 8];
        all[0] = lanes[0][0];
        reduced(all)[0]
    }
}
