//! Audio that arrives while other audio is worked on.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use voxtral_core::audio::SAMPLE_RATE;

use crate::audio::AudioFile;
use crate::error::Error;

/// Samples that are read at a time: a position of the model needs 40 samples beyond its end, so that no read ends
/// later than what completes a position.
const BLOCK: usize = 40;

/// Samples that wait at most, 10 s. Then no more are read: whoever writes a pipe has to wait, and nothing is lost.
/// A microphone does not wait; what it brings then is lost, which is told.
const MOST: usize = 10 * SAMPLE_RATE;

/// A thread that reads a live source ahead of its use.
pub struct Capture {
    shared: Arc<Shared>,
}

/// What [`Capture::take`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// There are samples.
    Samples {
        /// Samples that were lost behind these.
        lost: u64,
    },
    /// None came in time.
    Nothing,
    /// There are no more.
    End,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    samples: VecDeque<f32>,
    /// Samples that were lost behind those.
    lost: u64,
    ended: bool,
    /// What was odd so far.
    odd: Vec<String>,
    result: Option<Result<Vec<String>, Error>>,
}

impl Capture {
    /// Begins to read. `open` runs in the thread as well, since it may wait for the first bytes.
    pub fn begin(open: impl FnOnce() -> Result<AudioFile, Error> + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let reader = Arc::clone(&shared);
        thread::spawn(move || {
            let ended = Ended(&reader);
            let result = open().and_then(|audio| reader.fill(audio));
            reader.lock().result = Some(result);
            drop(ended);
        });
        Self { shared }
    }

    /// Puts what has come into `samples` in place of what is in it. Waits for `least` of them, but no longer than
    /// `patience`.
    ///
    /// # Errors
    /// That of the source, once all samples before it have been taken.
    pub fn take(&self, samples: &mut Vec<f32>, least: usize, patience: Duration) -> Result<Taken, Error> {
        samples.clear();
        let until = Instant::now() + patience;
        let mut queue = self.shared.lock();
        while queue.samples.len() < least && !queue.ended {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        samples.extend(queue.samples.drain(..));
        self.shared.changed.notify_all();
        if !samples.is_empty() {
            let lost = std::mem::take(&mut queue.lost);
            return Ok(Taken::Samples { lost });
        }
        match queue.result.take() {
            Some(Err(error)) => Err(error),
            result => {
                queue.result = result;
                Ok(if queue.ended { Taken::End } else { Taken::Nothing })
            }
        }
    }

    /// Samples that wait to be taken.
    pub fn waiting(&self) -> usize {
        self.shared.lock().samples.len()
    }

    /// What was odd about the source, or about what was read of it if it has not ended: lines for a person.
    pub fn remarks(&self) -> Vec<String> {
        let mut queue = self.shared.lock();
        match queue.result.take() {
            Some(Ok(remarks)) => remarks,
            _ => std::mem::take(&mut queue.odd),
        }
    }
}

/// Tells the end of the thread when it is dropped, after a panic as well.
struct Ended<'a>(&'a Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, mut audio: AudioFile) -> Result<Vec<String>, Error> {
        let mut block = [0.0; BLOCK];
        let mut oddities = 0;
        loop {
            let read = audio.read(&mut block)?;
            if audio.oddities() != oddities {
                oddities = audio.oddities();
                self.lock().odd = audio.remarks_so_far();
            }
            if read == 0 {
                return audio.remarks();
            }
            let lost = audio.take_lost();
            let mut queue = self.lock();
            queue.lost += lost;
            if queue.samples.len() >= MOST && !audio.waits() {
                queue.lost += read as u64;
                continue;
            }
            while queue.samples.len() >= MOST {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.samples.extend(&block[..read]);
            self.changed.notify_all();
        }
    }
}
