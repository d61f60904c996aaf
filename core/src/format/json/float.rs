//! A decimal number as the nearest `f64`, ties to even.
//!
//! The value is the same as that of `str::parse`, which has checks inside that can panic as far as a compiler sees.
//! Here few digits are two exact floats and one operation; any others are a fraction of two large integers, divided bit
//! by bit: slow, but for numbers that no model has.

/// Digits that are kept. No more than 767 can matter to where an `f64` is rounded; of the others it only counts
/// whether one is not 0.
const MOST_DIGITS: usize = 770;
/// Decimal points this far away are infinite, or 0, whatever the digits are.
const FURTHEST: i64 = 330;
/// Bits of 10 to the 1101, the largest power that is left by the bounds above, and 64 more.
const LIMBS: usize = 120;

/// The powers of ten that are exact in `f64`.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// The value of a number in JSON's grammar.
pub(super) fn parse(number: &[u8]) -> f64 {
    let (negative, number) = match number.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, number),
    };
    let magnitude = Decimal::read(number).value();
    if negative { -magnitude } else { magnitude }
}

/// Whether the value of a number in JSON's grammar fits; far faster than [`parse`] for nearly all that are close.
pub(super) fn is_finite(number: &[u8]) -> bool {
    /// The first digits of the least magnitude that is rounded up to infinity, 2^1024 - 2^970, which has 309.
    const LIMIT: u64 = 1_797_693_134_862_315_807;
    let decimal = Decimal::read(number.strip_prefix(b"-").unwrap_or(number));
    let mut leading = 0u64;
    for place in 0..19 {
        let digit = decimal.digits().get(place).copied().unwrap_or(0);
        leading = leading.saturating_mul(10).saturating_add(digit.into());
    }
    match decimal.point {
        _ if decimal.digits().is_empty() => true,
        ..309 => true,
        309 if leading < LIMIT => true,
        309 if leading == LIMIT => decimal.value().is_finite(),
        _ => false,
    }
}

/// 0.d1 d2 d3 ... times 10 to the `point`; d1 is not 0.
struct Decimal {
    digits: [u8; MOST_DIGITS],
    count: usize,
    point: i64,
}

impl Decimal {
    /// Reads digits, perhaps with a point among them, and perhaps an exponent.
    fn read(number: &[u8]) -> Self {
        let mut decimal = Self {
            digits: [0; MOST_DIGITS],
            count: 0,
            point: 0,
        };
        let (mut fraction, mut rest) = (false, number);
        while let Some((&byte, tail)) = rest.split_first() {
            match byte {
                b'0'..=b'9' => decimal.push(byte.wrapping_sub(b'0'), fraction),
                b'.' => fraction = true,
                _ => break,
            }
            rest = tail;
        }
        if let Some((b'e' | b'E', tail)) = rest.split_first() {
            let (sign, tail) = match tail.split_first() {
                Some((b'-', tail)) => (-1, tail),
                Some((b'+', tail)) => (1, tail),
                _ => (1, tail),
            };
            let mut exponent = 0i64;
            for byte in tail {
                exponent = exponent
                    .saturating_mul(10)
                    .saturating_add(byte.wrapping_sub(b'0').into());
            }
            decimal.point = decimal.point.saturating_add(exponent.saturating_mul(sign));
        }
        decimal
    }

    fn push(&mut self, digit: u8, fraction: bool) {
        if self.count == 0 && digit == 0 {
            // A zero in front moves the point, if it stands behind it.
            self.point = self.point.saturating_sub(fraction.into());
            return;
        }
        self.point = self.point.saturating_add((!fraction).into());
        if let Some(place) = self.digits.get_mut(self.count) {
            *place = digit;
            self.count = self.count.saturating_add(1);
        } else if let Some(last) = self.digits.last_mut() {
            // More than what stands there, however little: it must not look like a tie.
            *last |= u8::from(digit != 0);
        }
    }

    fn digits(&self) -> &[u8] {
        self.digits.get(..self.count).unwrap_or_default()
    }

    fn value(&self) -> f64 {
        if self.count == 0 || self.point < -FURTHEST {
            return 0.0;
        }
        if self.point > FURTHEST {
            return f64::INFINITY;
        }
        // The digits as an integer, times 10 to the `exponent`.
        let exponent = self.point.saturating_sub(self.count as i64);
        let power = POWERS.get(exponent.unsigned_abs() as usize);
        if let (Some(power), ..=15) = (power, self.count) {
            let integer = self
                .digits()
                .iter()
                .fold(0.0, |sum, &digit| sum * 10.0 + f64::from(digit));
            return if exponent < 0 { integer / power } else { integer * power };
        }
        let (mut above, mut below) = (Big::new(0), Big::new(1));
        for &digit in self.digits() {
            above.times_ten_plus(digit.into());
        }
        let scaled = if exponent < 0 { &mut below } else { &mut above };
        for _ in 0..exponent.unsigned_abs() {
            scaled.times_ten_plus(0);
        }
        quotient(above, below)
    }
}

/// The nearest `f64` to `above / below`; neither is 0.
fn quotient(mut above: Big, mut below: Big) -> f64 {
    // Shifted to as many bits as the other has, the quotient is from 1/2 to 2; it is 2^difference times that.
    let difference = i64::from(above.bits()).saturating_sub(below.bits().into());
    for _ in 0..difference.unsigned_abs() {
        if difference > 0 { below.double() } else { above.double() }
    }
    let mut bits = 0u64;
    for _ in 0..64 {
        bits <<= 1;
        if above.at_least(&below) {
            above.subtract(&below);
            bits |= 1;
        }
        above.double();
    }
    let inexact = !above.is_zero();

    // With the first bit at the top it is worth 2^exponent. The smallest f64 have fewer than 53 bits.
    let shift = bits.leading_zeros();
    let bits = bits << shift;
    let exponent = difference.saturating_sub(shift.into());
    let lost = 11i64.saturating_add((-1022i64).saturating_sub(exponent).max(0));
    let lost = u32::try_from(lost).unwrap_or(u32::MAX);
    let kept = bits.checked_shr(lost).unwrap_or(0);
    let half = 1u64.checked_shl(lost.saturating_sub(1)).unwrap_or(0);
    let rest = bits & half.wrapping_shl(1).wrapping_sub(1);
    let up = half != 0 && (rest > half || (rest == half && (inexact || kept & 1 == 1)));
    // Fields of the format: adding 1 to the largest fraction gives the next exponent, and in the end infinity.
    let biased = exponent.saturating_add(1022).clamp(0, 2046) as u64;
    if exponent > 1023 {
        return f64::INFINITY;
    }
    f64::from_bits((biased << 52).saturating_add(kept).saturating_add(up.into()))
}

/// A large integer, the lowest limb first.
struct Big {
    limbs: [u32; LIMBS],
    /// Limbs that may be other than 0.
    len: usize,
}

impl Big {
    fn new(value: u32) -> Self {
        let mut limbs = [0; LIMBS];
        if let Some(first) = limbs.first_mut() {
            *first = value;
        }
        Self { limbs, len: 1 }
    }

    fn used(&self) -> &[u32] {
        self.limbs.get(..self.len).unwrap_or_default()
    }

    fn bits(&self) -> u32 {
        let mut bits = 0;
        for (limb, index) in self.used().iter().zip(0u32..) {
            if *limb != 0 {
                bits = index
                    .saturating_mul(32)
                    .saturating_add(32u32.saturating_sub(limb.leading_zeros()));
            }
        }
        bits
    }

    fn is_zero(&self) -> bool {
        self.used().iter().all(|limb| *limb == 0)
    }

    /// `self * factor + more`; what does not fit, which nothing here leads to, is lost.
    fn multiply_add(&mut self, factor: u32, more: u32) {
        let mut carry = u64::from(more);
        for limb in self.limbs.iter_mut().take(self.len) {
            // At most (2^32 - 1)^2 + 2^32 - 1.
            carry = u64::from(*limb).wrapping_mul(factor.into()).wrapping_add(carry);
            *limb = carry as u32;
            carry >>= 32;
        }
        if let (Some(limb), 1..) = (self.limbs.get_mut(self.len), carry) {
            *limb = carry as u32;
            self.len = self.len.saturating_add(1);
        }
    }

    fn times_ten_plus(&mut self, digit: u32) {
        self.multiply_add(10, digit);
    }

    fn double(&mut self) {
        self.multiply_add(2, 0);
    }

    fn at_least(&self, other: &Self) -> bool {
        let len = self.len.max(other.len);
        let own = self.limbs.iter().take(len).rev();
        own.cmp(other.limbs.iter().take(len).rev()).is_ge()
    }

    /// `self - other`, which is not negative.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (limb, of_other) in self.limbs.iter_mut().zip(&other.limbs).take(self.len.max(other.len)) {
            let (difference, first) = limb.overflowing_sub(*of_other);
            let (difference, second) = difference.overflowing_sub(borrow.into());
            (*limb, borrow) = (difference, first | second);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]
mod tests {
    extern crate std;

    use std::format;
    use std::string::String;

    use super::{is_finite, parse};

    fn check(text: &str) {
        let expected: f64 = text.parse().unwrap();
        assert_eq!(parse(text.as_bytes()).to_bits(), expected.to_bits(), "{text}");
        assert_eq!(is_finite(text.as_bytes()), expected.is_finite(), "{text}");
    }

    #[test]
    fn edges() {
        for text in [
            "0",
            "-0",
            "0.000",
            "0e9999999999999999999",
            "1e-9999999999999999999",
            "1e99999999999999999999",
            "0.1",
            "123456789012345",
            "1234567890123456",
            "9007199254740993",
            "9007199254740992.999",
            "1e22",
            "1e23",
            "1e-22",
            "5e-324",
            "2.4703282292062327e-324",
            "2.4703282292062328e-324",
            "2.2250738585072014e-308",
            "2.2250738585072011e-308",
            "1.7976931348623157e308",
            "1.7976931348623158e308",
            "1.7976931348623159e308",
            "17976931348623158079e289",
            "17976931348623158080e289",
            "-1.5e300",
            "100000000000000000000000000000000",
            "0.00000000000000000000000000000000000000000001e44",
            "1e309",
            "1e308",
            "9.999e307",
        ] {
            check(text);
        }
        // Half between the two largest values, and half between infinity and the largest, in all their digits.
        let tie = "1797693134862315807937289714053034150799341327100378269361737789804449682927647509466490179775872070963\
            30286416692887910946555547851940402630657488671505820681908902000708383676273854845817711531764475730270069855\
            57136695962284291481986083493647529271907416844436551070434271155969950809304288017790417449779";
        for more in ["", ".0", ".000000000000000000000000000000000000000001"] {
            check(&format!("{tie}{more}"));
            check(&format!("{}8{more}", &tie[..tie.len() - 1]));
        }
        // Far more digits than are kept, with the one that decides behind them.
        for zeros in [700, 767, 768, 769, 770, 771, 900] {
            for last in ["0", "1"] {
                check(&format!("9007199254740993.{}{last}", "0".repeat(zeros)));
                check(&format!(
                    "0.{}9007199254740993{}{last}e300",
                    "0".repeat(300),
                    "0".repeat(zeros)
                ));
            }
        }
    }

    /// Texts of values, of the points half between two values, and of a digit more or less.
    #[test]
    fn equal_to_the_standard_library() {
        let mut state = 7u64;
        let mut bits = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state ^ (state >> 29)
        };
        for _ in 0..3000 {
            let value = f64::from_bits(bits());
            if !value.is_finite() {
                continue;
            }
            check(&format!("{value:e}"));
            check(&format!("{value:.17e}"));
            check(&format!("{value:.25e}"));
            let digits: String = format!("{}{}", bits(), bits())
                .chars()
                .take(1 + bits() as usize % 38)
                .collect();
            check(&format!("{}.{digits}e{}", bits() % 10, bits() as i64 % 340));
        }
        // A value and the next one have their middle at one bit more; subnormal values end at 1074 places.
        for _ in 0..100 {
            let low = f64::from_bits(bits() >> (1 + bits() % 12));
            if low < 1e250 {
                let half = format!(
                    "{:.1080}",
                    low / 2.0 + f64::from_bits(low.to_bits().saturating_add(1)) / 2.0
                );
                check(half.trim_start_matches('-'));
            }
        }
    }
}
