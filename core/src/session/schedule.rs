//! Counting: prompt, padding and positions of an utterance.

use crate::layout::{Options, SAMPLES_PER_POSITION};

/// Positions of silence after the audio, beyond the delay and one: the model's own padding rule.
const EXTRA_RIGHT_PAD: usize = 10;

/// How many positions an utterance has, and what stands at them.
///
/// The audio is padded with `left_pad_tokens` positions of silence in front, and behind with silence up to a whole
/// position and then `delay + 1 + 10` positions more. The prompt is `<s>` and one `[STREAMING_PAD]` for every
/// position of left pad and delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    left_pad: usize,
    delay: usize,
    bos: u32,
    streaming_pad: u32,
    origin: u64,
}

impl Schedule {
    /// The schedule that `options` ask for.
    pub fn new(options: &Options) -> Self {
        Self {
            left_pad: options.left_pad_tokens,
            delay: options.delay_tokens,
            bos: options.bos,
            streaming_pad: options.streaming_pad,
            origin: 0,
        }
    }

    /// The same for a stream that begins at another position than 0.
    pub(super) fn starting_at(self, origin: u64) -> Self {
        Self { origin, ..self }
    }

    /// The position that the stream begins at: that of the left pad's first.
    pub fn origin(&self) -> u64 {
        self.origin
    }

    /// Samples that count as taken before the stream began.
    pub(super) fn origin_samples(&self) -> u64 {
        self.origin.saturating_mul(SAMPLES_PER_POSITION as u64)
    }

    /// Number of ids in the prompt. The first token is decided at the last of them.
    pub fn prompt_len(&self) -> u64 {
        (self.left_pad as u64)
            .saturating_add(self.delay as u64)
            .saturating_add(1)
    }

    /// The first position behind the prompt.
    pub fn prompt_end(&self) -> u64 {
        self.origin.saturating_add(self.prompt_len())
    }

    /// The id of the prompt at a position, `None` outside of it.
    pub fn prompt_id(&self, position: u64) -> Option<u32> {
        match position.checked_sub(self.origin)? {
            0 => Some(self.bos),
            p if p < self.prompt_len() => Some(self.streaming_pad),
            _ => None,
        }
    }

    /// Positions of silence in front of the audio.
    pub(super) fn left_pad(&self) -> u64 {
        self.left_pad as u64
    }

    /// Samples of silence in front of the audio.
    pub fn left_pad_samples(&self) -> u64 {
        (self.left_pad as u64).saturating_mul(SAMPLES_PER_POSITION as u64)
    }

    /// Samples of silence behind `samples` of audio.
    pub fn right_pad_samples(&self, samples: u64) -> u64 {
        let whole = samples
            .div_ceil(SAMPLES_PER_POSITION as u64)
            .saturating_mul(SAMPLES_PER_POSITION as u64);
        self.right_pad()
            .saturating_mul(SAMPLES_PER_POSITION as u64)
            .saturating_add(whole.saturating_sub(samples))
    }

    /// The position behind the last of an utterance that ends after `samples`, padding included.
    pub fn positions(&self, samples: u64) -> u64 {
        samples
            .div_ceil(SAMPLES_PER_POSITION as u64)
            .saturating_add(self.left_pad as u64)
            .saturating_add(self.right_pad())
    }

    fn right_pad(&self) -> u64 {
        (self.delay as u64)
            .saturating_add(1)
            .saturating_add(EXTRA_RIGHT_PAD as u64)
    }
}
