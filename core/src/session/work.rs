//! What one step computes: the conditioning once, then encoder passes over what audio there is, and decoder passes over
//! what they leave.

use super::batch::Proposed;
use super::{Session, SessionError, Step};
use crate::audio::{HOP, MEL_BINS, WINDOW};
use crate::kernels::Executor;
use crate::layout::{EncoderScratch, MAX_BATCH, Memory, SAMPLES_PER_POSITION, window_samples};
use crate::model::{self, Model, Pass, Place, Probe, Stage};

impl Session {
    /// One step of a session that goes on.
    pub(super) fn work(
        &mut self,
        model: &Model,
        memory: &mut Memory,
        executor: &dyn Executor,
        probe: &mut dyn Probe,
    ) -> Result<Step, SessionError> {
        let pass = &mut Pass {
            model,
            ops: model.ops(executor),
            probe,
        };
        if self.model.is_none() {
            self.condition(pass, memory)?;
            self.model = Some(model.fingerprint());
            return Ok(Step::Worked);
        }
        if let Some(token) = self.give_out() {
            return Ok(Step::Token(token));
        }
        if self.decoded < self.encoded {
            return self.decode(pass, memory);
        }
        self.start(&mut memory.state);
        self.pour_silence(&mut memory.state);
        let positions = self.positions_ready()?;
        if positions > 0 {
            self.encode(pass, memory, positions)?;
            return Ok(Step::Worked);
        }
        Ok(if self.end.is_some() {
            Step::Done
        } else {
            Step::NeedAudio
        })
    }

    /// Positions of the next encoder pass: all whose samples are there, up to a chunk, once enough are gathered; at the
    /// end and at a flush, once all that are left are. 0 if samples are missing.
    fn positions_ready(&self) -> Result<usize, SessionError> {
        let chunk = self.layout.options().chunk;
        let until = self.end.or(Some(self.flush_to).filter(|&to| to > self.encoded));
        let left = until.map_or(u64::MAX, |end| end.saturating_sub(self.encoded));
        let most = usize::try_from(left).map_or(chunk, |left| left.min(chunk));
        let wanted = if until.is_some() { most } else { self.gather };
        if self.buffered < window_samples(wanted)? {
            return Ok(0);
        }
        let there = self.buffered.saturating_sub(window_samples(0)?) / SAMPLES_PER_POSITION;
        Ok(there.min(most))
    }

    fn condition(&mut self, pass: &mut Pass, memory: &mut Memory) -> Result<(), SessionError> {
        let (state, scratch) = memory.condition()?;
        let delay = self.layout.options().delay_tokens;
        model::condition(pass, delay, scratch, state.ada)?;
        Ok(())
    }

    /// Mel, stem, encoder and adapter over the next `positions`, whose samples are there.
    fn encode(&mut self, pass: &mut Pass, memory: &mut Memory, positions: usize) -> Result<(), SessionError> {
        let params = self.layout.params();
        let factor = params.downsample_factor as u64;
        let place = Place {
            first: self.encoded.saturating_mul(factor),
            origin: self.schedule.origin().saturating_mul(factor),
        };

        let (state, EncoderScratch { x, .. }, scratch) = memory.stem(positions)?;
        let windows = state.samples.windows(WINDOW).step_by(HOP);
        // The stem's first two frames are those it carries.
        let frames = scratch.mel.chunks_exact_mut(MEL_BINS).skip(2);
        for (frame, window) in frames.zip(windows) {
            if let (Some(frame), Some(window)) = (frame.first_chunk_mut(), window.first_chunk()) {
                self.mel.frame(window, frame);
            }
        }
        model::stem::stem(pass, place.first, &mut state.stem, scratch, x)?;

        let (state, encoder, scratch) = memory.encoder(positions)?;
        model::encoder::layers(pass, &self.layout, place, state.encoder_cache, encoder, scratch)?;

        let (state, EncoderScratch { x, .. }, scratch) = memory.adapter(positions)?;
        let values = positions.saturating_mul(params.decoder.dim);
        let embeddings = state.embeddings.get_mut(..values).unwrap_or_default();
        model::encoder::adapt(pass, place.first, x, scratch, embeddings)?;
        if embeddings.iter().any(|value| !value.is_finite()) {
            return Err(SessionError::NotANumber {
                stage: Stage::Adapter,
                position: self.encoded,
            });
        }

        let used = positions.saturating_mul(SAMPLES_PER_POSITION);
        state.samples.copy_within(used.min(self.buffered)..self.buffered, 0);
        self.buffered = self.buffered.saturating_sub(used);
        self.queued_from = self.encoded;
        self.encoded = self.encoded.saturating_add(positions as u64);
        Ok(())
    }

    /// The decoder over what waits of the prompt, or over some positions behind it.
    ///
    /// Behind the prompt the input of a position is the token of the one before. Those beyond the first are guessed: the
    /// pass counts as far as what it decides is what was guessed, and one position further. What it wrote to the cache
    /// behind that is written again before anything looks at it.
    fn decode(&mut self, pass: &mut Pass, memory: &mut Memory) -> Result<Step, SessionError> {
        let params = &self.layout.params().decoder;
        let first = self.decoded;
        let prompt_end = self.schedule.prompt_end();
        let waiting = self.encoded.saturating_sub(first);
        let prompt = waiting.min(prompt_end.saturating_sub(first));
        // Positions that tokens are decided at: the last one of the prompt, or those of a batch.
        let (positions, deciding) = if prompt > 0 {
            (prompt, usize::from(first.saturating_add(prompt) == prompt_end))
        } else {
            let batch = self.batch.min(usize::try_from(waiting).unwrap_or(self.batch)).max(1);
            (batch as u64, batch)
        };
        let end = first.saturating_add(positions);
        let guesses = self.guess(pass.probe, first, deciding);

        let rows = usize::try_from(positions).unwrap_or(usize::MAX);
        let queued = usize::try_from(first.saturating_sub(self.queued_from)).unwrap_or(usize::MAX);
        let (state, (mut decoder, mut layer)) = memory.decoder(rows)?;
        let embeddings = state.embeddings.chunks_exact(params.dim).skip(queued);
        for (row, embedding) in decoder.x.chunks_exact_mut(params.dim).zip(embeddings) {
            row.copy_from_slice(embedding);
        }
        let behind = core::iter::once(self.last_token).chain(guesses);
        let before = (first..prompt_end).map_while(|position| self.schedule.prompt_id(position));
        let tokens = before.chain(behind).take(rows);
        model::decoder::embed(pass, tokens, decoder.x)?;
        model::decoder::layers(
            pass,
            &self.layout,
            Place {
                first,
                origin: self.schedule.origin(),
            },
            state.ada,
            state.decoder_cache,
            &mut decoder,
            &mut layer,
        )?;
        if deciding == 0 {
            self.decoded = end;
            return Ok(Step::Worked);
        }

        let mut tokens = [None; MAX_BATCH];
        model::decoder::head(pass, deciding, &mut decoder, layer.quantised, &mut tokens)?;
        let proposed = Proposed {
            first: end.saturating_sub(deciding as u64),
            tokens: tokens.get(..deciding).unwrap_or_default(),
            logits: decoder.logits,
            vocab_size: params.vocab_size,
        };
        self.verify(pass.probe, &proposed, &guesses)?;
        Ok(self.give_out().map_or(Step::Worked, Step::Token))
    }
}
