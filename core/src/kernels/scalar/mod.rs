//! The scalar kernels of both classes: the canonical order in plain code, for every target.
//!
//! They are written in arrays of 8 lanes, which compilers turn into whatever vectors a target's baseline has.

mod tiles;

use super::Class;
use super::dispatch::Table;
use super::linear::Linear;
use super::matrix::{Element, Native, with_storage};
use super::split::Band;

/// Scalar kernels that multiply, then add.
pub(super) static SEPARATE: Table = Table {
    name: "scalar",
    class: Class::Separate,
    linear: linear::<Separate>,
    dots: dots::<Separate>,
    accumulate: accumulate::<Separate>,
};

/// Scalar kernels that round once; in software where the target has no such instruction.
pub(super) static FUSED: Table = Table {
    name: "scalar, fused",
    class: Class::Fused,
    linear: linear::<Fused>,
    dots: dots::<Fused>,
    accumulate: accumulate::<Fused>,
};

/// The multiply-accumulate of a class.
trait Mac {
    fn mac(a: f32, b: f32, acc: f32) -> f32;
}

/// [`Class::Separate`].
struct Separate;
/// [`Class::Fused`].
struct Fused;

impl Mac for Separate {
    #[inline(always)]
    fn mac(a: f32, b: f32, acc: f32) -> f32 {
        acc + a * b
    }
}

impl Mac for Fused {
    #[inline(always)]
    fn mac(a: f32, b: f32, acc: f32) -> f32 {
        libm::fmaf(a, b, acc)
    }
}

/// The fixed tree over the lanes of a dot product.
#[inline(always)]
pub(super) fn reduce(l: &[f32; 8]) -> f32 {
    ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

fn linear<M: Mac>(job: &Linear, band: &mut Band) {
    with_storage!(job.weights().storage(), E => linear_of::<E, M>(job, band));
}

/// Four weight rows at a time, and for each four inputs, which share the decoding of the row.
fn linear_of<E: Element<Unit = u8>, M: Mac>(job: &Linear, band: &mut Band) {
    let stride = job.weights().stride();
    let n = band.height();
    let (start, width) = (band.start(), band.width());
    let row = |r: usize| &job.weights().bytes()[(start + r) * stride..(start + r + 1) * stride];
    let input = |i: usize| job.inputs(i, 1);
    let shared = n - n % 4;
    for r0 in (0..width).step_by(4) {
        let rows = r0..(r0 + 4).min(width);
        for i in (0..shared).step_by(4) {
            let inputs = core::array::from_fn(|c| input(i + c));
            for r in rows.clone() {
                let dots = tiles::row_by_inputs::<E, M>(row(r), inputs);
                for (c, dot) in dots.into_iter().enumerate() {
                    job.finish(start + r, dot, &mut band.row(i + c)[r]);
                }
            }
        }
        for i in shared..n {
            if rows.len() == 4 {
                let dots = tiles::rows_by_input::<E, M>(core::array::from_fn(|r| row(r0 + r)), input(i));
                for (r, dot) in rows.clone().zip(dots) {
                    job.finish(start + r, dot, &mut band.row(i)[r]);
                }
            } else {
                for r in rows.clone() {
                    job.finish(start + r, tiles::dot::<E, M>(row(r), input(i)), &mut band.row(i)[r]);
                }
            }
        }
    }
}

fn dots<M: Mac>(x: &[f32], rows: &[f32], out: &mut [f32]) {
    let row = |r: usize| &rows[r * x.len()..(r + 1) * x.len()];
    let mut fours = out.chunks_exact_mut(4);
    let mut r = 0;
    for four in &mut fours {
        four.copy_from_slice(&tiles::rows_by_input::<Native, M>(
            core::array::from_fn(|i| row(r + i)),
            x,
        ));
        r += 4;
    }
    for (i, out) in fours.into_remainder().iter_mut().enumerate() {
        *out = tiles::dot::<Native, M>(row(r + i), x);
    }
}

fn accumulate<M: Mac>(p: &[f32], rows: &[f32], out: &mut [f32]) {
    for (j, &p) in p.iter().enumerate() {
        let row = &rows[j * out.len()..(j + 1) * out.len()];
        for (out, &v) in out.iter_mut().zip(row) {
            *out = M::mac(p, v, *out);
        }
    }
}
