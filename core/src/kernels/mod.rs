//! The operations that cost time, over [`Matrix`] views of weights and slices of activations.
//!
//! # Canonical order
//!
//! Every result has one defined order of roundings, so it has equal bits for every batch size, chunk, partition of
//! rows and number of threads, and on every instruction set of one [`Class`]. Every set has to keep this order; the
//! scalar kernels ([`Kernels::scalar`]) are its definition in code and the oracle that the others are tested against.
//!
//! * **Dot product.** Eight virtual lanes start at +0. Lane `l` takes the elements `k % 8 == l` in rising order, each
//!   by one multiply-accumulate of the class: `fma(a, b, lane)` or `lane + a * b`. A lane without an element in the
//!   tail keeps its value. Then `((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7))`.
//! * **Linear.** `y = dot`, or `y = dot + b`; onto a residual stream `y = y + (dot + b)`.
//! * **Linear with weights in blocks** ([`Storage::Q8`], [`Storage::Q4`]). Always with activations of 8 bits, whatever the
//!   set: the storage decides, so that bits agree. Weights and activations have groups of 256 columns and blocks of at
//!   most 32, and a scale for each block; block `l` of a group has the columns `k` with `(k / 4) % 8 == l`. Lane `l` takes
//!   block `l` of each group in rising order: the sum of the products of levels, which is an exact integer, times
//!   `weight scale * activation scale` (rounded once), by one multiply-accumulate of the class. Then the tree of the dot
//!   product. Rows of embeddings ([`Ops::add_row`]) are decoded exactly. Rounding activations to 8 bits is a relative rms
//!   error of about half a percent of the input (half a 127th of the largest of 32 at most), as much as 8 bits cost the
//!   weights, and a tenth of what 4 bits do; behind the small model's encoder and adapter it is 0.6 %.
//! * **RMSNorm.** `r = 1 / sqrt(dot(x, x) / dim + eps)`, `y = (x * r) * w`, all in f32.
//! * **Attention.** See [`Ops::attention`].
//! * **Everything else** is element by element: multiply and add are never fused there, so both classes agree.
//!
//! exp and erf are core's own, the same on every set; see [`exp`].
//!
//! # Stack
//!
//! The scalar kernels need a few KiB of stack on every thread, those for vectors (AVX2, NEON) up to 96 KiB.
//!
//! # Misuse
//!
//! Shapes that disagree are a mistake of the caller: `debug_assert!` stops there, and without debug assertions the
//! operation leaves its output as it was. Nothing is ever read or written out of bounds.

/// Stops an operation whose arguments disagree: loudly with debug assertions, else with the output untouched.
macro_rules! require {
    ($condition:expr, $what:literal) => {
        let holds = $condition;
        debug_assert!(holds, $what);
        if !holds {
            return;
        }
    };
}

#[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
mod aarch64;
mod activations;
mod argmax;
mod attention;
mod blocks;
mod dispatch;
mod encode;
mod executor;
mod linear;
mod math;
mod matrix;
mod ops;
mod ring;
mod scalar;
mod set;
mod split;
#[cfg(any(
    all(target_arch = "x86_64", target_feature = "sse2"),
    all(target_arch = "aarch64", target_endian = "little", target_feature = "neon")
))]
mod vector;
// Targets for x86-64 kernels and firmware use soft floats and no vector registers; they get the scalar kernels.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod x86;

pub use activations::activations_len;
pub use attention::Heads;
pub use dispatch::{Class, InstructionSet, Kernels};
pub use encode::{EncodeError, encode_row};
pub use executor::{Executor, Serial};
pub use math::exp;
pub use matrix::{Matrix, Storage};
pub use ops::Ops;
pub(crate) use ring::bytes_mut;
pub use ring::{CacheType, Ring};
