//! Several positions in one decoder pass: what is guessed before it, what counts behind it, and giving that out one by
//! one.

use super::{Session, SessionError, Token};
use crate::layout::MAX_BATCH;
use crate::model::{Probe, Stage};

/// The tokens that the last decoder pass decided, in the order of their positions, the last of which is the last
/// decoded one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Batched {
    pub(super) tokens: [Verdict; MAX_BATCH],
    pub(super) len: usize,
    /// How many have been given out.
    pub(super) told: usize,
}

/// A token, and the largest of its logits: what is kept of them beside the scratch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Verdict {
    pub(super) id: u32,
    /// What the model said; the same, unless a probe decided.
    pub(super) own: u32,
    pub(super) largest: f32,
}

/// What a decoder pass says of the positions that tokens are decided at.
pub(super) struct Proposed<'a> {
    /// The first of them.
    pub(super) first: u64,
    /// The ids of the largest logits, none where one is NaN.
    pub(super) tokens: &'a [Option<usize>],
    /// The logits in rows of `vocab_size`, if they are kept.
    pub(super) logits: &'a [f32],
    pub(super) vocab_size: usize,
}

impl Session {
    /// The next token that has been decided and not been given out.
    pub(super) fn give_out(&mut self) -> Option<Token> {
        let Batched { tokens, len, told } = &mut self.batched;
        let id = tokens.get(..*len)?.get(*told)?.id;
        let position = self.decoded.saturating_sub(len.abs_diff(*told) as u64);
        *told = told.saturating_add(1);
        self.stopped = self.layout.options().stop_at_end_of_text && id == self.layout.options().eos;
        Some(Token { id, position })
    }

    /// Guesses of the tokens at `first` and behind it that a pass over `n` positions goes on from; the rest is unused.
    pub(super) fn guess(&self, probe: &mut dyn Probe, first: u64, n: usize) -> [u32; MAX_BATCH] {
        let mut guesses = [0; MAX_BATCH];
        let mut context = self.guesses.context();
        for (guess, position) in guesses.iter_mut().zip(first..).take(n.saturating_sub(1)) {
            let own = self.guesses.after(context);
            *guess = self.known(probe.guess(position, own)).unwrap_or(own);
            context = self.guesses.behind(context, *guess);
        }
        guesses
    }

    /// The id, if it is one of the vocabulary: it has to have an embedding.
    fn known(&self, id: u32) -> Option<u32> {
        let vocab_size = self.layout.params().decoder.vocab_size;
        Some(id).filter(|&id| usize::try_from(id).is_ok_and(|id| id < vocab_size))
    }

    /// Decides tokens as far as `guesses` are right.
    pub(super) fn verify(
        &mut self,
        probe: &mut dyn Probe,
        proposed: &Proposed,
        guesses: &[u32; MAX_BATCH],
    ) -> Result<(), SessionError> {
        let mut batched = Batched::default();
        let positions = proposed.tokens.iter().zip(proposed.first..);
        for (((row, (token, position)), guess), verdict) in positions.enumerate().zip(guesses).zip(&mut batched.tokens)
        {
            let Some(own) = *token else {
                if batched.len > 0 {
                    // What was decided before is given out; the next pass meets the NaN at its first position.
                    break;
                }
                return Err(SessionError::NotANumber {
                    stage: Stage::Logits,
                    position,
                });
            };
            let logits = proposed
                .logits
                .chunks_exact(proposed.vocab_size)
                .nth(row)
                .unwrap_or_default();
            probe.stage(Stage::Logits, position, logits);
            let largest = logits.get(own).copied().unwrap_or_default();
            let own = u32::try_from(own).unwrap_or(u32::MAX);
            let id = self.known(probe.decide(position, own)).unwrap_or(own);
            *verdict = Verdict { id, own, largest };
            self.guesses.learn(id);
            self.last_token = id;
            self.decoded = position.saturating_add(1);
            batched.len = batched.len.saturating_add(1);
            let ends = self.layout.options().stop_at_end_of_text && id == self.layout.options().eos;
            if *guess != id || ends {
                break;
            }
        }
        self.batched = batched;
        Ok(())
    }
}
