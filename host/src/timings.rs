//! Where the time of a transcription goes.

use std::time::Duration;

use voxtral_core::session::{Session, Step};

/// Work of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Time, by the clock on the wall.
    pub time: Duration,
    /// The longest pass.
    pub longest: Duration,
    /// Passes.
    pub passes: u64,
    /// Positions of 80 ms that they covered, padding included.
    pub positions: u64,
}

impl Spent {
    fn add(&mut self, time: Duration, positions: u64) {
        self.time += time;
        self.longest = self.longest.max(time);
        self.passes += 1;
        self.positions += positions;
    }
}

/// Time per kind of step, since the transcriber was made or [reset](crate::Transcriber::reset).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// The delay's conditioning, once per model and delay.
    pub conditioning: Spent,
    /// Mel, convolution stem, encoder layers and adapter.
    pub encoder: Spent,
    /// The decoder over the prompt.
    pub prefill: Spent,
    /// The decoder behind the prompt: a token for each position.
    pub decoder: Spent,
    /// Tokens that decoder passes over several positions guessed.
    pub guessed: u64,
}

impl Timings {
    /// Time of all kinds of steps.
    pub fn total(&self) -> Duration {
        self.conditioning.time + self.encoder.time + self.prefill.time + self.decoder.time
    }

    /// Of the tokens that were guessed, those that were right: positions beyond the first of a pass that counted.
    pub fn guessed_right(&self) -> u64 {
        self.decoder.positions.saturating_sub(self.decoder.passes)
    }

    /// Adds one step, whose kind shows in how it moved the session on from `before`. Whether it was a decoder pass
    /// behind the prompt.
    pub(crate) fn add(&mut self, before: Progress, session: &Session, step: Step, time: Duration) -> bool {
        let after = Progress::of(session);
        let (encoded, decoded) = (after.encoded - before.encoded, after.decoded - before.decoded);
        if encoded > 0 {
            self.encoder.add(time, encoded);
        } else if decoded > 0 && before.decoded < session.schedule().prompt_end() {
            self.prefill.add(time, decoded);
        } else if decoded > 0 {
            self.decoder.add(time, decoded);
            self.guessed += before.width(session) as u64 - 1;
            return true;
        } else if step == Step::Worked {
            self.conditioning.add(time, 0);
        }
        false
    }
}

/// How far a session is.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) encoded: u64,
    pub(crate) decoded: u64,
}

impl Progress {
    /// Positions of a pass behind the prompt that starts from here: as many as wait, up to the session's batch.
    pub(crate) fn width(self, session: &Session) -> usize {
        let waiting = usize::try_from(self.encoded - self.decoded).unwrap_or(usize::MAX);
        waiting.clamp(1, session.batch())
    }

    pub(crate) fn of(session: &Session) -> Self {
        Self {
            encoded: session.positions_encoded(),
            decoded: session.positions_decoded(),
        }
    }
}
