//! `voxtral [transcribe]`: audio files to text.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use voxtral_core::audio::SAMPLE_RATE;
use voxtral_core::layout::Options;
use voxtral_core::model::{LogitHash, NoProbe, Probe};

use crate::error::Error;
use crate::model::{EMBEDDED_NAME, Model};
use crate::pool::Pool;
use crate::transcriber::Transcriber;
use crate::wav::WavFile;

/// Samples that are read from a file at a time: 1 s.
const READ_SAMPLES: usize = SAMPLE_RATE;

/// Options of the transcription.
#[derive(Args, Debug)]
pub struct Transcribe {
    /// Directory of the model: consolidated.safetensors, params.json, tekken.json
    #[arg(short = 'd', value_name = "DIR")]
    model: Option<PathBuf>,
    /// Audio file: WAV, 16 kHz
    #[arg(
        short = 'i',
        value_name = "FILE",
        required_unless_present = "file",
        conflicts_with = "file"
    )]
    input: Option<PathBuf>,
    /// Audio file: WAV, 16 kHz
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// How far the text lags behind the audio: 80, 160, …, 1200 or 2400 [default: what the model says, 480]
    #[arg(long, value_name = "MS")]
    delay: Option<usize>,
    /// Threads that compute [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Print nothing but the text and errors
    #[arg(long)]
    silent: bool,
    /// Print where the time goes and a hash of all logits
    #[arg(long, conflicts_with = "silent")]
    debug: bool,
}

/// Transcribes the file to standard output.
///
/// # Errors
/// [`Error`], what has been written of the text stays.
pub fn run(args: &Transcribe) -> Result<(), Error> {
    let start = Instant::now();
    let model = match &args.model {
        Some(directory) => Model::open(directory)?,
        None => {
            if !args.silent {
                eprintln!("voxtral: no -d DIR given, using {EMBEDDED_NAME}");
            }
            Model::embedded()?
        }
    };
    let opened = start.elapsed();
    let mut options = Options::from(model.vocabulary());
    if let Some(ms) = args.delay {
        options = options.with_delay_ms(ms)?;
    }
    let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let pool = Pool::new(args.threads.map_or_else(cores, NonZeroUsize::get));
    let mut transcriber = Transcriber::new(&model, &options, &pool)?;
    let ready = start.elapsed();

    let path = args
        .input
        .as_ref()
        .or(args.file.as_ref())
        .expect("clap wants one of the two");
    let mut audio = WavFile::open(path)?;
    let mut hash = LogitHash::default();
    let probe: &mut dyn Probe = if args.debug { &mut hash } else { &mut NoProbe };
    let out = &mut io::stdout().lock();
    let mut samples = vec![0.0; READ_SAMPLES];
    loop {
        let read = audio.read(&mut samples)?;
        if read == 0 {
            break;
        }
        transcriber.push_probed(&samples[..read], out, probe)?;
    }
    transcriber.finish_probed(out, probe)?;
    writeln!(out).and_then(|()| out.flush()).map_err(Error::Output)?;

    for line in audio.remarks()? {
        eprintln!("voxtral: {}: {line}", path.display());
    }
    if !args.silent {
        report(transcriber.session().samples_fed(), start.elapsed() - ready);
    }
    if args.debug {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        eprintln!(
            "model opened     {:.2} ms after start, ready for audio {:.2} ms",
            ms(opened),
            ms(ready)
        );
        eprintln!(
            "kernels          {}, {} threads",
            model.view().kernels().name(),
            pool.threads()
        );
        eprintln!("positions        {}", transcriber.session().positions_decoded());
        eprintln!("logit hash       {:016x}", hash.value());
    }
    Ok(())
}

fn report(samples: u64, time: Duration) {
    let audio = samples as f64 / SAMPLE_RATE as f64;
    let seconds = time.as_secs_f64();
    eprintln!("voxtral: {audio:.2} s of audio in {seconds:.2} s");
}
