//! AVX2 with FMA and F16C: one register holds the 8 lanes of a dot product.
//!
//! A tile of `R` weight rows and `C` inputs keeps `R * C` sums in registers. Weights are decoded on their way in. The
//! inner dimension is cut into blocks that stay in the first-level cache while a panel of rows passes over a group of
//! inputs; between blocks the lanes wait in memory, so the order of sums is as if there were none.

// Arithmetic intrinsics without pointers became safe to call after the oldest supported compiler.
#![allow(unused_unsafe)]
// One index runs over several arrays of registers at once.
#![allow(clippy::needless_range_loop)]

use core::arch::x86_64::*;

use super::super::dispatch::{Class, Table};
use super::super::linear::Linear;
use super::super::matrix::{Bf16, Element, F16, F32, Native, with_storage};
use super::super::split::Band;

/// The kernels of this set.
pub(in super::super) static TABLE: Table = Table {
    name: "avx2+fma",
    class: Class::Fused,
    linear,
    dots,
    accumulate,
};

/// Weight rows of a panel.
const ROWS: usize = 16;
/// Inputs of a group.
const INPUTS: usize = 24;
/// Elements of a block along the inner dimension, a multiple of 8.
const BLOCK: usize = 640;

/// The lanes of a panel's dot products.
type PanelLanes = [[__m256; INPUTS]; ROWS];

/// Decoding into a register.
trait Load: Element {
    /// 8 elements.
    ///
    /// # Safety
    /// `8 * UNITS` units can be read at `units`, aligned as a unit; the machine has AVX2 and F16C.
    unsafe fn load8(units: *const Self::Unit) -> __m256;
}

impl Load for Bf16 {
    #[inline(always)]
    unsafe fn load8(units: *const u8) -> __m256 {
        // SAFETY: 16 bytes can be read; the load is unaligned.
        unsafe {
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(
                units.cast(),
            ))))
        }
    }
}

impl Load for F16 {
    #[inline(always)]
    unsafe fn load8(units: *const u8) -> __m256 {
        // SAFETY: 16 bytes can be read; the load is unaligned.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(units.cast())) }
    }
}

impl Load for F32 {
    #[inline(always)]
    unsafe fn load8(units: *const u8) -> __m256 {
        // SAFETY: 32 bytes can be read; the load is unaligned.
        unsafe { _mm256_loadu_ps(units.cast()) }
    }
}

impl Load for Native {
    #[inline(always)]
    unsafe fn load8(units: *const f32) -> __m256 {
        // SAFETY: 8 values can be read; the load is unaligned.
        unsafe { _mm256_loadu_ps(units) }
    }
}

/// The first `count` lanes, as a mask of all ones.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn first_lanes(count: usize) -> __m256i {
    // SAFETY: no memory is touched.
    unsafe {
        let index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), index)
    }
}

/// The canonical tree: `((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7))`.
///
/// # Safety
/// The machine has AVX.
#[inline(always)]
unsafe fn reduce(lanes: __m256) -> f32 {
    // SAFETY: no memory is touched.
    unsafe {
        let four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

/// Adds the products of `R` rows (`stride` units apart) and `C` inputs (`x_stride` values apart) along `count`
/// elements to their lanes.
///
/// # Safety
/// `count` elements can be read of each row from `w + r * stride` and of each input from `x + c * x_stride`; the
/// machine has AVX2, FMA and F16C.
#[inline(always)]
unsafe fn tile<E: Load, const R: usize, const C: usize>(
    w: *const E::Unit,
    stride: usize,
    x: *const f32,
    x_stride: usize,
    count: usize,
    lanes: &mut [[__m256; C]; R],
) {
    let whole = count - count % 8;
    let mut sums = *lanes;
    for k in (0..whole).step_by(8) {
        // SAFETY: `k + 8 <= count`.
        unsafe {
            let mut xs = [_mm256_setzero_ps(); C];
            for c in 0..C {
                xs[c] = _mm256_loadu_ps(x.add(c * x_stride + k));
            }
            for r in 0..R {
                let w = E::load8(w.add(r * stride + k * E::UNITS));
                for c in 0..C {
                    sums[r][c] = _mm256_fmadd_ps(w, xs[c], sums[r][c]);
                }
            }
        }
    }
    if whole < count {
        let tail = count - whole;
        for r in 0..R {
            // SAFETY: `tail` elements remain of the row, and are decoded one by one into 8 places; of the inputs the
            // mask lets through only as many. Lanes outside the mask keep their sums.
            unsafe {
                let units = core::slice::from_raw_parts(w.add(r * stride + whole * E::UNITS), tail * E::UNITS);
                let mut values = [0.0f32; 8];
                for (value, units) in values.iter_mut().zip(units.chunks_exact(E::UNITS)) {
                    *value = E::read(units);
                }
                let w = _mm256_loadu_ps(values.as_ptr());
                let mask = first_lanes(tail);
                for c in 0..C {
                    let x = _mm256_maskload_ps(x.add(c * x_stride + whole), mask);
                    let sum = _mm256_fmadd_ps(w, x, sums[r][c]);
                    sums[r][c] = _mm256_blendv_ps(sums[r][c], sum, _mm256_castsi256_ps(mask));
                }
            }
        }
    }
    *lanes = sums;
}

/// [`Table::linear`](super::super::dispatch::Table).
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn linear(job: &Linear, band: &mut Band) {
    // SAFETY: the caller vouches for the instruction set.
    with_storage!(job.weights().storage(), E => unsafe { linear_of::<E>(job, band) });
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn linear_of<E: Load<Unit = u8>>(job: &Linear, band: &mut Band) {
    let n = band.height();
    for row in (0..band.width()).step_by(ROWS) {
        let rows = ROWS.min(band.width() - row);
        for input in (0..n).step_by(INPUTS) {
            let inputs = INPUTS.min(n - input);
            // SAFETY: the caller vouches for the instruction set.
            unsafe { panel::<E>(job, band, row, rows, input, inputs) }
        }
    }
}

/// The outputs of `rows` (at most `ROWS`) rows of the band from `row` for `inputs` (at most `INPUTS`) inputs from
/// `input`.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn panel<E: Load<Unit = u8>>(
    job: &Linear,
    band: &mut Band,
    row: usize,
    rows: usize,
    input: usize,
    inputs: usize,
) {
    let weights = job.weights();
    let (cols, stride) = (weights.cols(), weights.stride());
    let first = band.start() + row;
    let w = &weights.bytes()[first * stride..(first + rows) * stride];
    let x = job.inputs(input, inputs);
    // SAFETY: no memory is touched.
    let mut lanes: PanelLanes = [[unsafe { _mm256_setzero_ps() }; INPUTS]; ROWS];
    // A single input leaves nothing to keep in a cache: whole rows read memory in longer runs.
    let block = if inputs == 1 { cols.max(1) } else { BLOCK };
    for k in (0..cols).step_by(block) {
        let count = block.min(cols - k);
        let mut r = 0;
        // SAFETY: rows `r..` of `w` and inputs of `x` are in bounds by the slices above and the counts in `strip`,
        // and so are elements `k..k + count` of each; the caller vouches for the instruction set.
        unsafe {
            let (w, x) = (w.as_ptr().add(k * E::UNITS), x.as_ptr().add(k));
            while inputs == 1 && rows - r >= 8 {
                strip::<E, 8, 1>(w, stride, x, cols, count, r, inputs, &mut lanes);
                r += 8;
            }
            while rows - r >= 4 {
                strip::<E, 4, 3>(w, stride, x, cols, count, r, inputs, &mut lanes);
                r += 4;
            }
            while r < rows {
                strip::<E, 1, 3>(w, stride, x, cols, count, r, inputs, &mut lanes);
                r += 1;
            }
        }
    }
    for c in 0..inputs {
        let y = &mut band.row(input + c)[row..row + rows];
        for (r, y) in y.iter_mut().enumerate() {
            // SAFETY: no memory is touched; the caller vouches for the instruction set.
            let dot = unsafe { reduce(lanes[r][c]) };
            job.finish(first + r, dot, y);
        }
    }
}

/// `R` rows of a panel from row `r`, by all its inputs, `C` at a time.
///
/// # Safety
/// As for [`tile`], for rows `r..r + R` and all `inputs`.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn strip<E: Load<Unit = u8>, const R: usize, const C: usize>(
    w: *const u8,
    stride: usize,
    x: *const f32,
    x_stride: usize,
    count: usize,
    r: usize,
    inputs: usize,
    lanes: &mut PanelLanes,
) {
    let mut c = 0;
    // SAFETY: rows `r..r + R` and inputs `c..c + C` exist, by the caller and by the conditions of the loops.
    unsafe {
        let w = w.add(r * stride);
        while inputs - c >= C {
            part::<E, R, C>(w, stride, x.add(c * x_stride), x_stride, count, r, c, lanes);
            c += C;
        }
        if C > 2 && inputs - c == 2 {
            part::<E, R, 2>(w, stride, x.add(c * x_stride), x_stride, count, r, c, lanes);
        } else if C > 1 && inputs - c == 1 {
            part::<E, R, 1>(w, stride, x.add(c * x_stride), x_stride, count, r, c, lanes);
        }
    }
}

/// One tile with its lanes taken from the panel's and put back.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn part<E: Load<Unit = u8>, const R: usize, const C: usize>(
    w: *const u8,
    stride: usize,
    x: *const f32,
    x_stride: usize,
    count: usize,
    r: usize,
    c: usize,
    lanes: &mut PanelLanes,
) {
    let mut sums: [[__m256; C]; R] = core::array::from_fn(|i| core::array::from_fn(|j| lanes[r + i][c + j]));
    // SAFETY: by the caller.
    unsafe { tile::<E, R, C>(w, stride, x, x_stride, count, &mut sums) };
    for i in 0..R {
        lanes[r + i][c..c + C].copy_from_slice(&sums[i]);
    }
}

/// [`Table::dots`](super::super::dispatch::Table).
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn dots(x: &[f32], rows: &[f32], out: &mut [f32]) {
    let dim = x.len();
    let rows = &rows[..out.len() * dim];
    let mut j = 0;
    // SAFETY: rows `j..j + 4`, or row `j`, are within `out.len()` rows of `dim` values, which `rows` has; the caller
    // vouches for the instruction set.
    unsafe {
        let zero = _mm256_setzero_ps();
        while out.len() - j >= 4 {
            let mut lanes = [[zero]; 4];
            tile::<Native, 4, 1>(rows.as_ptr().add(j * dim), dim, x.as_ptr(), 0, dim, &mut lanes);
            for (out, lanes) in out[j..j + 4].iter_mut().zip(lanes) {
                *out = reduce(lanes[0]);
            }
            j += 4;
        }
        while j < out.len() {
            let mut lanes = [[zero]];
            tile::<Native, 1, 1>(rows.as_ptr().add(j * dim), dim, x.as_ptr(), 0, dim, &mut lanes);
            out[j] = reduce(lanes[0][0]);
            j += 1;
        }
    }
}

/// [`Table::accumulate`](super::super::dispatch::Table): some registers of outputs stay while all rows pass.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn accumulate(p: &[f32], rows: &[f32], out: &mut [f32]) {
    let dim = out.len();
    let rows = &rows[..p.len() * dim];
    let mut d = 0;
    // SAFETY: outputs `d..d + 64` or `d..d + 8` exist, and so do as many values at `d` of each of the `p.len()` rows;
    // the caller vouches for the instruction set.
    unsafe {
        while dim - d >= 64 {
            accumulate_registers::<8>(p, rows.as_ptr().add(d), dim, out.as_mut_ptr().add(d));
            d += 64;
        }
        while dim - d >= 8 {
            accumulate_registers::<1>(p, rows.as_ptr().add(d), dim, out.as_mut_ptr().add(d));
            d += 8;
        }
    }
    if d < dim {
        // SAFETY: the mask lets through the `dim - d` outputs and values that remain, and masked loads and stores
        // touch no other memory; the caller vouches for the instruction set.
        unsafe {
            let mask = first_lanes(dim - d);
            let at = out.as_mut_ptr().add(d);
            let mut sum = _mm256_maskload_ps(at, mask);
            for (j, p) in p.iter().enumerate() {
                let v = _mm256_maskload_ps(rows.as_ptr().add(j * dim + d), mask);
                sum = _mm256_fmadd_ps(_mm256_set1_ps(*p), v, sum);
            }
            _mm256_maskstore_ps(at, mask, sum);
        }
    }
}

/// `8 * R` outputs.
///
/// # Safety
/// `8 * R` values can be read at `rows + j * stride` for every `j < p.len()`, and read and written at `out`; the
/// machine has AVX2 and FMA.
#[inline(always)]
unsafe fn accumulate_registers<const R: usize>(p: &[f32], rows: *const f32, stride: usize, out: *mut f32) {
    // SAFETY: by the caller.
    unsafe {
        let mut sums = [_mm256_setzero_ps(); R];
        for (r, sum) in sums.iter_mut().enumerate() {
            *sum = _mm256_loadu_ps(out.add(8 * r));
        }
        for (j, p) in p.iter().enumerate() {
            let p = _mm256_set1_ps(*p);
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum = _mm256_fmadd_ps(p, _mm256_loadu_ps(rows.add(j * stride + 8 * r)), *sum);
            }
        }
        for (r, sum) in sums.iter().enumerate() {
            _mm256_storeu_ps(out.add(8 * r), *sum);
        }
    }
}
