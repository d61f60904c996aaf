use super::super::linear::Linear;
use super::super::matrix::with_storage;
use super::super::scalar::{Fused, blocks};
use super::super::split::Band;
use super::Vector;
#[inline(always)]
pub(super) unsafe fn linear<V: Vector>(job: &Linear, band: &mut Band) {
    with_storage!(job.weights().storage(), E => core::mem::size_of::<E>(), L => {blocks::linear::<L, Fused>(job, band); 0});
}
