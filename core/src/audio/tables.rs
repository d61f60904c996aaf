//! The constants of the transform, computed in double precision at compile time and stored in single.
//!
//! About 6.5 KiB of read-only data: a window, two sets of twiddle factors and the mel filters without their zeros.
//! The functions here are private and only called to initialise statics.

use core::f64::consts::{FRAC_1_SQRT_2, LN_2, LN_10, PI};

use super::dft::{BINS, Complex, HALF};
use super::mel::{MEL_BINS, SAMPLE_RATE, WINDOW};

/// Half a periodic Hann window, 0.25 - 0.25 cos(2 pi n / 400).
///
/// The half is the one in "half the sum, half the difference" that separates the spectra of even and odd samples;
/// as a power of two it may stand here without changing a bit of the result.
pub(super) static HALF_HANN: [f32; WINDOW] = half_hann();

/// Twiddle factors between the first and the second pass: w^(p t) with w = exp(-2 pi i / 200), row p.
pub(super) static TWIDDLES_200: [[Complex; 5]; 40] = twiddles(200);

/// Twiddle factors between the second and the third pass: w^(p t) with w = exp(-2 pi i / 40), row p.
pub(super) static TWIDDLES_40: [[Complex; 5]; 8] = twiddles(40);

/// exp(-2 pi i k / 400) for k < 100, which joins the spectra of even and odd samples.
pub(super) static JOIN: [Complex; HALF / 2] = join();

/// cos and sin of a fifth of a turn and of two fifths.
pub(super) const COS_1_5: f32 = unit(1, 5).0 as f32;
pub(super) const SIN_1_5: f32 = unit(1, 5).1 as f32;
pub(super) const COS_2_5: f32 = unit(2, 5).0 as f32;
pub(super) const SIN_2_5: f32 = unit(2, 5).1 as f32;
/// cos and sin of an eighth of a turn.
pub(super) const COS_1_8: f32 = FRAC_1_SQRT_2 as f32;

/// Weights of the filter bank that are not zero.
const NON_ZERO: usize = 394;

/// The filter bank: 128 triangles, one after another, each without the zeros around it.
pub(super) struct Filters {
    /// Non-zero weights, filter after filter, by rising frequency.
    pub(super) weights: [f32; NON_ZERO],
    /// First bin and number of bins of every filter.
    pub(super) spans: [Span; MEL_BINS],
}

/// The bins under one filter.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) first: u8,
    pub(super) len: u8,
}

pub(super) static FILTERS: Filters = mel_filters();

const fn half_hann() -> [f32; WINDOW] {
    let mut table = [0.0; WINDOW];
    let mut n = 0;
    while n < WINDOW {
        table[n] = (0.25 - 0.25 * unit(n, WINDOW).0) as f32;
        n += 1;
    }
    table
}

const fn twiddles<const ROWS: usize>(turn: usize) -> [[Complex; 5]; ROWS] {
    let mut table = [[Complex::ZERO; 5]; ROWS];
    let mut p = 0;
    while p < ROWS {
        let mut t = 0;
        while t < 5 {
            table[p][t] = root(p * t, turn);
            t += 1;
        }
        p += 1;
    }
    table
}

const fn join() -> [Complex; HALF / 2] {
    let mut table = [Complex::ZERO; HALF / 2];
    let mut k = 0;
    while k < table.len() {
        table[k] = root(k, WINDOW);
        k += 1;
    }
    table
}

/// exp(-2 pi i j / n).
const fn root(j: usize, n: usize) -> Complex {
    let (cos, sin) = unit(j, n);
    Complex {
        re: cos as f32,
        im: -sin as f32,
    }
}

/// cos and sin of 2 pi j / n, to about 1e-16.
///
/// The angle is brought within an eighth of a turn of a multiple of a quarter turn while it is still a fraction of
/// integers, so the reduction is exact; there the Taylor series needs few terms.
const fn unit(j: usize, n: usize) -> (f64, f64) {
    let j = j % n;
    let quarter = (8 * j / n).div_ceil(2);
    let eighths = (4 * j) as f64 - (quarter * n) as f64;
    let x = PI * eighths / (2 * n) as f64;
    let (mut cos, mut sin) = (0.0, 0.0);
    let mut term = 1.0;
    let mut power = 0;
    while power < 24 {
        let sign = if power % 4 < 2 { 1.0 } else { -1.0 };
        if power % 2 == 0 {
            cos += sign * term;
        } else {
            sin += sign * term;
        }
        power += 1;
        term *= x / power as f64;
    }
    match quarter % 4 {
        0 => (cos, sin),
        1 => (-sin, cos),
        2 => (-cos, -sin),
        _ => (sin, -cos),
    }
}

/// e to the power x, for |x| up to some tens, to about 1e-15 of its value: x = n ln 2 + r, Taylor series for r.
const fn exp(x: f64) -> f64 {
    let n = (x / LN_2) as i32;
    let r = x - n as f64 * LN_2;
    let (mut sum, mut term) = (0.0, 1.0);
    let mut power = 0;
    while power < 24 {
        sum += term;
        power += 1;
        term *= r / power as f64;
    }
    let mut n = n;
    while n > 0 {
        sum *= 2.0;
        n -= 1;
    }
    while n < 0 {
        sum /= 2.0;
        n += 1;
    }
    sum
}

/// Frequency in Hz of edge `i` of 130: equally spaced on the Slaney mel scale from 0 to 8000 Hz.
///
/// The scale is linear with 200/3 Hz per mel up to 1000 Hz (mel 15), then logarithmic with 27 mels per factor 6.4.
const fn edge(i: usize) -> f64 {
    const LN_6_4: f64 = 6.0 * LN_2 - LN_10;
    const MEL_1K: f64 = 15.0;
    const MEL_8K: f64 = MEL_1K + 27.0 * (3.0 * LN_2) / LN_6_4;
    if i == MEL_BINS + 1 {
        return SAMPLE_RATE as f64 / 2.0;
    }
    let mel = MEL_8K * i as f64 / (MEL_BINS + 1) as f64;
    if mel < MEL_1K {
        mel * (200.0 / 3.0)
    } else {
        1000.0 * exp((mel - MEL_1K) * (LN_6_4 / 27.0))
    }
}

/// Triangle m rises from edge m to edge m + 1 and falls to edge m + 2; its area in Hz is 1.
const fn mel_filters() -> Filters {
    let mut filters = Filters {
        weights: [0.0; NON_ZERO],
        spans: [Span { first: 0, len: 0 }; MEL_BINS],
    };
    let mut used = 0;
    let mut mel = 0;
    while mel < MEL_BINS {
        let (left, centre, right) = (edge(mel), edge(mel + 1), edge(mel + 2));
        let mut bin = 0;
        while bin < BINS {
            let hz = (bin * SAMPLE_RATE) as f64 / WINDOW as f64;
            let rising = (hz - left) / (centre - left);
            let falling = (right - hz) / (right - centre);
            let height = if rising < falling { rising } else { falling };
            if height > 0.0 {
                if filters.spans[mel].len == 0 {
                    filters.spans[mel].first = bin as u8;
                }
                filters.spans[mel].len += 1;
                filters.weights[used] = (height * (2.0 / (right - left))) as f32;
                used += 1;
            }
            bin += 1;
        }
        mel += 1;
    }
    assert!(used == NON_ZERO);
    filters
}
