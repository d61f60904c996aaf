//! A session with its memory, its threads and its text.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use voxtral_core::kernels::{Executor, Kernels};
use voxtral_core::layout::{Layout, Memory, Options};
use voxtral_core::model::{NoProbe, Probe};
use voxtral_core::session::{Session, Step};

use crate::error::Error;
use crate::kernels;
use crate::model::Model;
use crate::text::Text;
use crate::timings::{Progress, Timings};

/// Transcribes one utterance after the other: samples in, text out. After it is made, nothing allocates.
pub struct Transcriber<'m> {
    model: &'m Model,
    kernels: Kernels,
    executor: &'m dyn Executor,
    layout: Layout,
    session: Session,
    // Zeroed pages of the system, which cost nothing before they are touched.
    state: Vec<f32>,
    scratch: Vec<f32>,
    text: Text<'m>,
    timings: Timings,
    interrupt: Option<&'m AtomicBool>,
}

impl<'m> Transcriber<'m> {
    /// A transcriber at the start of its audio.
    ///
    /// # Errors
    /// [`Error::Layout`] if an option is impossible, [`Error::Memory`] if there is not enough.
    pub fn new(model: &'m Model, options: &Options, executor: &'m dyn Executor) -> Result<Self, Error> {
        let layout = Layout::new(model.params(), options)?;
        Ok(Self {
            model,
            kernels: kernels::choose(),
            executor,
            layout,
            session: Session::new(&layout),
            state: zeroed(layout.state_len())?,
            scratch: zeroed(layout.scratch_len())?,
            text: Text::new(model),
            timings: Timings::default(),
            interrupt: None,
        })
    }

    /// Computes with other kernels than those that [`kernels::choose`] found.
    pub fn set_kernels(&mut self, kernels: Kernels) {
        self.kernels = kernels;
    }

    /// Between two steps looks at `flag`, and ends with [`Error::Interrupted`] once it is set.
    pub fn set_interrupt(&mut self, flag: &'m AtomicBool) {
        self.interrupt = Some(flag);
    }

    /// The sizes of its memory.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Where the time of this utterance went so far.
    pub fn timings(&self) -> &Timings {
        &self.timings
    }

    /// The session, to ask how far it is.
    pub fn session(&self) -> &Session {
        &self.session
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
        let mut rest = samples;
        while !rest.is_empty() && !self.is_done() {
            let mut memory = Memory::carve(&self.layout, &mut self.state, &mut self.scratch)?;
            let taken = self.session.feed(&mut memory, rest)?;
            rest = &rest[taken..];
            self.run(out, probe)?;
        }
        Ok(())
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
        self.session.finish();
        self.run(out, probe)?;
        self.text.finish(out)
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
        self.session.reset();
        self.timings = Timings::default();
    }

    /// Whether the model ended the text; further audio is not listened to.
    pub fn is_done(&self) -> bool {
        self.session.is_stopped()
    }

    fn run(&mut self, out: &mut dyn Write, probe: &mut dyn Probe) -> Result<(), Error> {
        let model = self.model.view().with_kernels(self.kernels);
        let mut memory = Memory::carve(&self.layout, &mut self.state, &mut self.scratch)?;
        loop {
            if self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                return Err(Error::Interrupted);
            }
            let (before, start) = (Progress::of(&self.session), Instant::now());
            let step = self.session.step_probed(&model, &mut memory, self.executor, probe)?;
            self.timings.add(before, &self.session, step, start.elapsed());
            match step {
                Step::Token(token) => self.text.push(token.id, out)?,
                Step::Worked => self.text.prepare()?,
                Step::NeedAudio | Step::Done => return Ok(()),
            }
        }
    }
}

/// Zeroed memory of the system's, which costs nothing before it is touched.
fn zeroed(len: usize) -> Result<Vec<f32>, Error> {
    // A zeroed allocation cannot fail politely, so the same amount is asked for and given back before.
    let mut asked = Vec::<f32>::new();
    asked.try_reserve_exact(len).map_err(|_| Error::Memory {
        bytes: len.saturating_mul(size_of::<f32>()),
    })?;
    drop(asked);
    Ok(vec![0.0; len])
}
