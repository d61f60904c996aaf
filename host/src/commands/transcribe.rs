//! `voxtral [transcribe]`: audio to text.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use voxtral_core::format::wav::Encoding;
use voxtral_core::layout::MS_PER_POSITION;

use super::console::Console;
use super::hear::Hearing;
use super::monitor::Monitor;
use super::options::{ModelOptions, SessionOptions, ThreadOptions};
use super::output::{Format, Output};
use super::report;
use crate::audio::{AudioFile, Raw};
use crate::error::Error;
use crate::gate::GateOptions;
use crate::interrupt;
use crate::transcriber::Transcriber;
use crate::usage::{self, Peak};

/// The file that is standard input.
const STDIN: &str = "-";

/// Most seconds of `-I`.
const LONGEST_INTERVAL: f32 = 60.0;

/// Transcribe audio files, or live audio; also what is done without a command
#[derive(Args, Debug)]
pub(super) struct Transcribe {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    session: SessionOptions,
    #[command(flatten)]
    threads: ThreadOptions,
    #[command(flatten)]
    raw: RawOptions,
    /// Seconds of audio that are gathered before the encoder runs: fewer answer sooner, more cost less [default: 2]
    #[arg(short = 'I', value_name = "SECS", value_parser = interval, allow_negative_numbers = true)]
    interval: Option<f32>,
    /// Level in dBFS below which audio is a pause that is not listened to; off for none [default: -55 for live audio,
    /// off for files]
    #[arg(long, value_name = "DBFS", value_parser = threshold, allow_negative_numbers = true)]
    gate: Option<Threshold>,
    /// Seconds of silence that begin a pause [default: 1.5]
    #[arg(long, value_name = "SECS", value_parser = positive, allow_negative_numbers = true)]
    hold: Option<f32>,
    /// Show other tokens that were nearly as likely: those of a probability p of which 1 - p / best is at most this
    #[arg(long, value_name = "CUTOFF", value_parser = fraction, allow_negative_numbers = true)]
    alt: Option<f32>,
    /// Show what is being done as symbols on standard error
    #[arg(long)]
    monitor: bool,
    /// What is written
    #[arg(long, value_name = "FORMAT", default_value = "txt")]
    output: Format,
    /// Write to a file, which is there once it is whole, instead of standard output
    #[arg(short = 'o', value_name = "FILE")]
    to: Option<PathBuf>,
    /// Print nothing but the text and errors
    #[arg(long)]
    silent: bool,
    /// Print where the time goes and a hash of all logits
    #[arg(long, overrides_with = "silent")]
    debug: bool,
}

/// Where the audio comes from: one of these.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Input {
    /// Audio files, of the formats that --version names; - is standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Audio file, as in voxtral.c
    #[arg(short = 'i', value_name = "FILE")]
    input: Option<PathBuf>,
    /// Live audio from standard input: what files may be, or s16le of 16 kHz, mono
    #[arg(long)]
    stdin: bool,
    /// Live audio from a microphone, by its name in ALSA [default: default]
    #[arg(long, value_name = "DEVICE", num_args = 0..=1, require_equals = true, default_missing_value = "default")]
    from_mic: Option<String>,
}

/// What the audio is, if its first bytes are not to tell it.
#[derive(Args, Debug)]
struct RawOptions {
    /// Files or standard input are raw samples stored like this
    #[arg(long, value_name = "FORMAT", conflicts_with = "from_mic")]
    format: Option<RawFormat>,
    /// Raw samples are of this rate in Hz [default: 16000]
    #[arg(long, value_name = "N", conflicts_with = "from_mic")]
    rate: Option<u32>,
    /// Raw samples are of so many channels [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "from_mic")]
    channels: Option<u16>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RawFormat {
    U8,
    S16le,
    S24le,
    S32le,
    F32le,
    F64le,
}

impl RawOptions {
    fn get(&self) -> Option<Raw> {
        let default = Raw::default();
        let given = self.format.is_some() || self.rate.is_some() || self.channels.is_some();
        given.then(|| Raw {
            encoding: self.format.map_or(default.encoding, |format| match format {
                RawFormat::U8 => Encoding::PcmU8,
                RawFormat::S16le => Encoding::PcmS16,
                RawFormat::S24le => Encoding::PcmS24,
                RawFormat::S32le => Encoding::PcmS32,
                RawFormat::F32le => Encoding::Float32,
                RawFormat::F64le => Encoding::Float64,
            }),
            rate: self.rate.unwrap_or(default.rate),
            channels: self.channels.unwrap_or(default.channels),
        })
    }
}

/// Whether there is a gate, and where.
#[derive(Clone, Copy, Debug)]
enum Threshold {
    Off,
    Dbfs(f32),
}

fn threshold(text: &str) -> Result<Threshold, String> {
    if text == "off" {
        return Ok(Threshold::Off);
    }
    number(
        text,
        |value| (-200.0..=0.0).contains(&value),
        "off, or a number from -200 to 0",
    )
    .map(Threshold::Dbfs)
}

fn interval(text: &str) -> Result<f32, String> {
    number(
        text,
        |value| value > 0.0 && value <= LONGEST_INTERVAL,
        "a number of seconds above 0, up to 60",
    )
}

fn positive(text: &str) -> Result<f32, String> {
    number(
        text,
        |value| value > 0.0 && value.is_finite(),
        "a number of seconds above 0",
    )
}

fn fraction(text: &str) -> Result<f32, String> {
    number(text, |value| (0.0..=1.0).contains(&value), "a number from 0 to 1")
}

fn number(text: &str, fits: impl Fn(f32) -> bool, wanted: &str) -> Result<f32, String> {
    let value = text.parse().ok().filter(|&value| fits(value));
    value.ok_or_else(|| format!("it has to be {wanted}"))
}

impl Transcribe {
    fn files(&self) -> &[PathBuf] {
        match &self.input.input {
            Some(file) => std::slice::from_ref(file),
            None => &self.input.files,
        }
    }

    /// Whether the audio comes while it is spoken.
    fn is_live(&self) -> bool {
        self.input.stdin || self.input.from_mic.is_some() || self.files() == [Path::new(STDIN)]
    }

    /// The gate that was asked for, or the usual one.
    fn gate(&self) -> Option<GateOptions> {
        let mut options = GateOptions::default();
        match self.gate {
            Some(Threshold::Off) => return None,
            None if !self.is_live() => return None,
            None => {}
            Some(Threshold::Dbfs(level)) => options.threshold_dbfs = level,
        }
        if let Some(hold) = self.hold {
            options.hold = hold;
        }
        Some(options)
    }
}

pub(super) fn run(args: &Transcribe) -> Result<ExitCode, Error> {
    if args.input.from_mic.is_some() && !cfg!(all(feature = "mic", target_os = "linux")) {
        return Err(Error::NoMicrophone);
    }
    if args.files().len() > 1 && !args.output.takes_several() {
        return Err(Error::OneInput);
    }
    let start = Instant::now();
    let mut console = Console::new(args.silent);
    let model = args.model.open(&console)?;
    let opened = start.elapsed();
    let mut options = args.session.of(&model, &console)?;
    if let Some(seconds) = args.interval {
        options.chunk = ((seconds * 1e3 / MS_PER_POSITION as f32).round() as usize).max(1);
    }
    options.stop_at_end_of_text = !args.is_live();
    let pool = args.threads.pool();
    let mut transcriber = Transcriber::new(&model, &options, &pool)?;
    if !args.is_live() {
        transcriber.set_interrupt(interrupt::flag());
    }
    if args.debug {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let times = model.open_times();
        console.note(format_args!(
            "opening took: mapping {:.2} ms, params.json {:.2} ms, tekken.json {:.2} ms, header of the weights {:.2} ms, \
             binding {:.2} ms",
            ms(times.map),
            ms(times.params),
            ms(times.vocabulary),
            ms(times.header),
            ms(times.bind)
        ));
        console.note(format_args!(
            "model opened after {:.2} ms, ready for audio after {:.2} ms",
            ms(opened),
            ms(start.elapsed())
        ));
        console.note(format_args!(
            "kernels {}, {} threads",
            model.view().kernels().name(),
            pool.threads()
        ));
    }
    let layout = transcriber.layout();
    let allocated = (layout.state_len() + layout.scratch_len()) * size_of::<f32>();
    warn_of_low_memory(&console, model.weights_len() as u64, allocated as u64);

    let mut hearing = Hearing {
        transcriber,
        output: Output::new(&model, args.output, args.alt, args.to.as_deref())?,
        gate: args.gate(),
        monitor: Monitor::new(args.monitor),
        peak: Peak::default(),
        debug: args.debug,
        console: &mut console,
    };
    let mut failed = false;
    if args.is_live() {
        let stdin = Path::new("standard input");
        let heard = match (args.input.from_mic.clone(), args.raw.get()) {
            (Some(device), _) => hearing.live(Path::new("microphone"), move || AudioFile::microphone(&device)),
            (None, Some(raw)) => hearing.live(stdin, move || AudioFile::raw_stdin(raw)),
            (None, None) => hearing.live(stdin, AudioFile::stdin),
        };
        failed |= keep_on(&mut hearing, heard)?;
    } else {
        for path in args.files() {
            let heard = hearing.file(path, args.raw.get());
            failed |= keep_on(&mut hearing, heard)?;
        }
    }
    let Hearing {
        output, peak, console, ..
    } = hearing;
    output.close()?;
    report::memory(console, &peak);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Whether an input failed, which is told. What is wrong with one file is nothing against the next; other errors are
/// the end.
fn keep_on(hearing: &mut Hearing<'_>, heard: Result<(), Error>) -> Result<bool, Error> {
    let Err(error) = heard else { return Ok(false) };
    if matches!(error, Error::Output(_)) {
        return Err(error);
    }
    hearing.output.give_up()?;
    match error {
        Error::Interrupted | Error::Session(_) | Error::Text(_) => Err(error),
        error => {
            hearing.console.error(error);
            Ok(true)
        }
    }
}

/// Says it if the model will not stay in memory.
fn warn_of_low_memory(console: &Console, weights: u64, allocated: u64) {
    let Some(available) = usage::available() else { return };
    if weights.saturating_add(allocated) > available {
        let mb = |bytes: u64| bytes as f64 * 1e-6;
        console.note(format_args!(
            "low memory: the model has {:.0} MB of weights and works in {:.0} MB, {:.0} MB are available; weights will \
             be read from disk again and again, so it is slow, but the text is the same",
            mb(weights),
            mb(allocated),
            mb(available)
        ));
    }
}
