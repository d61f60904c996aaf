//! `voxtral [transcribe]`: audio to text.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use voxtral_core::audio::SAMPLE_RATE;
use voxtral_core::format::wav::{Encoding, MAX_RATE, MIN_RATE};
use voxtral_core::layout::{Layout, MAX_BATCH, MS_PER_POSITION, Options};

use super::console::Console;
use super::hear::Hearing;
use super::monitor::Monitor;
use super::new_file::NewFile;
use super::options::{ModelOptions, SessionOptions, ThreadOptions};
use super::output::{Format, Output};
use super::{report, stdout};
use crate::audio::{AudioFile, Raw};
use crate::error::Error;
use crate::gate::GateOptions;
use crate::interrupt;
use crate::kernels;
use crate::map::Bytes;
use crate::model::{FILES, Model};
use crate::start::{open_start, start_file_name};
use crate::transcriber::Transcriber;
use crate::usage::{self, Peak};

/// The file that is standard input.
const STDIN: &str = "-";

/// The output that is standard output.
const STDOUT: &str = "-";

/// Most seconds of `-I`.
const LONGEST_INTERVAL: f32 = 60.0;
/// Most milliseconds that text can be allowed to lag.
const LONGEST_LAG: f32 = 60_000.0;

/// Most seconds of `--hold`.
const LONGEST_HOLD: f32 = 3600.0;

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
    /// Seconds of silence that begin a pause, 0.5 to 3600 [default: 1.5]
    #[arg(long, value_name = "SECS", value_parser = hold, allow_negative_numbers = true)]
    hold: Option<f32>,
    /// Show other tokens that were nearly as likely: those of a probability p of which 1 - p / best is at most this,
    /// 0.5 for instance; in text as [best|other]
    #[arg(long, value_name = "CUTOFF", value_parser = fraction, allow_negative_numbers = true)]
    alt: Option<f32>,
    /// Show what is being done as symbols on standard error: ▶ encoder pass, · decoded position, ▪ one that took
    /// longer than it lasts, ↵ flush, ‖ gate closed, ▷ gate opened (E . s F | o where the locale is not UTF-8); and
    /// every 5 s time of work over that of the audio, audio that waits, and with a gate the quietest and the loudest
    /// 10 ms, between which the level of --gate belongs
    #[arg(long)]
    monitor: bool,
    /// What is written
    #[arg(long, value_name = "FORMAT", default_value = "txt")]
    output: Format,
    /// Write to a file, which is there once it is whole, instead of standard output; - is standard output
    #[arg(short = 'o', value_name = "FILE")]
    to: Option<PathBuf>,
    /// How far the text may fall behind the audio before several positions are decoded in one pass (see --batch)
    #[arg(long, value_name = "MS", value_parser = lag, default_value = "0", hide_default_value = true)]
    max_lag: f32,
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
    /// Audio file, as in voxtral.c; several are heard one after the other
    #[arg(short = 'i', value_name = "FILE")]
    input: Vec<PathBuf>,
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
    #[arg(long, value_name = "N", conflicts_with = "from_mic", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(i64::from(MIN_RATE)..=i64::from(MAX_RATE)))]
    rate: Option<u32>,
    /// Raw samples are of so many channels [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "from_mic", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u16).range(1..))]
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

fn lag(text: &str) -> Result<f32, String> {
    number(
        text,
        |value| (0.0..=LONGEST_LAG).contains(&value),
        "a number of milliseconds from 0 to 60000",
    )
}

/// Not shorter than the lead-in of the gate: what is shorter cuts words.
fn hold(text: &str) -> Result<f32, String> {
    number(
        text,
        |value| (GateOptions::LEAST_HOLD..=LONGEST_HOLD).contains(&value),
        "a number of seconds from 0.5 to 3600",
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
        if self.input.input.is_empty() {
            &self.input.files
        } else {
            &self.input.input
        }
    }

    /// Whether the audio comes while it is spoken.
    fn is_live(&self) -> bool {
        self.input.stdin || self.input.from_mic.is_some() || self.files() == [Path::new(STDIN)]
    }

    /// Where the text goes, if not to standard output.
    fn file(&self) -> Result<Option<NewFile>, Error> {
        let stdin = Path::new(STDIN);
        match &self.to {
            Some(path) if path != Path::new(STDOUT) => {
                let reads_stdin = self.input.stdin || self.files().iter().any(|file| file == stdin);
                NewFile::create(path, self.files(), reads_stdin).map(Some)
            }
            _ => {
                stdout::tell_if_nowhere();
                Ok(None)
            }
        }
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
    let file = args.file()?;
    let start = Instant::now();
    let mut console = Console::new(args.silent);
    let model = args.model.open(&console)?;
    let opened = start.elapsed();
    let mut options = args.session.of(&model, &console)?;
    let mut gather = None;
    if let Some(seconds) = args.interval {
        let gathered = ((seconds * 1e3 / MS_PER_POSITION as f32).round() as usize).max(1);
        gather = Some(gathered);
        // Room for wide passes at the end, and where text is behind.
        options.chunk = gathered.max(MAX_BATCH);
    }
    options.stop_at_end_of_text = !args.is_live();
    options.logits = args.debug || args.alt.is_some() || args.output.has_probabilities();
    let pool = args.threads.pool();
    let shared_start = shared_start(&args.model, &model, &options, &console)?;
    let mut transcriber = Transcriber::new(&model, &options, &pool)?;
    match &shared_start {
        Some((path, bytes)) => {
            if let Err(error) = transcriber.set_start(bytes) {
                console.note(format_args!(
                    "{}: {error}; it is computed instead (voxtral prime writes a new one)",
                    path.display()
                ));
            }
        }
        None if args.files().len() > 1 => transcriber.keep_start()?,
        None => {}
    }
    if let Some(positions) = gather {
        transcriber.set_gather(positions);
    }
    transcriber.set_max_lag((args.max_lag * SAMPLE_RATE as f32 / 1e3) as u64);
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
            kernels::choose().name(),
            pool.threads()
        ));
    }
    if args.output == Format::Json {
        // Only an end that is waited for leaves a whole document.
        interrupt::let_work_end();
    }
    let layout = transcriber.layout();
    let allocated = (layout.state_len() + layout.scratch_len()) * size_of::<f32>();
    warn_of_low_memory(&console, model.weights_len() as u64, allocated as u64);

    let mut hearing = Hearing {
        transcriber,
        output: Output::new(&model, args.output, args.alt, file),
        gate: args.gate(),
        monitor: Monitor::new(args.monitor),
        peak: Peak::default(),
        debug: args.debug,
        console: &mut console,
    };
    let (mut failed, mut broken_off) = (false, None);
    if args.is_live() {
        let stdin = Path::new("standard input");
        let heard = match (args.input.from_mic.clone(), args.raw.get()) {
            (Some(device), _) => hearing.live(Path::new("microphone"), move || AudioFile::microphone(&device)),
            (None, Some(raw)) => hearing.live(stdin, move || AudioFile::raw_stdin(raw)),
            (None, None) => hearing.live(stdin, AudioFile::stdin),
        };
        broken_off = keep_on(&mut hearing, heard, &mut failed)?;
    } else {
        for path in args.files() {
            let heard = hearing.file(path, args.raw.get());
            broken_off = keep_on(&mut hearing, heard, &mut failed)?;
            if broken_off.is_some() {
                break;
            }
        }
    }
    let Hearing {
        output, peak, console, ..
    } = hearing;
    if let Some(error) = broken_off {
        output.break_off()?;
        return Err(error);
    }
    output.close()?;
    report::memory(console, &peak);
    Ok(if failed {
        ExitCode::FAILURE
    } else if interrupt::was_told_to_end() {
        ExitCode::from(interrupt::status())
    } else {
        ExitCode::SUCCESS
    })
}

/// The start of utterances that `voxtral prime` left beside the model, and its path.
fn shared_start(
    named: &ModelOptions,
    model: &Model,
    options: &Options,
    console: &Console,
) -> Result<Option<(PathBuf, Bytes)>, Error> {
    let Some(directory) = named.directory() else {
        return Ok(None);
    };
    let layout = Layout::new(model.params(), options)?;
    let path = directory.join(start_file_name(&layout, kernels::choose().class()));
    // What tells models apart looks at a part of the weights only: none may have changed since.
    if older(&path, &directory.join(FILES[0])) {
        console.note(format_args!(
            "{}: older than the weights; the start is computed instead (voxtral prime writes a new one)",
            path.display()
        ));
        return Ok(None);
    }
    Ok(match open_start(&path) {
        Ok(bytes) => bytes.map(|bytes| (path, bytes)),
        Err(error) => {
            console.note(format_args!("{error}; the start is computed instead"));
            None
        }
    })
}

/// Whether the first file was changed before the second, as far as the system says.
fn older(first: &Path, second: &Path) -> bool {
    let changed = |path| fs::metadata(path).and_then(|found| found.modified());
    matches!((changed(first), changed(second)), (Ok(first), Ok(second)) if first < second)
}

/// Tells what was wrong with an input, if it failed, and goes on: what is wrong with one file is nothing against the
/// next. Other errors are returned, as the end of all.
fn keep_on(hearing: &mut Hearing<'_>, heard: Result<(), Error>, failed: &mut bool) -> Result<Option<Error>, Error> {
    let Err(error) = heard else { return Ok(None) };
    if matches!(error, Error::Output(_)) {
        return Err(error);
    }
    hearing.output.give_up(&error)?;
    match error {
        Error::Interrupted | Error::Session(_) | Error::Text(_) => Ok(Some(error)),
        error => {
            hearing.console.error(error);
            *failed = true;
            Ok(None)
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
