//! `--monitor`: what is being done, as it is done, in few characters on standard error.

use std::env;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use voxtral_core::audio::SAMPLE_RATE;
use voxtral_core::layout::MS_PER_POSITION;
use voxtral_core::model::Stage;

use super::report;
use crate::timings::Timings;

/// Seconds between two lines of numbers.
const EVERY: Duration = Duration::from_secs(5);

/// A decoded position that takes longer than it lasts.
const SLOW: Duration = Duration::from_millis(MS_PER_POSITION as u64);

/// Samples of a frame whose level is measured: 10 ms, as the gate's.
const FRAME: usize = SAMPLE_RATE / 100;

/// The level that digital silence is told as.
const SILENT_DBFS: f64 = -120.0;

/// What the characters stand for: encoder pass, decoded position, a slow one, flush, gate closed, gate opened.
struct Symbols([&'static str; 6]);

const UNICODE: Symbols = Symbols(["▶", "·", "▪", "↵", "‖", "▷"]);
const ASCII: Symbols = Symbols(["E", ".", "s", "F", "|", "o"]);

/// Shows the work, or nothing if it was not asked for.
pub(super) struct Monitor {
    symbols: Option<Symbols>,
    /// When the last step ended.
    last: Instant,
    /// When the last numbers were shown, and of how many samples.
    told: Instant,
    told_samples: u64,
    /// Time of the steps since.
    busy: Duration,
    levels: Levels,
}

/// The quietest and the loudest frame of the audio, as the gate measures them: the level without the mean.
#[derive(Clone, Copy, Debug)]
struct Levels {
    samples: usize,
    sum: f64,
    squares: f64,
    quietest: f64,
    loudest: f64,
}

impl Levels {
    const NONE: Self = Self {
        samples: 0,
        sum: 0.0,
        squares: 0.0,
        quietest: f64::INFINITY,
        loudest: 0.0,
    };

    fn push(&mut self, sample: f32) {
        let sample = f64::from(sample);
        self.samples += 1;
        self.sum += sample;
        self.squares += sample * sample;
        if self.samples == FRAME {
            let count = FRAME as f64;
            let mean = self.sum / count;
            let energy = (self.squares / count - mean * mean).max(0.0);
            self.quietest = self.quietest.min(energy);
            self.loudest = self.loudest.max(energy);
            (self.samples, self.sum, self.squares) = (0, 0.0, 0.0);
        }
    }

    /// In dB below full scale; none before there was a whole frame.
    fn dbfs(&self) -> Option<(f64, f64)> {
        let level = |energy: f64| (10.0 * energy.log10()).max(SILENT_DBFS);
        (self.quietest <= self.loudest).then(|| (level(self.quietest), level(self.loudest)))
    }
}

impl Monitor {
    pub(super) fn new(shown: bool) -> Self {
        let now = Instant::now();
        let symbols = if is_utf8() { UNICODE } else { ASCII };
        Self {
            symbols: shown.then_some(symbols),
            last: now,
            told: now,
            told_samples: 0,
            busy: Duration::ZERO,
            levels: Levels::NONE,
        }
    }

    /// Steps are done from now on.
    pub(super) fn begin(&mut self) {
        self.last = Instant::now();
    }

    /// A stage was computed.
    pub(super) fn stage(&mut self, stage: Stage) {
        let slow = self.last.elapsed() > SLOW;
        match stage {
            Stage::Adapter => self.show(0),
            Stage::Logits => self.show(if slow { 2 } else { 1 }),
            _ => return,
        }
        self.busy += self.last.elapsed();
        self.last = Instant::now();
    }

    /// A flush, because the gate closed.
    pub(super) fn closed(&mut self) {
        self.show(3);
        self.show(4);
    }

    /// The gate opened.
    pub(super) fn opened(&mut self, skipped: u64) {
        self.show(5);
        self.tell(format_args!("({:.1}s skipped)", seconds(skipped)));
    }

    /// Audio came.
    pub(super) fn hear(&mut self, samples: &[f32]) {
        if self.symbols.is_some() {
            samples.iter().for_each(|&sample| self.levels.push(sample));
        }
    }

    /// From time to time: real-time factor of the steps, audio that waits, positions per pass, and with a gate the levels that
    /// its threshold belongs between. `samples` are those of the audio so far.
    pub(super) fn numbers(&mut self, samples: u64, waiting: usize, timings: &Timings, gate: bool) {
        if self.symbols.is_none() || self.told.elapsed() < EVERY {
            return;
        }
        let heard = seconds(samples.saturating_sub(self.told_samples));
        let factor = self.busy.as_secs_f64() / heard.max(1e-3);
        let levels = match self.levels.dbfs().filter(|_| gate) {
            Some((quietest, loudest)) => format!(", floor {quietest:.0} dBFS, loudest {loudest:.0} dBFS"),
            None => String::new(),
        };
        self.tell(format_args!(
            " {factor:.2}x, {:.1}s behind, {}{levels}\n",
            seconds(waiting as u64),
            report::passes(timings)
        ));
        self.levels = Levels::NONE;
        (self.told, self.told_samples, self.busy) = (Instant::now(), samples, Duration::ZERO);
    }

    /// The end of the line.
    pub(super) fn end(&mut self) {
        self.tell(format_args!("\n"));
    }

    fn show(&self, symbol: usize) {
        if let Some(Symbols(symbols)) = &self.symbols {
            self.tell(format_args!("{}", symbols[symbol]));
        }
    }

    fn tell(&self, what: std::fmt::Arguments<'_>) {
        if self.symbols.is_some() {
            // Nobody may be reading.
            let _ = io::stderr().lock().write_fmt(what);
        }
    }
}

fn seconds(samples: u64) -> f64 {
    samples as f64 / SAMPLE_RATE as f64
}

/// Whether the locale's characters are UTF-8. The first of the variables that is set counts, as POSIX has it.
fn is_utf8() -> bool {
    let value = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    value.is_some_and(|value| {
        let value = value.to_ascii_uppercase();
        value.contains("UTF-8") || value.contains("UTF8")
    })
}
