//! The log-mel spectrum of one window.

use super::dft::power_spectrum;
use super::tables::FILTERS;

/// Samples per second.
pub const SAMPLE_RATE: usize = 16_000;
/// Samples from one frame to the next.
pub const HOP: usize = 160;
/// Samples under one window.
pub const WINDOW: usize = 400;
/// Mel filters, and values per frame.
pub const MEL_BINS: usize = 128;

/// The log-mel transform.
///
/// A value is (max(log10(max(p, 1e-10)), ceiling - 8) + 4) / 4, where p is the power under one of 128 filters and
/// the ceiling is a constant of the model, not the maximum of the clip. With a ceiling of 1.5 silence is -0.625.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogMel {
    floor: f32,
}

impl LogMel {
    /// A transform that clips to the range of 8 below `global_log_mel_max` (in powers of ten).
    pub const fn new(global_log_mel_max: f32) -> Self {
        Self {
            floor: global_log_mel_max - 8.0,
        }
    }

    /// The frame of the [`WINDOW`] samples around its centre: frame i of a stream takes samples 160 i - 200 to
    /// 160 i + 199.
    ///
    /// The work does not depend on the samples, except within the logarithm. Samples that are not finite give
    /// values without meaning, never a panic.
    pub fn frame(&self, samples: &[f32; WINDOW], frame: &mut [f32; MEL_BINS]) {
        let power = power_spectrum(samples);
        let mut weights = FILTERS.weights.as_slice();
        for (value, span) in frame.iter_mut().zip(&FILTERS.spans) {
            let (own, rest) = weights.split_at_checked(span.len.into()).unwrap_or_default();
            weights = rest;
            let mut sum = 0.0f32;
            for (weight, power) in own.iter().zip(power.iter().skip(span.first.into())) {
                sum += weight * power;
            }
            // f32::max takes the other side for NaN, so even that ends at the floor.
            let log = libm::log10f(sum.max(1e-10)).max(self.floor);
            *value = (log + 4.0) / 4.0;
        }
    }
}

/// The weights of the filter bank that are not zero, as (bin 0..=200, filter 0..128, weight per unit of power).
pub fn filters() -> impl Iterator<Item = (usize, usize, f32)> {
    let places = FILTERS.spans.iter().enumerate().flat_map(|(mel, span)| {
        let first = usize::from(span.first);
        (first..first.saturating_add(span.len.into())).map(move |bin| (bin, mel))
    });
    places
        .zip(&FILTERS.weights)
        .map(|((bin, mel), weight)| (bin, mel, *weight))
}
