//! Looking into a pass: for goldens, for comparing models, for the logit hash.

use super::binding::Role;

/// A place in the pass where values can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Log-mel frames, `[n][128]`.
    Mel,
    /// Output of the convolution stem, `[n][encoder dim]`.
    ConvStem,
    /// Residual stream after an encoder layer, `[n][encoder dim]`.
    EncoderLayer(usize),
    /// Encoder output after the final norm, `[n][encoder dim]`.
    EncoderOut,
    /// Adapter output, one row per decoder position, `[n][decoder dim]`.
    Adapter,
    /// The embedding of the delay, `[1][decoder dim]`.
    TimeCondition,
    /// The `s` in `1 + s` of a decoder layer, `[1][decoder dim]`.
    Conditioning(usize),
    /// Logits of one generated position, `[1][vocab size]`, or no values where the layout keeps none.
    Logits,
}

/// Sees the values of every [`Stage`] as a session computes them, and may have a say in what is decoded.
pub trait Probe {
    /// `values` are whole rows, the first of them with number `first` (mel frame, encoder frame or decoder position,
    /// counted from the start of the padded audio).
    fn stage(&mut self, stage: Stage, first: u64, values: &[f32]);

    /// The token that counts as decided at `position`, where the model says `id`: another one if the run is to follow
    /// a given text, as when two models are compared.
    fn decide(&mut self, position: u64, id: u32) -> u32 {
        let _ = position;
        id
    }

    /// The guess of the token at `position` that a pass over several positions goes on from, where the session guesses
    /// `id`. It decides how much of the pass counts, and nothing else.
    fn guess(&mut self, position: u64, id: u32) -> u32 {
        let _ = position;
        id
    }

    /// The inputs of the linear map whose weights have this role, whole rows of `cols` values. Maps of one input are
    /// told once: `Wq` stands for `Wk` and `Wv` as well, `W1` for `W3`. Stem and conditioning are left out. Inputs of
    /// positions that were guessed wrong, and are computed again, are among them.
    fn input(&mut self, role: Role, cols: usize, values: &[f32]) {
        let _ = (role, cols, values);
    }
}

/// Looks at nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProbe;

impl Probe for NoProbe {
    fn stage(&mut self, _stage: Stage, _first: u64, _values: &[f32]) {}
}

/// A 64-bit hash (FNV-1a over the bits, one step per value) over all logits of a run.
///
/// Equal hashes over other cuts of the audio, chunk sizes or threads mean equal bits all the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogitHash(u64);

impl Default for LogitHash {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl LogitHash {
    /// The hash of all logits seen so far.
    pub fn value(&self) -> u64 {
        self.0
    }
}

impl Probe for LogitHash {
    fn stage(&mut self, stage: Stage, _first: u64, values: &[f32]) {
        if stage == Stage::Logits {
            for value in values {
                self.0 = (self.0 ^ u64::from(value.to_bits())).wrapping_mul(0x0100_0000_01B3);
            }
        }
    }
}
