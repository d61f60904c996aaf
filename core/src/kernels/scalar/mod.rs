//! The scalar kernels of both classes: the canonical order in plain code, for every target.
//!
//! They are written in arrays of 8 lanes, which compilers turn into whatever vectors a target's baseline has.

mod blocks;
mod tiles;

use core::marker::PhantomData;

use super::Class;
use super::activations;
use super::attention::Scores;
use super::linear::Linear;
use super::math;
use super::matrix::{Bf16, Element, I8, Native, with_storage};
use super::ring::Stored;
use super::set::{Rows, Set, Table, table};
use super::split::Band;

/// Scalar kernels that multiply, then add.
pub(super) static SEPARATE: Table = table!(Scalar<Separate>,);

/// Scalar kernels that round once; in software where the target has no such instruction.
pub(super) static FUSED: Table = table!(Scalar<Fused>,);

/// The multiply-accumulate of a class.
trait Mac {
    const NAME: &'static str;
    const CLASS: Class;
    fn mac(a: f32, b: f32, acc: f32) -> f32;
}

/// [`Class::Separate`].
struct Separate;
/// [`Class::Fused`].
struct Fused;

impl Mac for Separate {
    const NAME: &'static str = "scalar";
    const CLASS: Class = Class::Separate;
    #[inline(always)]
    fn mac(a: f32, b: f32, acc: f32) -> f32 {
        acc + a * b
    }
}

impl Mac for Fused {
    const NAME: &'static str = "scalar, fused";
    const CLASS: Class = Class::Fused;
    #[inline(always)]
    fn mac(a: f32, b: f32, acc: f32) -> f32 {
        libm::fmaf(a, b, acc)
    }
}

/// The set that every machine has.
struct Scalar<M>(PhantomData<M>);

impl<M: Mac> Set for Scalar<M> {
    const NAME: &'static str = M::NAME;
    const CLASS: Class = M::CLASS;

    unsafe fn linear(job: &Linear, band: &mut Band) {
        with_storage!(job.weights().storage(), E => linear_of::<E, M>(job, band), L => blocks::linear::<L, M>(job, band));
    }

    unsafe fn quantise(cols: usize, x: &[f32], out: &mut [f32]) {
        activations::quantise(cols, x, out);
    }

    unsafe fn dot(a: &[f32], b: &[f32]) -> f32 {
        tiles::dot::<Native, M>(a, b)
    }

    unsafe fn scores(q: Rows, keys: Stored, _ahead: *const u8, at: usize, scores: &mut [Scores]) {
        match keys {
            Stored::F32(keys) => scores_of::<Native, M>(q, keys, at, scores),
            Stored::Bf16(keys) => scores_of::<Bf16, M>(q, keys, at, scores),
            Stored::I8(keys) => scores_of::<I8, M>(q, keys, at, scores),
        }
    }

    unsafe fn accumulate(p: &[Scores], at: usize, values: Stored, _ahead: *const u8, y: &mut Band) {
        match values {
            Stored::F32(values) => accumulate_of::<Native, M>(p, at, values, y),
            Stored::Bf16(values) => accumulate_of::<Bf16, M>(p, at, values, y),
            Stored::I8(values) => accumulate_of::<I8, M>(p, at, values, y),
        }
    }

    #[inline(always)]
    unsafe fn scale_and_max(scale: f32, mut max: f32, scores: &mut Scores) -> f32 {
        for score in scores {
            *score *= scale;
            max = if *score > max { *score } else { max };
        }
        max
    }

    #[inline(always)]
    unsafe fn exp_and_sum(max: f32, scores: &mut Scores) -> f32 {
        let mut lanes = [0.0f32; 8];
        for scores in scores.chunks_exact_mut(8) {
            for (lane, score) in lanes.iter_mut().zip(scores) {
                *score = math::exp(*score - max);
                *lane += *score;
            }
        }
        reduce(&lanes)
    }

    #[inline(always)]
    unsafe fn silu_mul(gate: &mut [f32], up: &[f32]) {
        for (gate, up) in gate.iter_mut().zip(up) {
            // SAFETY: f32 needs no instruction set.
            *gate = unsafe { math::silu(*gate) } * up;
        }
    }

    #[inline(always)]
    unsafe fn gelu(x: &mut [f32]) {
        for x in x {
            // SAFETY: f32 needs no instruction set.
            *x = unsafe { math::gelu(*x) };
        }
    }
}

/// [`Set::scores`] for keys of one storage.
fn scores_of<E: Element, M: Mac>(q: Rows, keys: &[E::Unit], at: usize, scores: &mut [Scores]) {
    let width = q.width * E::UNITS;
    for (c, scores) in scores.iter_mut().enumerate() {
        let rows = keys.chunks_exact(width);
        let mut fours = scores[at..at + rows.len()].chunks_exact_mut(4);
        let mut keys = keys.chunks_exact(4 * width);
        for (four, keys) in (&mut fours).zip(&mut keys) {
            let row = |i: usize| &keys[i * width..(i + 1) * width];
            four.copy_from_slice(&tiles::rows_by_input::<E, M>(core::array::from_fn(row), q.row(c)));
        }
        let rest = keys.remainder().chunks_exact(width);
        for (score, key) in fours.into_remainder().iter_mut().zip(rest) {
            *score = tiles::dot::<E, M>(key, q.row(c));
        }
    }
}

/// [`Set::accumulate`] for values of one storage.
fn accumulate_of<E: Element, M: Mac>(p: &[Scores], at: usize, values: &[E::Unit], y: &mut Band) {
    for (c, p) in p.iter().enumerate() {
        let y = y.row(c);
        for (&p, values) in p[at..].iter().zip(values.chunks_exact(y.len() * E::UNITS)) {
            for (y, v) in y.iter_mut().zip(values.chunks_exact(E::UNITS)) {
                *y = M::mac(p, E::read(v), *y);
            }
        }
    }
}

/// The fixed tree over the lanes of a dot product.
#[inline(always)]
pub(super) fn reduce(l: &[f32; 8]) -> f32 {
    ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

/// Four weight rows at a time, and for each four inputs, which share the decoding of the row.
fn linear_of<E: Element<Unit = u8>, M: Mac>(job: &Linear, band: &mut Band) {
    let stride = job.weights().stride();
    let n = band.height();
    let (start, width) = (band.start(), band.width());
    let row = |r: usize| &job.weights().bytes()[(start + r) * stride..(start + r + 1) * stride];
    let input = |i: usize| job.inputs(i, 1);
    let finish = |r: usize, dot: f32, y: &mut f32| job.finish(job.bias(start + r), dot, y);
    let shared = n - n % 4;
    for r0 in (0..width).step_by(4) {
        let rows = r0..(r0 + 4).min(width);
        for i in (0..shared).step_by(4) {
            let inputs = core::array::from_fn(|c| input(i + c));
            for r in rows.clone() {
                let dots = tiles::row_by_inputs::<E, M>(row(r), inputs);
                for (c, dot) in dots.into_iter().enumerate() {
                    finish(r, dot, &mut band.row(i + c)[r]);
                }
            }
        }
        for i in shared..n {
            if rows.len() == 4 {
                let dots = tiles::rows_by_input::<E, M>(core::array::from_fn(|r| row(r0 + r)), input(i));
                for (r, dot) in rows.clone().zip(dots) {
                    finish(r, dot, &mut band.row(i)[r]);
                }
            } else {
                for r in rows.clone() {
                    finish(r, tiles::dot::<E, M>(row(r), input(i)), &mut band.row(i)[r]);
                }
            }
        }
    }
}
