//! The power spectrum of 400 real samples.
//!
//! Even and odd samples are taken as real and imaginary parts of 200 complex numbers. Those are transformed in
//! three Stockham passes of radix 5, 5 and 8 (each reads one buffer, writes the other and sorts as it goes), and
//! the two interleaved spectra are then separated. About 9000 multiplications and additions and 4 KiB of stack.

use super::mel::WINDOW;
use super::tables::{COS_1_5, COS_1_8, COS_2_5, HALF_HANN, JOIN, SIN_1_5, SIN_2_5, TWIDDLES_40, TWIDDLES_200};

/// Complex points of the inner transform.
pub(super) const HALF: usize = WINDOW / 2;
/// Frequencies from 0 to half the sampling rate.
pub(super) const BINS: usize = HALF + 1;

/// A complex number. Methods instead of operators: they are inlined and cannot be mistaken for integer arithmetic.
#[derive(Clone, Copy)]
pub(super) struct Complex {
    pub(super) re: f32,
    pub(super) im: f32,
}

impl Complex {
    pub(super) const ZERO: Self = Self { re: 0.0, im: 0.0 };

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self {
            re: self.re + other.re,
            im: self.im + other.im,
        }
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Self {
            re: self.re - other.re,
            im: self.im - other.im,
        }
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Self {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }

    #[inline(always)]
    fn scaled(self, factor: f32) -> Self {
        Self {
            re: self.re * factor,
            im: self.im * factor,
        }
    }

    /// The product with -i.
    #[inline(always)]
    fn turned_back(self) -> Self {
        Self {
            re: self.im,
            im: -self.re,
        }
    }

    #[inline(always)]
    fn conjugate(self) -> Self {
        Self {
            re: self.re,
            im: -self.im,
        }
    }

    #[inline(always)]
    fn power(self) -> f32 {
        self.re * self.re + self.im * self.im
    }
}

/// |DFT(Hann x samples)|^2 at bins 0 to 200.
pub(super) fn power_spectrum(samples: &[f32; WINDOW]) -> [f32; BINS] {
    let mut a = [Complex::ZERO; HALF];
    let mut b = [Complex::ZERO; HALF];
    for ((z, x), w) in a.iter_mut().zip(samples.chunks_exact(2)).zip(HALF_HANN.chunks_exact(2)) {
        if let ([even, odd], [w_even, w_odd]) = (x, w) {
            *z = Complex {
                re: even * w_even,
                im: odd * w_odd,
            };
        }
    }
    pass::<5, 1>(&a, &mut b, |p, x| twiddle(dft5(x), TWIDDLES_200.get(p)));
    pass::<5, 5>(&b, &mut a, |p, x| twiddle(dft5(x), TWIDDLES_40.get(p)));
    pass::<8, 25>(&a, &mut b, |_, x| dft8(x));
    join(&b)
}

/// One Stockham pass by decimation in frequency.
///
/// Column i holds the inputs i, i + 200/R, i + 2 * 200/R, ...; with i = p S + q its transform goes to
/// p R S + q, + S, + 2 S, ... S is the product of the radices of the passes before.
#[inline(always)]
fn pass<const R: usize, const S: usize>(
    input: &[Complex; HALF],
    output: &mut [Complex; HALF],
    butterfly: impl Fn(usize, [Complex; R]) -> [Complex; R],
) {
    let mut parts = input.chunks_exact(const { HALF / R });
    let parts: [&[Complex]; R] = core::array::from_fn(|_| parts.next().unwrap_or(&[]));
    let mut columns = 0..const { HALF / R };
    for (p, block) in output.chunks_exact_mut(const { R * S }).enumerate() {
        for (q, i) in columns.by_ref().take(S).enumerate() {
            let x = parts.map(|part| part.get(i).copied().unwrap_or(Complex::ZERO));
            let slots = block.get_mut(q..).unwrap_or_default().iter_mut().step_by(S);
            for (slot, y) in slots.zip(butterfly(p, x)) {
                *slot = y;
            }
        }
    }
}

#[inline(always)]
fn twiddle(x: [Complex; 5], factors: Option<&[Complex; 5]>) -> [Complex; 5] {
    match (x, factors) {
        ([x0, x1, x2, x3, x4], Some([_, w1, w2, w3, w4])) => {
            [x0, x1.times(*w1), x2.times(*w2), x3.times(*w3), x4.times(*w4)]
        }
        (x, None) => x,
    }
}

#[inline(always)]
fn dft5([x0, x1, x2, x3, x4]: [Complex; 5]) -> [Complex; 5] {
    let (sum14, difference14) = (x1.plus(x4), x1.minus(x4));
    let (sum23, difference23) = (x2.plus(x3), x2.minus(x3));
    let cos1 = x0.plus(sum14.scaled(COS_1_5)).plus(sum23.scaled(COS_2_5));
    let cos2 = x0.plus(sum14.scaled(COS_2_5)).plus(sum23.scaled(COS_1_5));
    let sin1 = difference14
        .scaled(SIN_1_5)
        .plus(difference23.scaled(SIN_2_5))
        .turned_back();
    let sin2 = difference14
        .scaled(SIN_2_5)
        .minus(difference23.scaled(SIN_1_5))
        .turned_back();
    [
        x0.plus(sum14).plus(sum23),
        cos1.plus(sin1),
        cos2.plus(sin2),
        cos2.minus(sin2),
        cos1.minus(sin1),
    ]
}

#[inline(always)]
fn dft4([x0, x1, x2, x3]: [Complex; 4]) -> [Complex; 4] {
    let (sum02, difference02) = (x0.plus(x2), x0.minus(x2));
    let (sum13, difference13) = (x1.plus(x3), x1.minus(x3).turned_back());
    [
        sum02.plus(sum13),
        difference02.plus(difference13),
        sum02.minus(sum13),
        difference02.minus(difference13),
    ]
}

#[inline(always)]
fn dft8([x0, x1, x2, x3, x4, x5, x6, x7]: [Complex; 8]) -> [Complex; 8] {
    let [e0, e1, e2, e3] = dft4([x0, x2, x4, x6]);
    let [o0, o1, o2, o3] = dft4([x1, x3, x5, x7]);
    // Times exp(-i pi / 4), -i and exp(-3 i pi / 4).
    let o1 = o1.plus(o1.turned_back()).scaled(COS_1_8);
    let o2 = o2.turned_back();
    let o3 = o3.turned_back().minus(o3).scaled(COS_1_8);
    [
        e0.plus(o0),
        e1.plus(o1),
        e2.plus(o2),
        e3.plus(o3),
        e0.minus(o0),
        e1.minus(o1),
        e2.minus(o2),
        e3.minus(o3),
    ]
}

/// The power of the 400-point spectrum X from the 200-point spectrum Z of even + i odd samples (halved).
///
/// E = Z[k] + conj Z[200-k] belongs to the even samples, O = -i (Z[k] - conj Z[200-k]) to the odd ones;
/// X[k] = E + w^k O, and X[200-k] is the conjugate of E - w^k O.
#[inline(always)]
fn join(z: &[Complex; HALF]) -> [f32; BINS] {
    let mut power = [0.0; BINS];
    let (low, high) = power.split_at_mut(const { HALF / 2 });
    let mirrored = z.iter().take(1).chain(z.iter().rev());
    let pairs = low.iter_mut().zip(high.iter_mut().rev());
    for ((((low, high), z), mirror), w) in pairs.zip(z).zip(mirrored).zip(&JOIN) {
        let mirror = mirror.conjugate();
        let even = z.plus(mirror);
        let odd = z.minus(mirror).turned_back().times(*w);
        *low = even.plus(odd).power();
        *high = even.minus(odd).power();
    }
    // Bin 100 is its own mirror image: E and O are real, w^100 = -i, and |X| = 2 |Z|.
    if let (Some(middle), Some(z)) = (high.first_mut(), z.get(const { HALF / 2 })) {
        *middle = 4.0 * z.power();
    }
    power
}
