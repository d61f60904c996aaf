//! Two loops that do nothing but what limits a processor: multiply-adds out of registers, and reads of memory.
//!
//! They use the instructions that the kernels use, which this build may not be compiled for.

use std::array;
use std::hint::black_box;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use voxtral_core::kernels::Class;
use voxtral_core::kernels::Kernels;

/// Sums that grow side by side: enough that none waits for its last multiply-add, and all fit in registers.
const CHAINS: usize = 12;
/// Values of f32 in one of them.
const LANES: usize = 8;
/// Times that [`Peak::multiply_add`] goes over all of them, some 10 µs.
const STEPS: usize = 5_000;

/// Operations of one call of [`Peak::multiply_add`], a multiply-add being two.
pub(super) const FLOP: f64 = (2 * CHAINS * LANES * STEPS) as f64;
/// Bytes that one stream moves on by.
const STRIDE: usize = 128;
/// Most streams that [`Peak::read`] reads side by side.
pub(super) const MAX_STREAMS: usize = 8;

/// The instructions that the loops are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peak(Set);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    /// AVX2 and FMA; made only where the processor has them.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Part of every AArch64 that there is a build for.
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    Neon,
    /// What the compiler makes of plain arithmetic.
    Plain,
}

impl Peak {
    /// The instructions of the class of these kernels, as far as this machine has them.
    pub(super) fn of(kernels: Kernels) -> Self {
        match kernels.class() {
            #[cfg(target_arch = "x86_64")]
            Class::Fused if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") => Self(Set::Avx2),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Class::Fused => Self(Set::Neon),
            _ => Self(Set::Plain),
        }
    }

    /// What the multiply-adds are, for a person.
    pub(super) fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "AVX2 fused multiply-add",
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Set::Neon => "NEON fused multiply-add",
            Set::Plain => "plain multiply and add",
        }
    }

    /// [`FLOP`] operations that touch no memory.
    pub(super) fn multiply_add(self) {
        let sums = match self.0 {
            // SAFETY: `of` found the instructions on this machine.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => unsafe { avx2::multiply_add() },
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Set::Neon => neon::multiply_add(),
            Set::Plain => multiply_then_add(),
        };
        black_box(sums);
    }

    /// Reads `bytes` in so many streams (1 to [`MAX_STREAMS`]) of equal length; says how many bytes that were.
    pub(super) fn read(self, bytes: &[u8], streams: usize) -> usize {
        let all = match self.0 {
            // SAFETY: `of` found the instructions on this machine.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => unsafe { avx2::read(bytes, streams) },
            _ => read(bytes, streams),
        };
        black_box(all);
        stream_len(bytes, streams) * streams
    }
}

/// Bytes of each stream, whole strides.
fn stream_len(bytes: &[u8], streams: usize) -> usize {
    bytes.len() / streams / STRIDE * STRIDE
}

/// Plain arithmetic: what a compiler makes of it on a target that nothing better is written down for.
#[cfg(not(target_arch = "x86_64"))]
fn multiply_then_add() -> f32 {
    let mut sums = [[0.0f32; LANES]; CHAINS];
    let (a, b) = black_box((0.999, 0.001));
    for _ in 0..STEPS {
        for sum in sums.iter_mut().flatten() {
            *sum = *sum * a + b;
        }
    }
    sums.iter().flatten().sum()
}

/// Products and sums apart, in the vectors of 4 that every x86-64 has: two for each of the lanes' 8.
#[cfg(target_arch = "x86_64")]
fn multiply_then_add() -> f32 {
    use std::arch::x86_64::*;

    // SAFETY: every x86-64 has these instructions; nothing but registers is touched.
    #[allow(unused_unsafe)]
    unsafe {
        let (a, b) = (_mm_set1_ps(0.999), _mm_set1_ps(0.001));
        let mut sums = [_mm_setzero_ps(); CHAINS];
        for _ in 0..2 * STEPS {
            for sum in &mut sums {
                *sum = _mm_add_ps(_mm_mul_ps(*sum, a), b);
            }
        }
        let all = sums.iter().fold(_mm_setzero_ps(), |a, &b| _mm_add_ps(a, b));
        2.0 * _mm_cvtss_f32(all) * (LANES / 2) as f32
    }
}

#[inline(always)]
fn read(bytes: &[u8], streams: usize) -> u64 {
    match streams {
        1 => fold::<1>(bytes),
        2 => fold::<2>(bytes),
        3 => fold::<3>(bytes),
        4 => fold::<4>(bytes),
        5 => fold::<5>(bytes),
        6 => fold::<6>(bytes),
        7 => fold::<7>(bytes),
        _ => fold::<MAX_STREAMS>(bytes),
    }
}

/// Everything that was read, by "or", so that no read can be left out.
#[inline(always)]
fn fold<const STREAMS: usize>(bytes: &[u8]) -> u64 {
    const WORDS: usize = STRIDE / size_of::<u64>();
    let len = stream_len(bytes, STREAMS);
    let mut streams = array::from_fn::<_, STREAMS, _>(|i| bytes[i * len..][..len].chunks_exact(STRIDE));
    let mut all = [0u64; WORDS];
    for _ in 0..len / STRIDE {
        for stream in &mut streams {
            let words = stream.next().unwrap_or_default().chunks_exact(size_of::<u64>());
            for (all, word) in all.iter_mut().zip(words) {
                *all |= word.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
            }
        }
    }
    all.iter().fold(0, |a, b| a | b)
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{CHAINS, STEPS};

    /// # Safety
    /// The machine has AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn multiply_add() -> f32 {
        // SAFETY: the instructions are there, by the caller; nothing but registers is touched.
        #[allow(unused_unsafe)]
        unsafe {
            let (a, b) = (_mm256_set1_ps(0.999), _mm256_set1_ps(0.001));
            let mut sums = [_mm256_setzero_ps(); CHAINS];
            for _ in 0..STEPS {
                for sum in &mut sums {
                    *sum = _mm256_fmadd_ps(*sum, a, b);
                }
            }
            let all = sums.iter().fold(_mm256_setzero_ps(), |a, &b| _mm256_add_ps(a, b));
            _mm256_cvtss_f32(all)
        }
    }

    /// The plain loop, compiled for wider vectors.
    ///
    /// # Safety
    /// The machine has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn read(bytes: &[u8], streams: usize) -> u64 {
        super::read(bytes, streams)
    }
}

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon {
    use std::arch::aarch64::*;

    use super::{CHAINS, LANES, STEPS};

    /// NEON is part of what this build may use anyway.
    pub(super) fn multiply_add() -> f32 {
        // SAFETY: the instructions are there, since the build is for them; nothing but registers is touched.
        #[allow(unused_unsafe)]
        unsafe {
            let (a, b) = (vdupq_n_f32(0.999), vdupq_n_f32(0.001));
            let mut sums = [vdupq_n_f32(0.0); CHAINS * LANES / 4];
            for _ in 0..STEPS {
                for sum in &mut sums {
                    *sum = vfmaq_f32(b, *sum, a);
                }
            }
            let all = sums.iter().fold(vdupq_n_f32(0.0), |a, &b| vaddq_f32(a, b));
            vaddvq_f32(all)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets() -> [Peak; 3] {
        [
            Peak::of(Kernels::detect()),
            Peak::of(Kernels::scalar(Class::Fused)),
            Peak::of(Kernels::scalar(Class::Separate)),
        ]
    }

    /// One bit anywhere in the streams is seen, so every byte of them is read, and none behind them.
    #[test]
    fn every_byte_is_read() {
        let mut bytes = vec![0u8; 3 * 1024 + 77];
        for peak in sets() {
            for streams in 1..=MAX_STREAMS {
                let read = peak.read(&bytes, streams);
                assert!(
                    read <= bytes.len() && bytes.len() - read < streams * STRIDE,
                    "{streams}"
                );
                assert_eq!(read, stream_len(&bytes, streams) * streams);
                for at in 0..bytes.len() {
                    bytes[at] = 1;
                    assert_eq!(
                        super::read(&bytes, streams) != 0,
                        at < read,
                        "{streams} streams, byte {at}"
                    );
                    bytes[at] = 0;
                }
            }
            assert_eq!(peak.read(&[], 1), 0);
        }
    }

    /// The sums all end near 1, where `x = 0.999 x + 0.001`: so the loop was run.
    #[test]
    fn sums_come_to_their_fixed_point() {
        let end = (CHAINS * LANES) as f32;
        assert!((multiply_then_add() / end - 1.0).abs() < 0.05);
        for peak in sets() {
            peak.multiply_add();
            assert!(!peak.name().is_empty());
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: just found.
            let first_lanes = unsafe { avx2::multiply_add() };
            assert!((first_lanes / CHAINS as f32 - 1.0).abs() < 0.05, "{first_lanes}");
        }
    }
}
