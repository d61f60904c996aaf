//! The schedule: samples in, tokens out.
//!
//! Streaming is the only mode; a file is a stream that ends. See [`Schedule`] for what is put in front of the audio
//! and behind it.
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod batch;
mod error;
mod guess;
mod schedule;
mod silence;
mod timeline;
mod work;

use batch::Batched;
pub use error::SessionError;
use guess::Guesses;
pub use schedule::Schedule;
pub use silence::SilenceError;
use timeline::Timeline;

use crate::audio::{HOP, LogMel, WINDOW};
use crate::kernels::Executor;
use crate::layout::{Layout, Memory, SAMPLES_PER_POSITION, State};
use crate::model::{Model, NoProbe, Probe};

/// Samples before the first one that the first mel window covers: windows are centred.
const CENTRE: usize = WINDOW / 2;
/// Samples behind the last position that its last mel window covers.
const LOOK_AHEAD: u64 = (CENTRE - HOP) as u64;
/// Largest magnitude that is taken for a sample; audio is in [-1, 1).
pub const MAX_SAMPLE: f32 = 64.0;
/// Last position that a session may start at, 10.9 years into its stream. From there on the angles of RoPE, computed
/// in f64, would get coarser than the f32 that they end in.
pub const MAX_ORIGIN: u64 = 1 << 32;

/// A token that the model decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// The decoder position it was decided at, 80 ms each. That of the left pad's start is 0, unless the session
    /// [started](Session::starting_at) elsewhere.
    pub position: u64,
}

/// What one call of [`Session::step`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Decided a token.
    Token(Token),
    /// Worked without deciding one.
    Worked,
    /// Nothing to do before more samples are fed, or [`Session::finish`] is called.
    NeedAudio,
    /// The utterance is at its end.
    Done,
}

/// One utterance, or one endless stream. Plain data without a lifetime: what it works on is handed to each call.
///
/// A copy of it together with a copy of the state buffer is a snapshot; both put back is a restore.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    layout: Layout,
    schedule: Schedule,
    mel: LogMel,
    /// Fingerprint of the model whose conditioning is in the state.
    model: Option<u64>,
    /// Whether the parts of the state that must start as zeros do.
    started: bool,
    /// Why the state cannot be gone on with.
    failed: Option<SessionError>,
    /// Samples taken from the caller.
    fed: u64,
    /// Samples of the model's time behind the left pad: those taken, and those inserted by flushes.
    heard: u64,
    timeline: Timeline,
    /// Position that a flush wants encoded without waiting for a whole chunk.
    flush_to: u64,
    /// Zeros that go in before any further sample.
    silence: u64,
    /// Values in `state.samples`.
    buffered: usize,
    /// Position of the first row of `state.embeddings`.
    queued_from: u64,
    /// Positions that went through encoder and adapter.
    encoded: u64,
    /// Positions that went through the decoder.
    decoded: u64,
    /// Positions in all, once the end of the audio is known.
    end: Option<u64>,
    last_token: u32,
    /// Positions that an encoder pass waits for.
    gather: usize,
    /// Most positions of a decoder pass behind the prompt.
    batch: usize,
    guesses: Guesses,
    batched: Batched,
    /// Whether the scratch still holds the logits of the last token that was given out.
    has_logits: bool,
    stopped: bool,
}

impl Session {
    /// A session over memory of this layout, at the start of its audio.
    pub fn new(layout: &Layout) -> Self {
        Self::begin(layout, Schedule::new(layout.options()))
    }

    /// A session that counts from another position than 0, as if that much of a stream had gone by in silence and was
    /// forgotten. Positions of tokens and samples of the audio are counted on from there.
    ///
    /// The angles of RoPE are those of the position, so logits are equal to those from 0 up to rounding.
    ///
    /// # Errors
    /// [`SessionError::Origin`] beyond [`MAX_ORIGIN`].
    pub fn starting_at(layout: &Layout, position: u64) -> Result<Self, SessionError> {
        if position > MAX_ORIGIN {
            return Err(SessionError::Origin { position });
        }
        let schedule = Schedule::new(layout.options()).starting_at(position);
        Ok(Self::begin(layout, schedule))
    }

    fn begin(layout: &Layout, schedule: Schedule) -> Self {
        let (origin, samples) = (schedule.origin(), schedule.origin_samples());
        Self {
            layout: *layout,
            schedule,
            mel: LogMel::new(layout.params().global_log_mel_max),
            model: None,
            started: false,
            failed: None,
            fed: samples,
            heard: samples,
            timeline: Timeline::default(),
            flush_to: 0,
            silence: schedule.left_pad_samples(),
            buffered: 0,
            queued_from: origin,
            encoded: origin,
            decoded: origin,
            end: None,
            last_token: 0,
            gather: layout.options().chunk,
            batch: layout.options().batch,
            guesses: Guesses::new(layout.options().streaming_pad),
            batched: Batched::default(),
            has_logits: false,
            stopped: false,
        }
    }

    /// A session in the middle of its audio, for measuring: the next position is `position`, at most [`MAX_ORIGIN`], and
    /// what the caches hold of earlier ones is whatever lies in the state's memory, which must be finite numbers.
    ///
    /// Its steps work as those of a session that came that far, and what they decide means nothing. Positions of the
    /// prompt do not come if `position` is behind them. [`Session::reset`] leads to the start.
    pub fn amid(layout: &Layout, position: u64) -> Self {
        let position = position.min(MAX_ORIGIN);
        Self {
            queued_from: position,
            encoded: position,
            decoded: position,
            ..Self::new(layout)
        }
    }

    /// Back to where it started, for the next utterance in the same memory and with the same model.
    ///
    /// After an error that only a reset ends nothing of the model is kept, its conditioning included.
    pub fn reset(&mut self) {
        *self = Self {
            gather: self.gather,
            batch: self.batch,
            model: if self.failed.is_none() { self.model } else { None },
            ..Self::begin(&self.layout, self.schedule)
        };
    }

    /// Takes as many samples (16 kHz, mono, in [-1, 1)) as there is room for, and says how many.
    ///
    /// It may take none: then [`Session::step`] has work to do first.
    ///
    /// # Errors
    /// [`SessionError::BadSample`], [`SessionError::Finished`] or [`SessionError::OtherMemory`]; nothing has changed
    /// then.
    pub fn feed(&mut self, memory: &mut Memory, samples: &[f32]) -> Result<usize, SessionError> {
        self.check_memory(memory)?;
        if self.end.is_some() || self.stopped {
            return Err(SessionError::Finished);
        }
        let buffered = if self.started { self.buffered } else { CENTRE };
        let room = memory.state.samples.len().saturating_sub(buffered) as u64;
        let room = usize::try_from(room.saturating_sub(self.silence)).unwrap_or(usize::MAX);
        let taken = samples.get(..room).unwrap_or(samples);
        if let Some((index, &value)) = taken
            .iter()
            .enumerate()
            .find(|(_, x)| !(-MAX_SAMPLE..=MAX_SAMPLE).contains(*x))
        {
            return Err(SessionError::BadSample { index, value });
        }
        self.start(&mut memory.state);
        self.pour_silence(&mut memory.state);
        self.buffer(&mut memory.state, taken.len(), |room| room.copy_from_slice(taken));
        self.fed = self.fed.saturating_add(taken.len() as u64);
        self.heard = self.heard.saturating_add(taken.len() as u64);
        Ok(taken.len())
    }

    /// From now on no more than `most` positions are decoded in one pass, at least 1 and no more than the layout has
    /// room for: fewer where guesses fail, or where text is to come as evenly as audio does. It changes no result.
    pub fn set_batch(&mut self, most: usize) {
        self.batch = most.clamp(1, self.layout.options().batch);
    }

    /// From now on an encoder pass waits for so many positions of audio (at least 1, no more than a chunk, which is
    /// what it waits for in the beginning), and then takes all that are there, up to a chunk. It changes no result.
    pub fn set_gather(&mut self, positions: usize) {
        self.gather = positions.clamp(1, self.layout.options().chunk);
    }

    /// See [`Session::set_gather`].
    pub fn gather(&self) -> usize {
        self.gather
    }

    /// See [`Session::set_batch`].
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Positions that no audio reaches, for they lie in the left pad: every utterance begins with the same.
    pub fn silent_positions(layout: &Layout) -> u64 {
        silence::positions(layout)
    }

    /// Lets the next steps compute the positions that no audio reaches without waiting for any, until
    /// [`Step::NeedAudio`]: while nobody speaks yet. After samples were fed it does nothing.
    pub fn prime(&mut self) {
        if self.fed == 0 && self.schedule.origin() == 0 && self.end.is_none() {
            self.flush_to = self.flush_to.max(silence::positions(&self.layout));
        }
    }

    /// Bytes of [`Session::save_silence`].
    pub fn silence_len(layout: &Layout) -> usize {
        silence::len(layout)
    }

    /// Writes what the positions that no audio reaches left in the state, right after they were
    /// [computed](Session::prime): the start of every utterance with this model, these options and kernels of this class.
    ///
    /// # Errors
    /// [`SilenceError::Place`] if the session is elsewhere, [`SilenceError::Length`] unless `bytes` are
    /// [`Session::silence_len`] long, [`SilenceError::OtherMemory`].
    pub fn save_silence(&self, model: &Model, memory: &mut Memory, bytes: &mut [u8]) -> Result<(), SilenceError> {
        silence::save(self, model, memory, bytes)
    }

    /// Whether [`Session::restore_silence`] would take `bytes` for sessions of this layout.
    ///
    /// # Errors
    /// [`SilenceError`].
    pub fn check_silence(layout: &Layout, model: &Model, bytes: &[u8]) -> Result<(), SilenceError> {
        silence::check(layout, model, bytes)
    }

    /// Starts behind the positions that no audio reaches, whose result is in `bytes`. The session is at its start: new,
    /// or reset. All that follows has the bits that computing them would have given.
    ///
    /// # Errors
    /// [`SilenceError`]; then nothing has changed.
    pub fn restore_silence(&mut self, model: &Model, memory: &mut Memory, bytes: &[u8]) -> Result<(), SilenceError> {
        silence::restore(self, model, memory, bytes)
    }

    /// Says that no more samples come: the utterance is padded and decoded to its last position. Once is enough;
    /// again does nothing.
    pub fn finish(&mut self) {
        if self.end.is_none() {
            self.end = Some(self.schedule.positions(self.heard));
            let pad = self.schedule.right_pad_samples(self.heard).saturating_add(LOOK_AHEAD);
            self.silence = self.silence.saturating_add(pad);
        }
    }

    /// Brings out the words that wait for the delay, as at a pause, and lets the stream go on.
    ///
    /// It puts the silence into the model's time that [`Session::finish`] would pad with: up to a whole position, and
    /// `delay + 1 + 10` positions more. So tokens behind it may differ from those of a run without it; runs with
    /// equal flush points are equal, bit for bit. [`Session::audio_sample`] takes the silence out of times again.
    /// Steps until [`Step::NeedAudio`] do the work, without waiting for a whole chunk. After the end it does nothing.
    pub fn flush(&mut self) {
        if self.end.is_none() && !self.stopped {
            let pad = self.schedule.right_pad_samples(self.heard);
            self.timeline.insert(self.heard, pad);
            self.heard = self.heard.saturating_add(pad);
            self.silence = self.silence.saturating_add(pad);
            // The mel windows of the last position reach into what comes behind it.
            let positions = self.heard.div_ceil(SAMPLES_PER_POSITION as u64);
            let whole = positions.saturating_add(self.schedule.left_pad()).saturating_sub(1);
            self.flush_to = self.flush_to.max(whole);
        }
    }

    /// Does one bounded unit of work: the conditioning once, an encoder pass over at most a chunk, a prefill pass,
    /// or a decoder pass; or none, where a pass has decided more tokens than the one that it gave out.
    ///
    /// # Errors
    /// [`SessionError`]. After [`SessionError::NotANumber`] or [`SessionError::Weights`] the same error comes back
    /// until the session is reset.
    pub fn step(&mut self, model: &Model, memory: &mut Memory, executor: &dyn Executor) -> Result<Step, SessionError> {
        self.step_probed(model, memory, executor, &mut NoProbe)
    }

    /// [`Session::step`], showing `probe` the values of every stage.
    ///
    /// # Errors
    /// As [`Session::step`].
    pub fn step_probed(
        &mut self,
        model: &Model,
        memory: &mut Memory,
        executor: &dyn Executor,
        probe: &mut dyn Probe,
    ) -> Result<Step, SessionError> {
        self.check_memory(memory)?;
        if self.layout.params() != model.params() || self.model.is_some_and(|begun| begun != model.fingerprint()) {
            return Err(SessionError::OtherModel);
        }
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.stopped {
            return Ok(Step::Done);
        }
        self.has_logits = false;
        let step = self.work(model, memory, executor, probe);
        self.has_logits = matches!(step, Ok(Step::Token(_)));
        self.failed = step.err();
        step
    }

    /// Samples taken so far; like positions, they are counted on from where the session
    /// [started](Session::starting_at).
    pub fn samples_fed(&self) -> u64 {
        self.fed
    }

    /// Positions decoded so far, padding included; also those whose tokens the next steps will give out.
    pub fn positions_decoded(&self) -> u64 {
        self.decoded
    }

    /// Tokens that have been decided and that the next steps give out, without other work.
    pub fn tokens_waiting(&self) -> usize {
        self.batched.len.saturating_sub(self.batched.told)
    }

    /// Positions that went through the encoder so far, padding included.
    pub fn positions_encoded(&self) -> u64 {
        self.encoded
    }

    /// The position behind the last of the utterance, once [`Session::finish`] was called.
    pub fn positions_in_all(&self) -> Option<u64> {
        self.end
    }

    /// Whether the end-of-text token ended the session before its audio did; see
    /// [`Options::stop_at_end_of_text`](crate::layout::Options::stop_at_end_of_text).
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// The sample of the caller's audio that the model hears at the start of `position`, less the delay: about where
    /// the word was spoken that a token at `position` ends. Silence of padding and flushes does not count; positions
    /// of the prompt are at the first sample.
    pub fn audio_sample(&self, position: u64) -> u64 {
        let positions = position.saturating_add(1).saturating_sub(self.schedule.prompt_len());
        let heard = positions.max(self.schedule.origin());
        self.timeline
            .audio_sample(heard.saturating_mul(SAMPLES_PER_POSITION as u64))
    }

    /// The logits that the last token was decided by, right after [`Step::Token`]; `None` after other calls of
    /// [`Session::step`], where the layout keeps none, and if the scratch has been used for other work since the pass
    /// that decided it.
    pub fn logits<'a>(&self, memory: &'a Memory) -> Option<&'a [f32]> {
        if !self.has_logits || memory.layout != self.layout {
            return None;
        }
        let row = self.batched.told.checked_sub(1)?;
        let verdict = self.batched.tokens.get(row)?;
        let logits = memory.logits(row)?;
        let largest = logits.get(usize::try_from(verdict.own).ok()?)?;
        (largest.to_bits() == verdict.largest.to_bits()).then_some(logits)
    }

    /// The schedule it follows.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn check_memory(&self, memory: &Memory) -> Result<(), SessionError> {
        if memory.layout == self.layout {
            Ok(())
        } else {
            Err(SessionError::OtherMemory)
        }
    }

    /// Zeros what must be zero before the first sample: half a mel window, and the past of the convolutions.
    fn start(&mut self, state: &mut State<&mut [f32]>) {
        if !self.started {
            self.started = true;
            state.stem.mel.fill(0.0);
            state.stem.conv0.fill(0.0);
            self.buffer(state, CENTRE, |room| room.fill(0.0));
        }
    }

    fn pour_silence(&mut self, state: &mut State<&mut [f32]>) {
        let room = state.samples.len().saturating_sub(self.buffered);
        let poured = usize::try_from(self.silence).map_or(room, |silence| silence.min(room));
        self.buffer(state, poured, |room| room.fill(0.0));
        self.silence = self.silence.saturating_sub(poured as u64);
    }

    /// Appends `len` samples, which fit. The room that is written has exactly this length, as far as a compiler sees, too.
    fn buffer(&mut self, state: &mut State<&mut [f32]>, len: usize, write: impl FnOnce(&mut [f32])) {
        let free = state.samples.get_mut(self.buffered..);
        if let Some(room) = free.and_then(|free| free.get_mut(..len)) {
            write(room);
            self.buffered = self.buffered.saturating_add(len);
        }
    }
}
