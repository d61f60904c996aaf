//! `voxtral bench`: how fast this computer is, and how near to its limits the model runs on it.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use voxtral_core::layout::{MAX_BATCH, Options};

use super::console::Console;
use super::options::ModelOptions;
use crate::bench::{Bencher, Group, Settings, memory, realtime};
use crate::error::Error;
use crate::model::Model;
use crate::{kernels, usage};

mod report;

use report::Report;

/// Measure this computer: its limits, every operation of the model beside them, whole passes, and memory
///
/// Limits are how fast the mapped weights are read (by 1 to 8 streams per thread, the best of them counts) and how fast
/// numbers are multiplied and added. Everything else is held against the one that binds it, in windows that take turns.
/// Windows in which another program took a processor away are thrown away and counted. Operations that touch no
/// weights work in the processor's caches, so they may be faster than the limit of memory. In the end a clip is
/// transcribed in a fresh session, and the memory that this took is told beside what the layout of the session says.
#[derive(Args, Debug)]
pub(super) struct Bench {
    #[command(flatten)]
    model: ModelOptions,
    /// Threads that compute, 1 to 256; the limits are told for each number of threads [default: one per core]
    #[arg(short, long, value_name = "THREADS", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Time to aim at; single passes of a large model may need more
    #[arg(long, value_name = "N", default_value = "60", value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,
    /// Only whether it keeps up with speech: time per second of audio with 1, 2, 4 … threads, decoding one by one and in
    /// wide passes, with the tokens of a recorded run
    #[arg(long, conflicts_with = "word")]
    realtime: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Only operations and passes with this in their names
    #[arg(value_name = "WORD")]
    word: Option<String>,
}

/// Weights that take a second or so for each second of audio.
const LARGE: usize = 1 << 30;

pub(super) fn run(args: &Bench) -> Result<ExitCode, Error> {
    let start = Instant::now();
    let console = Console::new(false);
    let model = args.model.open(&console)?;
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let kernels = kernels::choose();
    if args.realtime {
        return realtime(args, &model, cores, start);
    }
    let weights = model.weights();
    let from_disk = usage::available().is_some_and(|available| available < weights.len() as u64);
    let settings = Settings {
        kernels,
        threads: args.threads.map_or(cores, usize::from),
        time: Duration::from_secs(args.seconds.into()),
        from_disk,
    };
    let mut bencher = Bencher::new(model.view(), weights, &settings);
    let word = args.word.as_deref();
    let count = bencher.cases(word).len();
    let of_memory = word.is_none_or(|word| memory::NAME.contains(word));
    if count == 0 && !of_memory {
        let word = word.unwrap_or_default().into();
        return Err(Error::NoMeasurement { word });
    }
    bencher.set_cases(count);

    let mut report = Report::new(args.json);
    report.machine(
        &args.model.name(),
        weights.len(),
        kernels.name(),
        cores,
        bencher.threads(),
    );
    let mut notes = vec![];
    if from_disk {
        notes.push("the weights do not fit into the memory that is free: reading them is as fast as their disk");
    } else if args.model.has_holes() {
        notes.push("the file of the weights has holes, which take no memory: reading it is faster than memory is");
    }
    // Memory alone is held against no limit.
    let of_time = count > 0;
    if of_time && !from_disk && !read_weights(&bencher, &console, weights.len())? {
        notes.push("the weights could not all be read in time, so some come from their disk");
    }
    for note in notes {
        console.note(note);
        report.note(note);
    }

    if of_time {
        console.note("measuring the limits");
        report.title("limits", bencher.limits().arithmetic())?;
        let mut counts: Vec<_> = (1..=cores).collect();
        if bencher.threads() > cores {
            counts.push(bencher.threads());
        }
        for threads in counts {
            let limits = bencher.measure_limits(threads)?;
            report.limits(&limits)?;
        }
    }

    let (mut group, mut measured) = (None, vec![]);
    let mut left_out = 0;
    for case in bencher.cases(word) {
        if group != Some(case.group) {
            group = Some(case.group);
            let (name, what) = match case.group {
                Group::Operation => ("operations", "each at the model's shapes"),
                Group::Whole => ("passes", "of the whole model, by the session that transcribes"),
            };
            console.note(format_args!("measuring {name}"));
            report.title(name, what)?;
        }
        let (group, detail) = (case.group, case.detail.clone());
        match bencher.measure(case)? {
            Some(case) => {
                report.case(group, &detail, &case)?;
                measured.push(case);
            }
            None => left_out += 1,
        }
    }
    if of_memory && !measure_memory(&bencher, &model, &console, &mut report)? {
        left_out += 1;
    }
    if left_out > 0 {
        let note = format!("{left_out} measurements were left out: the time is up (see --seconds)");
        console.note(&note);
        report.note(&note);
    }
    report.derived(&bencher.derive(&measured))?;
    report.end(start.elapsed())?;
    Ok(ExitCode::SUCCESS)
}

/// Measures the memory of a transcription; `false` if the time is up.
fn measure_memory(bencher: &Bencher<'_>, model: &Model, console: &Console, report: &mut Report) -> Result<bool, Error> {
    let seconds = if model.weights().len() > LARGE { 1 } else { 20 };
    let options = Options {
        logits: false,
        stop_at_end_of_text: false,
        ..Options::from(model.vocabulary())
    };
    console.note(format_args!("measuring {}", memory::NAME));
    let measured = bencher.measure_memory(&options, seconds)?;
    if let Some(measured) = &measured {
        report.memory(seconds, measured)?;
    }
    Ok(measured.is_some())
}

/// `--realtime`.
fn realtime(args: &Bench, model: &Model, cores: usize, start: Instant) -> Result<ExitCode, Error> {
    let console = Console::new(false);
    let most = args.threads.map_or(cores, usize::from);
    let counts: Vec<_> = [1, 2, 4, 8].into_iter().filter(|&count| count <= most).collect();
    let seconds = if model.weights().len() > LARGE {
        realtime::RECORDED_SECONDS
    } else {
        20.0
    };
    let mut report = Report::new(args.json);
    report.machine(
        &args.model.name(),
        model.weights().len(),
        kernels::choose().name(),
        cores,
        most,
    );
    report.realtime_title(seconds)?;
    for threads in counts {
        for batch in [1, MAX_BATCH] {
            console.note(format_args!(
                "hearing {seconds} s, threads: {threads}, at most in a pass: {batch}"
            ));
            report.realtime(&realtime::measure(model, threads, batch, seconds)?)?;
        }
    }
    report.end(start.elapsed())?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the weights once, so that none of them waits for its disk later; `false` if there was no time for all.
fn read_weights(bencher: &Bencher<'_>, console: &Console, len: usize) -> Result<bool, Error> {
    const WORTH_TELLING: usize = 1 << 30;
    if len > WORTH_TELLING {
        console.note(format_args!("reading {:.1} GB of weights once", len as f64 * 1e-9));
    }
    let mut told = 0;
    bencher.read_weights(&mut |bytes| {
        if bytes - told > WORTH_TELLING {
            told = bytes;
            console.note(format_args!("{:.1} GB read", bytes as f64 * 1e-9));
        }
    })
}
