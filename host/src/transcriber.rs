//! A session with its memory, its threads and its text.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use voxtral_core::kernels::{Executor, Kernels};
use voxtral_core::layout::{Layout, Memory, Options, SAMPLES_PER_POSITION};
use voxtral_core::model::{NoProbe, Probe};
use voxtral_core::session::{Session, SilenceError, Step};

use crate::error::Error;
use crate::kernels;
use crate::model::Model;
use crate::pacing::Pace;
use crate::start::Start;
use crate::text::Text;
use crate::timings::{Progress, Timings};
use crate::zeroed::Zeroed;

/// A token as it is decided.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a> {
    /// Its id.
    pub id: u32,
    /// The decoder position it was decided at.
    pub position: u64,
    /// The sample of the caller's audio that the model hears at the start of the position, less the delay; what was
    /// [skipped](Transcriber::skip) counts. See [`Session::audio_sample`].
    pub sample: u64,
    /// What it was decided by: a value for every id, or none where the options keep no
    /// [logits](Options::logits).
    pub logits: &'a [f32],
}

/// Hears of tokens as they are decided.
pub trait Listener {
    /// The next token, control tokens included.
    ///
    /// # Errors
    /// What ends the transcription.
    fn token(&mut self, token: &Decided<'_>) -> Result<(), Error>;

    /// A step of another kind was done.
    ///
    /// # Errors
    /// What ends the transcription.
    fn worked(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// Writes text and nothing else.
struct Writer<'a, 'm> {
    text: &'a mut Text<'m>,
    out: &'a mut dyn Write,
}

impl Listener for Writer<'_, '_> {
    fn token(&mut self, token: &Decided<'_>) -> Result<(), Error> {
        self.text.push(token.id, self.out)
    }

    fn worked(&mut self) -> Result<(), Error> {
        self.text.prepare()
    }
}

/// Transcribes one utterance after the other: samples in, text out. After it is made, nothing allocates.
pub struct Transcriber<'m> {
    engine: Engine<'m>,
    text: Text<'m>,
}

/// All but the text.
struct Engine<'m> {
    model: &'m Model,
    kernels: Kernels,
    executor: &'m dyn Executor,
    layout: Layout,
    session: Session,
    state: Zeroed,
    scratch: Zeroed,
    timings: Timings,
    interrupt: Option<&'m AtomicBool>,
    /// Samples of the caller's audio that were left out.
    skipped: u64,
    pace: Pace,
    /// Samples that wait for the text to get so far behind before passes get wider than one position, and those that
    /// wait outside of the session.
    patience: u64,
    behind: u64,
    start: Start<'m>,
}

impl<'m> Transcriber<'m> {
    /// A transcriber at the start of its audio.
    ///
    /// # Errors
    /// [`Error::Layout`] if an option is impossible, [`Error::Memory`] if there is not enough.
    pub fn new(model: &'m Model, options: &Options, executor: &'m dyn Executor) -> Result<Self, Error> {
        let layout = Layout::new(model.params(), options)?;
        Ok(Self {
            engine: Engine {
                model,
                kernels: kernels::choose(),
                executor,
                layout,
                session: Session::new(&layout),
                state: Zeroed::new(layout.state_len())?,
                scratch: Zeroed::new(layout.scratch_len())?,
                timings: Timings::default(),
                interrupt: None,
                skipped: 0,
                pace: Pace::default(),
                patience: 0,
                behind: 0,
                start: Start::Computed,
            },
            text: Text::new(model),
        })
    }

    /// Computes with other kernels than those that [`kernels::choose`] found.
    pub fn set_kernels(&mut self, kernels: Kernels) {
        self.engine.kernels = kernels;
    }

    /// From now on keeps what [`Transcriber::prime`] computes, for the utterances that follow.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is not enough.
    pub fn keep_start(&mut self) -> Result<(), Error> {
        let len = Session::silence_len(&self.engine.layout);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| Error::Memory { bytes: len })?;
        bytes.resize(len, 0);
        self.engine.start = Start::Kept { bytes, whole: false };
        Ok(())
    }

    /// From now on [`Transcriber::prime`] takes `bytes`, which [`Transcriber::start`] gave before, in another process
    /// perhaps.
    ///
    /// # Errors
    /// [`SilenceError`] if they are for another model, other options or kernels, or damaged; they are not taken then.
    pub fn set_start(&mut self, bytes: &'m [u8]) -> Result<(), SilenceError> {
        let model = self.engine.model.view().with_kernels(self.engine.kernels);
        Session::check_silence(&self.engine.layout, &model, bytes)?;
        self.engine.start = Start::Given(bytes);
        Ok(())
    }

    /// The start of every utterance, once it has been kept; see [`Session::save_silence`].
    pub fn start(&self) -> Option<&[u8]> {
        self.engine.start.bytes()
    }

    /// Before the first sample of an utterance: gets the part of its start that no audio reaches done, by computing it
    /// or, which takes next to no time, from what was kept or given. It changes no result.
    ///
    /// # Errors
    /// [`Error::Session`] for damaged weights.
    pub fn prime(&mut self) -> Result<(), Error> {
        self.engine.prime()
    }

    /// See [`Session::set_gather`].
    pub fn set_gather(&mut self, positions: usize) {
        self.engine.session.set_gather(positions);
    }

    /// How far the text may fall behind the audio, in samples, before more than one position is decoded in a pass (see
    /// [`Options::batch`]); 0 in the beginning: as soon as two wait.
    pub fn set_max_lag(&mut self, samples: u64) {
        self.engine.patience = samples;
    }

    /// Says that so many samples wait to be pushed: the text is behind by these, too.
    pub fn set_behind(&mut self, samples: u64) {
        self.engine.behind = samples;
    }

    /// Between two steps looks at `flag`, and ends with [`Error::Interrupted`] once it is set.
    pub fn set_interrupt(&mut self, flag: &'m AtomicBool) {
        self.engine.interrupt = Some(flag);
    }

    /// The sizes of its memory.
    pub fn layout(&self) -> &Layout {
        &self.engine.layout
    }

    /// Where the time of this utterance went so far.
    pub fn timings(&self) -> &Timings {
        &self.engine.timings
    }

    /// The session, to ask how far it is.
    pub fn session(&self) -> &Session {
        &self.engine.session
    }

    /// Takes all `samples` (16 kHz, mono) and writes the text that they bring.
    ///
    /// # Errors
    /// [`Error::Session`] for samples that cannot be audio or damaged weights, [`Error::Output`] if the text cannot
    /// be written.
    pub fn push(&mut self, samples: &[f32], out: &mut dyn Write) -> Result<(), Error> {
        self.push_probed(samples, out, &mut NoProbe)
    }

    /// [`Transcriber::push`], showing `probe` the values of every stage.
    ///
    /// # Errors
    /// As [`Transcriber::push`].
    pub fn push_probed(&mut self, samples: &[f32], out: &mut dyn Write, probe: &mut dyn Probe) -> Result<(), Error> {
        let text = &mut self.text;
        self.engine.push(samples, &mut Writer { text, out }, probe)
    }

    /// Takes all `samples` and shows `listener` the tokens that they bring.
    ///
    /// # Errors
    /// [`Error::Session`] as [`Transcriber::push`], and those of the listener.
    pub fn push_to(
        &mut self,
        samples: &[f32],
        listener: &mut dyn Listener,
        probe: &mut dyn Probe,
    ) -> Result<(), Error> {
        self.engine.push(samples, listener, probe)
    }

    /// A pause: writes the text that waits for the delay; the audio goes on. What that means for the model is told at
    /// [`Session::flush`].
    ///
    /// # Errors
    /// As [`Transcriber::push`].
    pub fn flush(&mut self, out: &mut dyn Write) -> Result<(), Error> {
        let text = &mut self.text;
        self.engine.flush(&mut Writer { text, out }, &mut NoProbe)
    }

    /// [`Transcriber::flush`] for tokens.
    ///
    /// # Errors
    /// As [`Transcriber::push_to`].
    pub fn flush_to(&mut self, listener: &mut dyn Listener, probe: &mut dyn Probe) -> Result<(), Error> {
        self.engine.flush(listener, probe)
    }

    /// So many samples of the audio are left out, behind those that were pushed: times count them, nothing else does.
    /// Between a flush and the next push, so that every token has been decided that is spoken before them.
    pub fn skip(&mut self, samples: u64) {
        self.engine.skipped += samples;
    }

    /// The end of the audio: writes the rest of the text. [`Transcriber::reset`] begins the next utterance.
    ///
    /// # Errors
    /// As [`Transcriber::push`].
    pub fn finish(&mut self, out: &mut dyn Write) -> Result<(), Error> {
        self.finish_probed(out, &mut NoProbe)
    }

    /// [`Transcriber::finish`], showing `probe` the values of every stage.
    ///
    /// # Errors
    /// As [`Transcriber::push`].
    pub fn finish_probed(&mut self, out: &mut dyn Write, probe: &mut dyn Probe) -> Result<(), Error> {
        let text = &mut self.text;
        self.engine.finish(&mut Writer { text, out }, probe)?;
        self.text.finish(out)
    }

    /// [`Transcriber::finish`] for tokens.
    ///
    /// # Errors
    /// As [`Transcriber::push_to`].
    pub fn finish_to(&mut self, listener: &mut dyn Listener, probe: &mut dyn Probe) -> Result<(), Error> {
        self.engine.finish(listener, probe)
    }

    /// Ends the utterance where it is, after an error as well: what is held back of its text is written, nothing more
    /// is decoded. Ready for the next utterance.
    ///
    /// # Errors
    /// [`Error::Output`] if the text cannot be written.
    pub fn abandon(&mut self, out: &mut dyn Write) -> Result<(), Error> {
        self.reset();
        self.text.finish(out)
    }

    /// Ready for the next utterance, in the same memory.
    pub fn reset(&mut self) {
        self.engine.session.reset();
        self.engine.timings = Timings::default();
        self.engine.skipped = 0;
        self.engine.behind = 0;
    }

    /// Whether the model ended the text; further audio is not listened to.
    pub fn is_done(&self) -> bool {
        self.engine.session.is_stopped()
    }
}

/// Hears of tokens and does nothing: where only the work counts.
pub(crate) struct Nobody;

impl Listener for Nobody {
    fn token(&mut self, _token: &Decided<'_>) -> Result<(), Error> {
        Ok(())
    }
}

impl Engine<'_> {
    fn prime(&mut self) -> Result<(), Error> {
        let model = self.model.view().with_kernels(self.kernels);
        if let Some(bytes) = self.start.bytes() {
            let mut memory = Memory::carve(&self.layout, &mut self.state, &mut self.scratch)?;
            if self.session.restore_silence(&model, &mut memory, bytes).is_ok() {
                return Ok(());
            }
        }
        self.session.prime();
        self.run(&mut Nobody, &mut NoProbe)?;
        if let Start::Kept { bytes, whole } = &mut self.start {
            let mut memory = Memory::carve(&self.layout, &mut self.state, &mut self.scratch)?;
            *whole |= self.session.save_silence(&model, &mut memory, bytes).is_ok();
        }
        Ok(())
    }

    fn push(&mut self, samples: &[f32], listener: &mut dyn Listener, probe: &mut dyn Probe) -> Result<(), Error> {
        let mut rest = samples;
        while !rest.is_empty() && !self.session.is_stopped() {
            let mut memory = Memory::carve(&self.layout, &mut self.state, &mut self.scratch)?;
            let taken = self.session.feed(&mut memory, rest)?;
            rest = &rest[taken..];
            self.run(listener, probe)?;
        }
        Ok(())
    }

    fn flush(&mut self, listener: &mut dyn Listener, probe: &mut dyn Probe) -> Result<(), Error> {
        self.session.flush();
        self.run(listener, probe)
    }

    fn finish(&mut self, listener: &mut dyn Listener, probe: &mut dyn Probe) -> Result<(), Error> {
        self.session.finish();
        self.run(listener, probe)
    }

    fn run(&mut self, listener: &mut dyn Listener, probe: &mut dyn Probe) -> Result<(), Error> {
        let model = self.model.view().with_kernels(self.kernels);
        let mut memory = Memory::carve(&self.layout, &mut self.state, &mut self.scratch)?;
        loop {
            let interrupted = self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed));
            if interrupted && self.session.tokens_waiting() == 0 {
                return Err(Error::Interrupted);
            }
            let before = Progress::of(&self.session);
            // The position that is decoded next is not late yet.
            let waiting = (before.encoded - before.decoded).saturating_sub(1);
            let late = self.behind + waiting * SAMPLES_PER_POSITION as u64;
            let batch = if late > self.patience { self.pace.width() } else { 1 };
            self.session.set_batch(batch);
            let width = before.width(&self.session);
            let start = Instant::now();
            let step = self.session.step_probed(&model, &mut memory, self.executor, probe)?;
            let time = start.elapsed();
            if self.timings.add(before, &self.session, step, time) {
                let counted = Progress::of(&self.session).decoded - before.decoded;
                self.pace.learn(width, counted as usize, time);
            }
            match step {
                Step::Token(token) => listener.token(&Decided {
                    id: token.id,
                    position: token.position,
                    sample: self.session.audio_sample(token.position) + self.skipped,
                    logits: self.session.logits(&memory).unwrap_or_default(),
                })?,
                Step::Worked => listener.worked()?,
                Step::NeedAudio | Step::Done => return Ok(()),
            }
        }
    }
}
