//! Where silence was put into the audio, so that times of the model can be told as times of the audio.

/// Insertions that are remembered one by one. Text lags behind the audio by less than what a single insertion adds,
/// so only the last one or two are ever asked for.
const REMEMBERED: usize = 4;

/// Silence that [`crate::session::Session::flush`] put in.
#[derive(Clone, Copy, Debug, Default)]
struct Insertion {
    /// First sample of it, counted in the model's time: audio and insertions, without the left pad.
    at: u64,
    len: u64,
}

/// The insertions so far. Plain data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timeline {
    /// Samples of insertions that are not remembered one by one any more.
    older: u64,
    /// The last ones, the newest at the end; in the beginning, insertions of nothing.
    recent: [Insertion; REMEMBERED],
}

impl Timeline {
    /// Notes `len` samples of silence at sample `at` of the model's time, behind all earlier ones.
    pub(super) fn insert(&mut self, at: u64, len: u64) {
        let [oldest, recent @ ..] = self.recent;
        self.older = self.older.saturating_add(oldest.len);
        let [a, b, c] = recent;
        self.recent = [a, b, c, Insertion { at, len }];
    }

    /// The sample of the caller's audio that sample `at` of the model's time is. What lies inside an insertion is
    /// where the insertion was made.
    pub(super) fn audio_sample(&self, at: u64) -> u64 {
        let inserted = self.recent.iter().fold(self.older, |sum, insertion| {
            sum.saturating_add(at.saturating_sub(insertion.at).min(insertion.len))
        });
        at.saturating_sub(inserted)
    }
}
