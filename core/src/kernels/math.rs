//! exp and erf of core's own: equal bits on every instruction set, since they only multiply, add and choose.
//!
//! They have no branches and no tables, so that compilers turn a loop over them into vectors. The coefficients are
//! minimax fits by Remez's algorithm, in f64 and rounded to f32.

/// Below this exp is less than half of the smallest f32, hence 0.
const LOWEST: f32 = -105.0;
/// Above this exp is more than the largest f32, hence infinite.
const HIGHEST: f32 = 89.0;
/// 1.5 * 2^23: a number of small size that is added to it is rounded to an integer.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts. The upper one has 16 bits, so that its product with an exponent is exact.
const LN_2_HIGH: f32 = 0.693_145_75;
const LN_2_LOW: f32 = 1.428_606_8e-6;

/// e^x, at most 1.5 units in the last place from the exact value; subnormal results at most one more of theirs.
///
/// `x = n ln 2 + r` with `|r| <= ln 2 / 2`, and `e^x = 2^n (1 + r + r^2 q(r))`.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // A NaN is neither below nor above, and stays.
    let x = if x < LOWEST { LOWEST } else { x };
    let x = if x > HIGHEST { HIGHEST } else { x };
    let shifted = x * core::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let q = 1.381_456e-3;
    let q = q * r + 8.368_735e-3;
    let q = q * r + 4.166_839e-2;
    let q = q * r + 1.666_652e-1;
    let q = q * r + 4.999_999_3e-1;
    let p = 1.0 + (r + r * r * q);
    // 2^n in two factors: n goes from -151 to 128, beyond the exponents of one f32.
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let half = n >> 1;
    p * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// 2^n for `-127 < n < 128`.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// erfc(z) = 1 - erf(z) for `z >= 0`, to a relative error of at most 5e-7 up to z = 1 and 2e-5 up to z = 9.
///
/// `erfc(z) = exp(-z^2) t q(t)` with `t = 1 / (1 + 0.3 z)`; what exp and t leave over is smooth.
#[inline(always)]
fn erfc(z: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.3 * z);
    let q = -1.295_407_3e-1;
    let q = q * t + 4.856_568_5e-1;
    let q = q * t - 5.124_889_5e-1;
    let q = q * t + 5.479_855e-1;
    let q = q * t - 9.485_48e-2;
    let q = q * t + 2.150_239_8e-1;
    let q = q * t + 1.483_105_8e-1;
    let q = q * t + 1.707_198_7e-1;
    let q = q * t + 1.691_877e-1;
    exp(-(z * z)) * (t * q)
}

/// `x / 2 (1 + erf(x / sqrt 2))`, to an absolute error of at most 2e-7 (1 + |x|).
#[inline(always)]
pub(super) fn gelu(x: f32) -> f32 {
    let tail = erfc(x.abs() * core::f32::consts::FRAC_1_SQRT_2);
    let twice_cdf = if x < 0.0 { tail } else { 2.0 - tail };
    0.5 * x * twice_cdf
}

/// `x / (1 + exp(-x))`.
#[inline(always)]
pub(super) fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    /// Every `step`-th f32 from `low` to `high`, which have one sign.
    fn between(low: f32, high: f32, step: usize) -> impl Iterator<Item = f32> {
        let (a, b) = (low.to_bits(), high.to_bits());
        (a.min(b)..=a.max(b)).step_by(step).map(f32::from_bits)
    }

    #[test]
    fn exp_keeps_its_bound() {
        let values = between(0.0, 88.8, 997).chain(between(-0.0, -104.5, 997));
        let mut worst = 0.0f64;
        for x in values.chain([1.0, -1.0, 88.722_83, -87.33, -103.97]) {
            let exact = libm::exp(f64::from(x));
            if exact > f64::from(f32::MAX) {
                assert!(exp(x) >= f32::MAX, "{x}");
                continue;
            }
            let unit = (exact.max(f64::from(f32::MIN_POSITIVE)) as f32).to_bits() & 0x7f80_0000;
            let unit = f64::from(f32::from_bits(unit)) * 2f64.powi(-23);
            worst = worst.max((f64::from(exp(x)) - exact).abs() / unit);
        }
        assert!(worst <= 1.5, "{worst}");
        assert!(worst > 0.4, "an f32 cannot be so exact: {worst}");
    }

    #[test]
    fn exp_at_its_ends() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        for x in [-105.0, -1e10, f32::MIN, f32::NEG_INFINITY] {
            assert_eq!(exp(x).to_bits(), 0, "{x}");
        }
        for x in [88.73, 89.0, 1e10, f32::INFINITY] {
            assert_eq!(exp(x), f32::INFINITY, "{x}");
        }
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(-f32::NAN).is_nan());
        assert!(gelu(f32::NAN).is_nan() && silu(f32::NAN).is_nan());
    }

    #[test]
    fn gelu_and_erfc_keep_their_bounds() {
        let (mut worst_gelu, mut worst_near, mut worst_far) = (0.0f64, 0.0f64, 0.0f64);
        for x in between(0.0, 40.0, 1009).chain(between(-0.0, -40.0, 1009)) {
            let v = f64::from(x);
            let exact = v / 2.0 * libm::erfc(-v / 2f64.sqrt());
            worst_gelu = worst_gelu.max((f64::from(gelu(x)) - exact).abs() / (1.0 + v.abs()));
            if (0.0..=9.0).contains(&x) {
                let worst = if x <= 1.0 { &mut worst_near } else { &mut worst_far };
                *worst = worst.max((f64::from(erfc(x)) / libm::erfc(v) - 1.0).abs());
            }
        }
        assert!(worst_gelu <= 2e-7, "{worst_gelu}");
        assert!(worst_near <= 5e-7, "{worst_near}");
        assert!(worst_far <= 2e-5, "{worst_far}");
        assert_eq!(gelu(f32::INFINITY), f32::INFINITY);
        assert_eq!(gelu(-0.0).to_bits(), (-0.0f32).to_bits());
    }
}
