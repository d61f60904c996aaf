//! The two small functions from which everything random in the tests comes: FNV-1a turns names into keys, SplitMix64
//! turns a key and a counter into bits. Both are the published algorithms, so any language can repeat them.

/// The increment of SplitMix64 (2^64 divided by the golden ratio, made odd).
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// FNV-1a with 64 bits.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |h, &b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01B3)
    })
}

/// Output `i` (from 0) of SplitMix64 started at `key`. It is a function of the counter alone, so that any piece of a
/// sequence can be made without the pieces before it.
#[inline(always)]
pub fn splitmix(key: u64, i: u64) -> u64 {
    let mut z = key.wrapping_add(i.wrapping_add(1).wrapping_mul(GAMMA));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Output `i` as a number in [-1, 1) with 24 random bits, exact in f32 and f64.
#[inline(always)]
pub fn uniform(key: u64, i: u64) -> f64 {
    let top = (splitmix(key, i) >> 40) as i32;
    f64::from(top - (1 << 23)) * (1.0 / 8_388_608.0)
}

/// How many cases a property is tried with: `usual`, or as the environment variable `PROPTEST_CASES` says.
pub fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").map_or(usual, |cases| cases.parse().expect("PROPTEST_CASES is a number"))
}

/// A sequence of draws for choices in tests.
#[derive(Clone, Debug)]
pub struct Stream {
    key: u64,
    next: u64,
}

impl Stream {
    /// The sequence number `seed`.
    pub fn new(seed: u64) -> Self {
        Stream {
            key: splitmix(0x5EED, seed),
            next: 0,
        }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.next += 1;
        splitmix(self.key, self.next - 1)
    }

    /// A number in `range`, both ends included.
    pub fn within(&mut self, range: std::ops::RangeInclusive<usize>) -> usize {
        let span = (range.end() - range.start()) as u64 + 1;
        range.start() + (self.bits() % span) as usize
    }

    /// True once in `n` draws.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.within(1..=n) == 1
    }
}

/// `samples` of audio-like signal in [-1, 1): tones that come and go over a quiet noise, quantised like 16-bit audio.
pub fn audio(seed: u64, samples: usize) -> Vec<f32> {
    let mut stream = Stream::new(seed);
    let tones: Vec<(f64, f64, f64)> = (0..4)
        .map(|_| {
            let hertz = stream.within(80..=5000) as f64;
            let swell = stream.within(1..=9) as f64;
            (hertz, swell, stream.within(1..=20) as f64 / 100.0)
        })
        .collect();
    let noise = stream.bits();
    (0..samples)
        .map(|i| {
            let t = i as f64 / 16000.0 * std::f64::consts::TAU;
            let voice: f64 = tones
                .iter()
                .map(|&(f, s, a)| a * (f * t).sin() * (0.5 - 0.5 * (s * t).cos()))
                .sum();
            let x = voice + 0.01 * uniform(noise, i as u64);
            ((x * 32768.0).round().clamp(-32768.0, 32767.0) / 32768.0) as f32
        })
        .collect()
}
