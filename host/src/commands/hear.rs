//! Audio through the model to the output: files one after the other, or a live source.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use voxtral_core::audio::SAMPLE_RATE;
use voxtral_core::layout::SAMPLES_PER_POSITION;
use voxtral_core::model::{LogitHash, Probe, Stage};

use super::console::Console;
use super::monitor::Monitor;
use super::output::Output;
use super::report;
use crate::audio::{AudioFile, Raw};
use crate::capture::{Capture, Taken};
use crate::error::Error;
use crate::gate::{Gate, GateOptions, Gated};
use crate::interrupt;
use crate::transcriber::Transcriber;
use crate::usage::Peak;

/// Samples that are read from a file at a time: 1 s.
const READ_SAMPLES: usize = SAMPLE_RATE;

/// Samples of a live source that are worth waking up for, where answers come in larger steps anyway: 50 ms.
const WORTH: usize = SAMPLE_RATE / 20;
/// Beyond its end a position needs so many samples, and reads are of as many.
const LOOK_AHEAD: usize = 40;

/// How long a live source is waited for before looking for Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(100);

/// One input after the other through the same memory.
pub(super) struct Hearing<'a> {
    pub(super) transcriber: Transcriber<'a>,
    pub(super) output: Output<'a>,
    pub(super) gate: Option<GateOptions>,
    pub(super) monitor: Monitor,
    pub(super) peak: Peak,
    pub(super) debug: bool,
    pub(super) console: &'a mut Console,
}

impl Hearing<'_> {
    /// Writes what is said in a file, of raw samples if that is said of it, and the report.
    pub(super) fn file(&mut self, path: &Path, raw: Option<Raw>) -> Result<(), Error> {
        let start = Instant::now();
        let mut audio = match (path == Path::new("-"), raw) {
            (true, None) => AudioFile::stdin()?,
            (true, Some(raw)) => AudioFile::raw_stdin(raw)?,
            (false, None) => AudioFile::open(path)?,
            (false, Some(raw)) => AudioFile::open_raw(path, raw)?,
        };
        let mut samples = vec![0.0; READ_SAMPLES];
        let mut read = audio.read(&mut samples)?;
        self.console.begin_bar(path, audio.seconds());
        let mut samples_read = 0;
        let heard = self.hear(path, Some(start), |ears| {
            while read > 0 {
                samples_read += read as u64;
                ears.push(&samples[..read])?;
                read = audio.read(&mut samples)?;
            }
            Ok(())
        });
        self.console.end_bar();
        heard?;
        // What is lost is told even where only errors are.
        let samples_fed = self.transcriber.session().samples_fed();
        if self.transcriber.is_done() && samples_fed < samples_read {
            let seconds = |samples: u64| samples as f64 / SAMPLE_RATE as f64;
            self.console.error(format_args!(
                "{}: the model ended the text at {:.2} s of {:.2} s; what follows was not listened to",
                path.display(),
                seconds(samples_fed),
                seconds(samples_read)
            ));
        }
        for line in audio.remarks_on(path)? {
            self.console.error(format_args!("{line}"));
        }
        Ok(())
    }

    /// Writes what is said in a source that is still speaking, until it ends or Ctrl-C. What came before Ctrl-C is
    /// heard to its end.
    pub(super) fn live(
        &mut self,
        name: &Path,
        open: impl FnOnce() -> Result<AudioFile, Error> + Send + 'static,
    ) -> Result<(), Error> {
        interrupt::let_work_end();
        let capture = Capture::begin(open);
        let least = if self.transcriber.session().gather() == 1 {
            LOOK_AHEAD
        } else {
            WORTH
        };
        let mut samples = Vec::new();
        self.hear(name, None, |ears| {
            loop {
                let interrupted = interrupt::flag().load(Ordering::Relaxed);
                let patience = if interrupted { Duration::ZERO } else { PATIENCE };
                match capture.take(&mut samples, least, patience)? {
                    Taken::Samples { lost } => {
                        ears.transcriber.set_behind(capture.waiting() as u64);
                        ears.push(&samples)?;
                        ears.lose(lost)?;
                    }
                    Taken::Nothing => {}
                    Taken::End => return Ok(()),
                }
                let (waiting, timings) = (capture.waiting(), ears.transcriber.timings());
                ears.monitor
                    .numbers(ears.samples, waiting, timings, ears.gate.is_some());
                if interrupted {
                    return Ok(());
                }
            }
        })?;
        for line in capture.remarks() {
            self.console.error(format_args!("{}: {line}", name.display()));
        }
        Ok(())
    }

    /// An input from its beginning to its end; `feed` gives its audio. A live one has no `start` that says anything:
    /// most of the time is waiting for it.
    fn hear(
        &mut self,
        name: &Path,
        start: Option<Instant>,
        mut feed: impl FnMut(&mut Ears<'_, '_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.transcriber.reset();
        self.transcriber.prime()?;
        self.output.begin(name.display().to_string())?;
        let mut hash = LogitHash::default();
        let left_pad_samples = self.transcriber.session().schedule().left_pad_samples();
        let mut ears = Ears {
            gate: self.gate.map(Gate::new),
            transcriber: &mut self.transcriber,
            output: &mut self.output,
            peak: &mut self.peak,
            monitor: &mut self.monitor,
            console: self.console,
            hash: self.debug.then_some(&mut hash),
            left_pad_samples,
            samples: 0,
        };
        feed(&mut ears)?;
        ears.finish()?;
        let samples = ears.samples;
        self.output.end()?;
        self.monitor.end();
        self.peak.sample();

        // The report is written below the text, not above a bar.
        self.console.end_bar();
        let (session, timings) = (self.transcriber.session(), self.transcriber.timings());
        let wall = start.map(|start| start.elapsed());
        report::times(self.console, name, samples, wall, timings);
        if self.debug {
            report::details(self.console, timings);
            self.console
                .note(format_args!("positions {}", session.positions_decoded()));
            self.console.note(format_args!("logit hash {:016x}", hash.value()));
        }
        Ok(())
    }
}

/// What audio of one input goes through.
struct Ears<'a, 'm> {
    gate: Option<Gate>,
    transcriber: &'a mut Transcriber<'m>,
    output: &'a mut Output<'m>,
    peak: &'a mut Peak,
    monitor: &'a mut Monitor,
    console: &'a Console,
    hash: Option<&'a mut LogitHash>,
    left_pad_samples: u64,
    /// Samples of the input so far.
    samples: u64,
}

impl Ears<'_, '_> {
    fn push(&mut self, samples: &[f32]) -> Result<(), Error> {
        self.samples += samples.len() as u64;
        self.output.hear(samples);
        self.monitor.hear(samples);
        match self.gate.take() {
            None => self.act(Gated::Audio(samples))?,
            Some(mut gate) => {
                let pushed = gate.push(samples, |gated| self.act(gated));
                self.gate = Some(gate);
                pushed?;
            }
        }
        self.peak.sample();
        Ok(())
    }

    /// Audio was lost: it is told, and times count it.
    fn lose(&mut self, samples: u64) -> Result<(), Error> {
        if samples == 0 {
            return Ok(());
        }
        let seconds = |samples: u64| samples as f64 / SAMPLE_RATE as f64;
        self.console.error(format_args!(
            "{:.2} s of audio were lost after {:.2} s: it comes faster than it is heard",
            seconds(samples),
            seconds(self.samples)
        ));
        // What was said before it is heard, and decided before it.
        self.end_of_audio()?;
        self.act(Gated::Closed)?;
        if let Some(hash) = &self.hash {
            self.console.note(format_args!(
                "logit hash {:016x} of the first {} samples",
                hash.value(),
                self.samples
            ));
        }
        self.output.gap(seconds(self.samples), seconds(samples))?;
        self.transcriber.skip(samples);
        self.output.hear_nothing(samples);
        self.samples += samples;
        Ok(())
    }

    /// Nothing follows, or nothing directly: what the gate holds back is heard.
    fn end_of_audio(&mut self) -> Result<(), Error> {
        if let Some(mut gate) = self.gate.take() {
            let ended = gate.finish(|gated| self.act(gated));
            self.gate = Some(gate);
            ended?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.end_of_audio()?;
        let (transcriber, output, mut watch) = self.parts();
        transcriber.finish_to(output, &mut watch)
    }

    fn act(&mut self, gated: Gated<'_>) -> Result<(), Error> {
        let (transcriber, output, mut watch) = self.parts();
        match gated {
            Gated::Audio(samples) => transcriber.push_to(samples, output, &mut watch),
            Gated::Closed => {
                transcriber.flush_to(output, &mut watch)?;
                watch.monitor.closed();
                output.pause()
            }
            Gated::Opened { skipped } => {
                transcriber.skip(skipped);
                watch.monitor.opened(skipped);
                Ok(())
            }
        }
    }
}

impl<'m> Ears<'_, 'm> {
    fn parts(&mut self) -> (&mut Transcriber<'m>, &mut Output<'m>, Watch<'_>) {
        self.monitor.begin();
        let watch = Watch {
            console: self.console,
            monitor: self.monitor,
            hash: self.hash.as_deref_mut(),
            left_pad_samples: self.left_pad_samples,
        };
        (self.transcriber, self.output, watch)
    }
}

/// Watches the model: shows how far it is, and takes the hash of its logits if that is wanted.
struct Watch<'a> {
    console: &'a Console,
    monitor: &'a mut Monitor,
    hash: Option<&'a mut LogitHash>,
    left_pad_samples: u64,
}

impl Probe for Watch<'_> {
    fn stage(&mut self, stage: Stage, first: u64, values: &[f32]) {
        if let Some(hash) = &mut self.hash {
            hash.stage(stage, first, values);
        }
        self.monitor.stage(stage);
        if stage == Stage::Logits {
            let heard = ((first + 1) * SAMPLES_PER_POSITION as u64).saturating_sub(self.left_pad_samples);
            self.console.progress(heard / SAMPLE_RATE as u64);
        }
    }
}
