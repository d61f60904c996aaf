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
    /// The decoder over one position behind the prompt: a token each.
    pub decoder: Spent,
}

impl Timings {
    /// Time of all kinds of steps.
    pub fn total(&self) -> Duration {
        self.conditioning.time + self.encoder.time + self.prefill.time + self.decoder.time
    }

    /// Adds one step, whose kind shows in how it moved the session on from `before`.
    pub(crate) fn add(&mut self, before: Progress, session: &Session, step: Step, time: Duration) {
        let after = Progress::of(session);
        let (encoded, decoded) = (after.encoded - before.encoded, after.decoded - before.decoded);
        if encoded > 0 {
            self.encoder.add(time, encoded);
        } else if decoded > 0 && before.decoded < session.schedule().prompt_end() {
            self.prefill.add(time, decoded);
        } else if decoded > 0 {
            self.decoder.add(time, decoded);
        } else if step == Step::Worked {
            self.conditioning.add(time, 0);
        }
    }
}

/// How far a session is.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    encoded: u64,
    decoded: u64,
}

impl Progress {
    pub(crate) fn of(session: &Session) -> Self {
        Self {
            encoded: session.positions_encoded(),
            decoded: session.positions_decoded(),
        }
    }
}
