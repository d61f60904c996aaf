//! Dot products of a few weight rows with a few inputs, so that what one loads or decodes serves several.

use super::super::matrix::Element;
use super::{Mac, reduce};

type Lanes = [f32; 8];

/// `lanes[l] = mac(w[l], x[l], lanes[l])`.
#[inline(always)]
fn mac_lanes<M: Mac>(w: &Lanes, x: &Lanes, lanes: &mut Lanes) {
    for l in 0..8 {
        lanes[l] = M::mac(w[l], x[l], lanes[l]);
    }
}

/// The elements of a tail that fills no 8 lanes; the other lanes stay as they are.
#[inline(always)]
fn mac_tail<E: Element, M: Mac>(w: &[E::Unit], x: &[f32], lanes: &mut Lanes) {
    for ((lane, w), &x) in lanes.iter_mut().zip(w.chunks_exact(E::UNITS)).zip(x) {
        *lane = M::mac(E::read(w), x, *lane);
    }
}

/// The 8 values of a chunk that `chunks_exact(8)` made.
#[inline(always)]
fn eight(x: &[f32]) -> Lanes {
    core::array::from_fn(|l| x[l])
}

/// One row, one input.
pub(super) fn dot<E: Element, M: Mac>(w: &[E::Unit], x: &[f32]) -> f32 {
    let mut lanes = [0.0; 8];
    let (ws, xs) = (w.chunks_exact(8 * E::UNITS), x.chunks_exact(8));
    let tail = (ws.remainder(), xs.remainder());
    for (w, x) in ws.zip(xs) {
        mac_lanes::<M>(&E::read8(w), &eight(x), &mut lanes);
    }
    mac_tail::<E, M>(tail.0, tail.1, &mut lanes);
    reduce(&lanes)
}

/// One row, four inputs.
pub(super) fn row_by_inputs<E: Element, M: Mac>(w: &[E::Unit], x: [&[f32]; 4]) -> [f32; 4] {
    let mut lanes = [[0.0; 8]; 4];
    let ws = w.chunks_exact(8 * E::UNITS);
    let xs = x.map(|x| x.chunks_exact(8));
    let w_tail = ws.remainder();
    let x_tails = [
        xs[0].remainder(),
        xs[1].remainder(),
        xs[2].remainder(),
        xs[3].remainder(),
    ];
    let [x0, x1, x2, x3] = xs;
    for ((((w, x0), x1), x2), x3) in ws.zip(x0).zip(x1).zip(x2).zip(x3) {
        let w = E::read8(w);
        mac_lanes::<M>(&w, &eight(x0), &mut lanes[0]);
        mac_lanes::<M>(&w, &eight(x1), &mut lanes[1]);
        mac_lanes::<M>(&w, &eight(x2), &mut lanes[2]);
        mac_lanes::<M>(&w, &eight(x3), &mut lanes[3]);
    }
    for (lanes, x) in lanes.iter_mut().zip(x_tails) {
        mac_tail::<E, M>(w_tail, x, lanes);
    }
    lanes.map(|lanes| reduce(&lanes))
}

/// Four rows, one input: four sums side by side hide the time that each addition takes.
pub(super) fn rows_by_input<E: Element, M: Mac>(w: [&[E::Unit]; 4], x: &[f32]) -> [f32; 4] {
    let mut lanes = [[0.0; 8]; 4];
    let ws = w.map(|w| w.chunks_exact(8 * E::UNITS));
    let xs = x.chunks_exact(8);
    let w_tails = [
        ws[0].remainder(),
        ws[1].remainder(),
        ws[2].remainder(),
        ws[3].remainder(),
    ];
    let x_tail = xs.remainder();
    let [w0, w1, w2, w3] = ws;
    for ((((x, w0), w1), w2), w3) in xs.zip(w0).zip(w1).zip(w2).zip(w3) {
        let x = eight(x);
        mac_lanes::<M>(&E::read8(w0), &x, &mut lanes[0]);
        mac_lanes::<M>(&E::read8(w1), &x, &mut lanes[1]);
        mac_lanes::<M>(&E::read8(w2), &x, &mut lanes[2]);
        mac_lanes::<M>(&E::read8(w3), &x, &mut lanes[3]);
    }
    for (lanes, w) in lanes.iter_mut().zip(w_tails) {
        mac_tail::<E, M>(w, x_tail, lanes);
    }
    lanes.map(|lanes| reduce(&lanes))
}
