//! An energy gate: silence is not listened to.

use std::collections::VecDeque;

use voxtral_core::audio::SAMPLE_RATE;

/// Samples whose energy is measured together: 10 ms.
const FRAME: usize = SAMPLE_RATE / 100;

/// When the gate opens and closes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateOptions {
    /// What is as loud as this is heard: the level of 10 ms in dB below full scale (a full square wave is 0), their
    /// mean left out.
    pub threshold_dbfs: f32,
    /// Seconds of silence after which it closes.
    pub hold: f32,
    /// Seconds before the first loud sample that are heard when it opens.
    pub lead_in: f32,
}

impl GateOptions {
    /// The shortest hold that cuts no words: the usual lead-in, all of which is held back before it is decided.
    pub const LEAST_HOLD: f32 = 0.5;
}

impl Default for GateOptions {
    fn default() -> Self {
        Self {
            threshold_dbfs: -55.0,
            hold: 1.5,
            lead_in: 0.5,
        }
    }
}

/// What the gate makes of audio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gated<'a> {
    /// To be heard.
    Audio(&'a [f32]),
    /// A pause began: time to flush.
    Closed,
    /// The pause is over; so many samples of it are never heard.
    Opened {
        /// Their number.
        skipped: u64,
    },
}

/// Lets audio through while it is loud, and for a while after. It is open in the beginning.
///
/// No word is cut. The end of the hold, as long as the lead-in, is held back until it is decided: if something loud
/// follows in time, all of it is heard as if there were no gate. If not, the gate closes before what is held back, and
/// that becomes the beginning of the lead-in: so whatever opens the gate, all of a lead-in is heard before it.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Least energy of a frame that is loud.
    threshold: f64,
    hold_frames: u64,
    /// Frames of silence that are heard at once, before the others are held back.
    heard_frames: u64,
    lead_in: usize,
    open: bool,
    frame: Frame,
    /// Mean of the last whole frame.
    offset: f64,
    /// Frames of silence in a row.
    quiet: u64,
    /// The last samples, while they are held back or it is closed.
    held: VecDeque<f32>,
    skipped: u64,
}

/// Sums over the samples of a frame.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    samples: usize,
    sum: f64,
    squares: f64,
}

impl Frame {
    fn add(&mut self, samples: &[f32]) {
        self.samples += samples.len();
        for &sample in samples {
            let sample = f64::from(sample);
            self.sum += sample;
            self.squares += sample * sample;
        }
    }

    fn mean(&self) -> f64 {
        self.sum / self.samples.max(1) as f64
    }

    /// Mean square of the samples less an offset.
    fn energy(&self, offset: f64) -> f64 {
        let count = self.samples.max(1) as f64;
        self.squares / count - 2.0 * offset * self.mean() + offset * offset
    }
}

impl Gate {
    /// An open gate.
    pub fn new(options: GateOptions) -> Self {
        let frames = |seconds: f32| f64::from(seconds) * SAMPLE_RATE as f64 / FRAME as f64;
        let hold_frames = (frames(options.hold).round() as u64).max(1);
        Self {
            threshold: 10f64.powf(f64::from(options.threshold_dbfs) / 10.0),
            hold_frames,
            heard_frames: hold_frames.saturating_sub(frames(options.lead_in).ceil() as u64),
            lead_in: (f64::from(options.lead_in) * SAMPLE_RATE as f64).round() as usize,
            open: true,
            frame: Frame::default(),
            offset: 0.0,
            quiet: 0,
            held: VecDeque::new(),
            skipped: 0,
        }
    }

    /// Whether audio passes.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Samples of the present pause that will not be heard.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Takes audio and says what to do, in this order.
    ///
    /// # Errors
    /// Those of `act`; what follows in `samples` is lost then.
    pub fn push<E>(&mut self, samples: &[f32], mut act: impl FnMut(Gated<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut rest = samples;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(FRAME - self.frame.samples));
            rest = behind;
            self.frame.add(piece);
            if self.open && self.quiet < self.heard_frames {
                act(Gated::Audio(piece))?;
            } else {
                self.held.extend(piece);
            }
            if self.frame.samples == FRAME {
                self.offset = self.frame.mean();
                self.end_frame(&mut act)?;
            }
        }
        Ok(())
    }

    /// The end of the audio, or a gap in it: what is held back is heard, and what is loud in the last, short frame.
    /// Audio may go on behind a gap.
    ///
    /// # Errors
    /// Those of `act`.
    pub fn finish<E>(&mut self, mut act: impl FnMut(Gated<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.frame.samples > 0 {
            self.end_frame(&mut act)?;
        }
        if self.open {
            self.release(&mut act)?;
        }
        self.skipped += self.held.len() as u64;
        self.held.clear();
        Ok(())
    }

    fn end_frame<E>(&mut self, act: &mut impl FnMut(Gated<'_>) -> Result<(), E>) -> Result<(), E> {
        // A frame that the end cut short has no mean of its own.
        let loud = self.frame.energy(self.offset) >= self.threshold;
        self.frame = Frame::default();
        match (loud, self.open) {
            (true, open) => {
                (self.open, self.quiet) = (true, 0);
                if !open {
                    let skipped = std::mem::take(&mut self.skipped);
                    act(Gated::Opened { skipped })?;
                }
                self.release(act)?;
            }
            (false, true) => {
                self.quiet += 1;
                if self.quiet >= self.hold_frames {
                    self.open = false;
                    act(Gated::Closed)?;
                }
            }
            (false, false) => {
                let over = self.held.len().saturating_sub(self.lead_in);
                self.held.drain(..over);
                self.skipped += over as u64;
            }
        }
        Ok(())
    }

    /// Lets what is held be heard.
    fn release<E>(&mut self, act: &mut impl FnMut(Gated<'_>) -> Result<(), E>) -> Result<(), E> {
        if !self.held.is_empty() {
            act(Gated::Audio(self.held.make_contiguous()))?;
            self.held.clear();
        }
        Ok(())
    }
}
