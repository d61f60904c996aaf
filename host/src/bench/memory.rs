//! Memory that a transcription makes the system give, beside what the layout says.
//!
//! A fresh session works in memory that nothing has touched, and the anonymous memory of this process is looked at
//! before and after. Where the system would give huge pages unasked, it is told not to meanwhile: of these a small model
//! fills one or two, and how many are begun is chance.

use std::time::Instant;

use rustix::param::page_size;
use voxtral_core::audio::SAMPLE_RATE;
use voxtral_core::layout::{Layout, Memory, Options, Touched};
use voxtral_core::session::{Schedule, Session, Step};

use super::realtime::tone;
use super::{Bencher, check_interrupt};
use crate::error::Error;
use crate::usage;
use crate::zeroed::Zeroed;

/// What it is called where words choose.
pub(crate) const NAME: &str = "memory of a transcription";
/// Anonymous memory of voxtral.c for a transcription with the model as published, in bytes. Measured elsewhere; it is
/// told for comparison.
pub(crate) const VOXTRAL_C: u64 = 396_000_000;
/// Values of more than 32 MB: so much at once no allocator takes from what was used before.
const UNUSED: usize = 16 << 20;

/// Of one clip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anonymous {
    /// What the layout says is touched, in bytes.
    pub(crate) touched: Touched,
    /// By how much anonymous memory grew, in bytes, if the system tells it.
    pub(crate) grown: Option<u64>,
}

impl Anonymous {
    /// What was measured over what the layout says.
    pub(crate) fn ratio(&self) -> Option<f64> {
        self.grown.map(|grown| grown as f64 / self.touched.total() as f64)
    }
}

impl Bencher<'_> {
    /// Transcribes `seconds` of audio, or gives up with `None` when the time is up.
    pub(crate) fn measure_memory(&self, options: &Options, seconds: usize) -> Result<Option<Anonymous>, Error> {
        let layout = Layout::new(self.model.params(), options)?;
        let audio = tone(seconds * SAMPLE_RATE);
        let positions = Schedule::new(options).positions(audio.len() as u64);
        let touched = layout.touched(positions, self.model.has_blocks(), page_size());

        small_pages(true);
        let result = self.transcribe(&layout, &audio);
        small_pages(false);
        Ok(result?.map(|grown| Anonymous { touched, grown }))
    }

    /// By how much anonymous memory grows meanwhile, if the system tells it; `None` when the time is up.
    fn transcribe(&self, layout: &Layout, audio: &[f32]) -> Result<Option<Option<u64>>, Error> {
        let before = usage::anonymous();
        let mut all = Zeroed::new((layout.state_len() + layout.scratch_len()).max(UNUSED))?;
        let (state, scratch) = all.split_at_mut(layout.state_len());
        let mut memory = Memory::carve(layout, state, scratch)?;
        let mut session = Session::new(layout);
        let mut rest = audio;
        loop {
            check_interrupt()?;
            if Instant::now() > self.deadline {
                return Ok(None);
            }
            match session.step(&self.model, &mut memory, &self.crew)? {
                Step::Token(_) | Step::Worked => {}
                Step::NeedAudio if rest.is_empty() => session.finish(),
                Step::NeedAudio => rest = &rest[session.feed(&mut memory, rest)?..],
                Step::Done => break,
            }
        }
        let after = usage::anonymous();
        let grown = before.zip(after).map(|(before, after)| after.saturating_sub(before));
        Ok(Some(grown))
    }
}

/// Whether this process gets no huge pages unless it asks for them. Where it is refused nothing is lost but likeness.
#[cfg(target_os = "linux")]
fn small_pages(small: bool) {
    let _ = rustix::thread::disable_transparent_huge_pages(small);
}

/// Other systems have no such switch.
#[cfg(not(target_os = "linux"))]
fn small_pages(_small: bool) {}
