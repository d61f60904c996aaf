//! `voxtral [transcribe]`: audio files to text.

use std::io::{self, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use voxtral_core::audio::SAMPLE_RATE;
use voxtral_core::layout::SAMPLES_PER_POSITION;
use voxtral_core::model::{LogitHash, Probe, Stage};

use super::console::Console;
use super::options::{ModelOptions, SessionOptions, ThreadOptions};
use super::report;
use crate::audio::AudioFile;
use crate::error::Error;
use crate::interrupt;
use crate::transcriber::Transcriber;
use crate::usage::{self, Peak};

/// Samples that are read from a file at a time: 1 s.
const READ_SAMPLES: usize = SAMPLE_RATE;

/// Transcribe audio files; also what is done without a command
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
    /// Seconds of audio that are gathered before they are transcribed, for --stdin and --from-mic (not built yet)
    #[arg(short = 'I', value_name = "SECS", value_parser = positive)]
    interval: Option<f32>,
    /// Show other tokens that were nearly as likely, within a cutoff from 0 to 1 (not built yet)
    #[arg(long, value_name = "CUTOFF", value_parser = fraction)]
    alt: Option<f32>,
    /// Show what is being done as symbols on standard error (not built yet)
    #[arg(long)]
    monitor: bool,
    /// Write the text elsewhere, or in another form (not built yet)
    #[arg(short, long, value_name = "OUTPUT")]
    output: Option<PathBuf>,
    /// Print nothing but the text and errors
    #[arg(long, overrides_with = "debug")]
    silent: bool,
    /// Print where the time goes and a hash of all logits
    #[arg(long, overrides_with = "silent")]
    debug: bool,
}

/// Where the audio comes from: one of these.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Input {
    /// Audio files, of the formats that --version names
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Audio file, as in voxtral.c
    #[arg(short = 'i', value_name = "FILE")]
    input: Option<PathBuf>,
    /// Audio from standard input (not built yet)
    #[arg(long)]
    stdin: bool,
    /// Audio from the microphone (not built yet)
    #[arg(long)]
    from_mic: bool,
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
    /// An option that is known but has no effect yet: better refused than passed over.
    fn not_built(&self) -> Option<&'static str> {
        [
            (self.input.stdin, "--stdin"),
            (self.input.from_mic, "--from-mic"),
            (self.interval.is_some(), "-I"),
            (self.alt.is_some(), "--alt"),
            (self.monitor, "--monitor"),
            (self.output.is_some(), "--output"),
        ]
        .into_iter()
        .find_map(|(given, option)| given.then_some(option))
    }

    fn files(&self) -> &[PathBuf] {
        match &self.input.input {
            Some(file) => std::slice::from_ref(file),
            None => &self.input.files,
        }
    }
}

pub(super) fn run(args: &Transcribe) -> Result<ExitCode, Error> {
    if let Some(option) = args.not_built() {
        return Err(Error::NotBuilt { option });
    }
    let start = Instant::now();
    let mut console = Console::new(args.silent);
    let model = args.model.open(&console)?;
    let opened = start.elapsed();
    let options = args.session.of(&model, &console)?;
    let pool = args.threads.pool();
    let mut transcriber = Transcriber::new(&model, &options, &pool)?;
    transcriber.set_interrupt(interrupt::flag());
    if args.debug {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
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

    let mut files = Files {
        transcriber,
        out: Line {
            out: io::stdout().lock(),
            begun: false,
        },
        samples: vec![0.0; READ_SAMPLES],
        peak: Peak::default(),
        debug: args.debug,
        console: &mut console,
    };
    let mut failed = false;
    for path in args.files() {
        let Err(error) = files.transcribe(path) else { continue };
        if matches!(error, Error::Output(_)) {
            return Err(error);
        }
        files.transcriber.abandon(&mut files.out)?;
        files.out.end_if_begun().map_err(Error::Output)?;
        match error {
            Error::Interrupted | Error::Session(_) | Error::Text(_) => return Err(error),
            // What is wrong with one file is nothing against the next.
            error => files.console.error(error),
        }
        failed = true;
    }
    report::memory(files.console, &files.peak);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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

/// One file after the other through the same memory.
struct Files<'a> {
    transcriber: Transcriber<'a>,
    out: Line,
    samples: Vec<f32>,
    peak: Peak,
    debug: bool,
    console: &'a mut Console,
}

impl Files<'_> {
    /// Prints the text of a file, a newline, and the report.
    fn transcribe(&mut self, path: &Path) -> Result<(), Error> {
        self.transcriber.reset();
        let start = Instant::now();
        let mut audio = AudioFile::open(path)?;
        let mut hash = LogitHash::default();
        let heard = self.hear(path, &mut audio, &mut hash);
        self.console.end_bar();
        heard?;
        self.out.end().map_err(Error::Output)?;
        self.peak.sample();

        for line in audio.remarks()? {
            self.console.note(format_args!("{}: {line}", path.display()));
        }
        let session = self.transcriber.session();
        let timings = self.transcriber.timings();
        report::times(self.console, path, session.samples_fed(), start.elapsed(), timings);
        if self.debug {
            report::details(self.console, timings);
            self.console
                .note(format_args!("positions {}", session.positions_decoded()));
            self.console.note(format_args!("logit hash {:016x}", hash.value()));
        }
        Ok(())
    }

    /// The audio through the transcriber.
    fn hear(&mut self, path: &Path, audio: &mut AudioFile, hash: &mut LogitHash) -> Result<(), Error> {
        let mut read = audio.read(&mut self.samples)?;
        self.console.begin_bar(path, audio.seconds());
        let mut watch = Watch {
            console: self.console,
            hash: self.debug.then_some(hash),
            left_pad_samples: self.transcriber.session().schedule().left_pad_samples(),
        };
        while read > 0 {
            let samples = &self.samples[..read];
            self.transcriber.push_probed(samples, &mut self.out, &mut watch)?;
            self.peak.sample();
            read = audio.read(&mut self.samples)?;
        }
        self.transcriber.finish_probed(&mut self.out, &mut watch)
    }
}

/// Watches the decoder: shows how far it is, and takes the hash of its logits if that is wanted.
struct Watch<'a> {
    console: &'a Console,
    hash: Option<&'a mut LogitHash>,
    left_pad_samples: u64,
}

impl Probe for Watch<'_> {
    fn stage(&mut self, stage: Stage, first: u64, values: &[f32]) {
        if let Some(hash) = &mut self.hash {
            hash.stage(stage, first, values);
        }
        if stage == Stage::Logits {
            let heard = ((first + 1) * SAMPLES_PER_POSITION as u64).saturating_sub(self.left_pad_samples);
            self.console.progress(heard / SAMPLE_RATE as u64);
        }
    }
}

/// Standard output, which knows whether it is inside a line.
struct Line {
    out: StdoutLock<'static>,
    begun: bool,
}

impl Line {
    fn end(&mut self) -> io::Result<()> {
        self.begun = false;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    fn end_if_begun(&mut self) -> io::Result<()> {
        if self.begun { self.end() } else { Ok(()) }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun |= !bytes.is_empty();
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
