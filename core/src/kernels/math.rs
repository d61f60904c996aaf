//! exp and erf of core's own: equal bits on every instruction set, since they only multiply, add and choose.
//!
//! The formulae are generic over what they compute with: one f32, or vectors side by side. They have no branches and
//! no tables. The coefficients are minimax fits by Remez's algorithm, in f64 and rounded to f32.

/// Below this exp is less than half of the smallest f32, hence 0.
const LOWEST: f32 = -105.0;
/// Above this exp is more than the largest f32, hence infinite.
const HIGHEST: f32 = 89.0;
/// 1.5 * 2^23: a number of small size that is added to it is rounded to an integer.
const ROUND: f32 = 12_582_912.0;
/// Its bits: those of `ROUND + n` less these are n.
pub(super) const ROUND_BITS: i32 = ROUND.to_bits() as i32;
/// What an f32 adds to its exponent.
pub(super) const BIAS: i32 = 127;
/// Bits of an f32 below its exponent.
pub(super) const MANTISSA: i32 = 23;
/// ln 2 in two parts. The upper one has 16 bits, so that its product with an exponent is exact.
const LN_2_HIGH: f32 = 0.693_145_75;
const LN_2_LOW: f32 = 1.428_606_8e-6;

/// One f32, or several, of which every operation takes each.
///
/// # Safety
/// The methods are unsafe because a vector's machine has to have its instruction set; f32 asks for nothing.
pub(super) trait Number: Copy {
    unsafe fn splat(value: f32) -> Self;
    unsafe fn add(self, b: Self) -> Self;
    unsafe fn sub(self, b: Self) -> Self;
    unsafe fn mul(self, b: Self) -> Self;
    unsafe fn div(self, b: Self) -> Self;
    unsafe fn abs(self) -> Self;
    /// `low` where it is more; a NaN stays.
    unsafe fn at_least(self, low: f32) -> Self;
    /// `high` where it is less; a NaN stays.
    unsafe fn at_most(self, high: f32) -> Self;
    /// `negative` where this is below 0, else `otherwise`.
    unsafe fn if_negative(self, negative: Self, otherwise: Self) -> Self;
    /// `self * 2^n` for `-152 < n < 129`, of which `shifted` is [`ROUND`]` + n`, in two factors: n goes beyond the
    /// exponents of one f32. First comes `2^(n >> 1)`, then the rest.
    unsafe fn times_two_to(self, shifted: Self) -> Self;
}

impl Number for f32 {
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        value
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        self + b
    }
    #[inline(always)]
    unsafe fn sub(self, b: Self) -> Self {
        self - b
    }
    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        self * b
    }
    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        self / b
    }
    #[inline(always)]
    unsafe fn abs(self) -> Self {
        self.abs()
    }
    #[inline(always)]
    unsafe fn at_least(self, low: f32) -> Self {
        if self < low { low } else { self }
    }
    #[inline(always)]
    unsafe fn at_most(self, high: f32) -> Self {
        if self > high { high } else { self }
    }
    #[inline(always)]
    unsafe fn if_negative(self, negative: Self, otherwise: Self) -> Self {
        if self < 0.0 { negative } else { otherwise }
    }
    #[inline(always)]
    unsafe fn times_two_to(self, shifted: Self) -> Self {
        let two_to = |n: i32| f32::from_bits((n.wrapping_add(BIAS) as u32) << MANTISSA);
        let n = (shifted.to_bits() as i32).wrapping_sub(ROUND_BITS);
        let half = n >> 1;
        self * two_to(half) * two_to(n.wrapping_sub(half))
    }
}

/// `a + b t`.
#[inline(always)]
unsafe fn horner<N: Number>(a: f32, b: N, t: N) -> N {
    // SAFETY: by the caller.
    unsafe { b.mul(t).add(N::splat(a)) }
}

/// e^x, at most 1.5 units in the last place from the exact value; subnormal results at most one more of theirs.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // SAFETY: f32 needs no instruction set.
    unsafe { exp_of(x) }
}

/// [`exp`] of any numbers.
///
/// `x = n ln 2 + r` with `|r| <= ln 2 / 2`, and `e^x = 2^n (1 + r + r^2 q(r))`.
///
/// # Safety
/// As for [`Number`].
#[inline(always)]
pub(super) unsafe fn exp_of<N: Number>(x: N) -> N {
    // SAFETY: by the caller.
    unsafe {
        let x = x.at_least(LOWEST).at_most(HIGHEST);
        let shifted = horner(ROUND, x, N::splat(core::f32::consts::LOG2_E));
        let n = shifted.sub(N::splat(ROUND));
        let r = x.sub(n.mul(N::splat(LN_2_HIGH))).sub(n.mul(N::splat(LN_2_LOW)));
        let q = N::splat(1.381_456e-3);
        let q = horner(8.368_735e-3, q, r);
        let q = horner(4.166_839e-2, q, r);
        let q = horner(1.666_652e-1, q, r);
        let q = horner(4.999_999_3e-1, q, r);
        let p = N::splat(1.0).add(r.add(r.mul(r).mul(q)));
        p.times_two_to(shifted)
    }
}

/// erfc(z) = 1 - erf(z) for `z >= 0`, to a relative error of at most 5e-7 up to z = 1 and 2e-5 up to z = 9.
///
/// `erfc(z) = exp(-z^2) t q(t)` with `t = 1 / (1 + 0.3 z)`; what exp and t leave over is smooth.
///
/// # Safety
/// As for [`Number`].
#[inline(always)]
unsafe fn erfc<N: Number>(z: N) -> N {
    // SAFETY: by the caller.
    unsafe {
        let t = N::splat(1.0).div(horner(1.0, z, N::splat(0.3)));
        let q = N::splat(-1.295_407_3e-1);
        let q = horner(4.856_568_5e-1, q, t);
        let q = horner(-5.124_889_5e-1, q, t);
        let q = horner(5.479_855e-1, q, t);
        let q = horner(-9.485_48e-2, q, t);
        let q = horner(2.150_239_8e-1, q, t);
        let q = horner(1.483_105_8e-1, q, t);
        let q = horner(1.707_198_7e-1, q, t);
        let q = horner(1.691_877e-1, q, t);
        exp_of(z.mul(z).mul(N::splat(-1.0))).mul(t.mul(q))
    }
}

/// `x / 2 (1 + erf(x / sqrt 2))`, to an absolute error of at most 2e-7 (1 + |x|).
///
/// # Safety
/// As for [`Number`].
#[inline(always)]
pub(super) unsafe fn gelu<N: Number>(x: N) -> N {
    // SAFETY: by the caller.
    unsafe {
        let tail = erfc(x.abs().mul(N::splat(core::f32::consts::FRAC_1_SQRT_2)));
        let twice_cdf = x.if_negative(tail, N::splat(2.0).sub(tail));
        N::splat(0.5).mul(x).mul(twice_cdf)
    }
}

/// `x / (1 + exp(-x))`.
///
/// # Safety
/// As for [`Number`].
#[inline(always)]
pub(super) unsafe fn silu<N: Number>(x: N) -> N {
    // SAFETY: by the caller.
    unsafe { x.div(N::splat(1.0).add(exp_of(x.mul(N::splat(-1.0))))) }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    fn gelu(x: f32) -> f32 {
        // SAFETY: f32 needs no instruction set.
        unsafe { super::gelu(x) }
    }

    fn silu(x: f32) -> f32 {
        // SAFETY: as above.
        unsafe { super::silu(x) }
    }

    fn erfc(z: f32) -> f32 {
        // SAFETY: as above.
        unsafe { super::erfc(z) }
    }

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
