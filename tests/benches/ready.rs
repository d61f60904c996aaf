//! How long from the start of the process to an index of the full-size file, and until the engine is ready for audio.
//!
//! `cargo bench -p voxtral-tests --bench ready [-- DIR]`. Without a model's directory one of the published layout is
//! made, with holes instead of weights. Every line is the median and the least of many processes, which this program
//! starts in turn, so that all meet the same machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use voxtral::{Model, Pool, Transcriber, WeightsFile};
use voxtral_core::layout::Options;
use voxtral_tests::generator::safetensors::Dtype;
use voxtral_tests::generator::{Spec, Weights};
use voxtral_tests::program;

const RUNS: usize = 41;

/// Tells a process started from here what to do.
const TASK: &str = "VOXTRAL_READY_TASK";

/// What is measured, in the order of the lines.
const TASKS: [(&str, &str); 5] = [
    ("nothing", "bare process start"),
    ("index", "… to the index of the weights"),
    ("ready", "… to ready for audio"),
    ("text", "… to the index from ids to text as well"),
    ("summary", "voxtral inspect --summary"),
];

fn task(task: &str, directory: &Path) {
    if task == "index" {
        let file = WeightsFile::open(&directory.join("consolidated.safetensors")).expect("weights");
        assert!(!file.header().is_empty());
    }
    if task == "ready" || task == "text" {
        let model = Model::open(directory).expect("a model");
        let options = Options::from(model.vocabulary());
        let pool = Pool::new(2);
        let transcriber = Transcriber::new(&model, &options, &pool).expect("a transcriber");
        assert_eq!(transcriber.session().samples_fed(), 0);
        if task == "text" {
            let mut offsets = vec![0; model.vocabulary().index_len()];
            model
                .vocabulary()
                .index(model.tekken(), &mut offsets)
                .expect("a vocabulary");
        }
    }
}

fn main() {
    let directory: Option<PathBuf> = std::env::args_os()
        .skip(1)
        .find(|arg| arg != "--bench")
        .map(PathBuf::from);
    if let Ok(name) = std::env::var(TASK) {
        return task(&name, &directory.expect("a directory"));
    }
    let made = tempfile::tempdir().expect("a directory");
    let directory = directory.unwrap_or_else(|| {
        Spec::real()
            .write(made.path(), Dtype::Bf16, Weights::Sparse)
            .expect("a model");
        made.path().into()
    });
    let this = std::env::current_exe().expect("this program");
    let mut times = vec![vec![]; TASKS.len()];
    for _ in 0..RUNS {
        for ((name, _), times) in TASKS.iter().zip(&mut times) {
            let mut command = match *name {
                "summary" => {
                    let mut command = Command::new(program::path());
                    command.args(["inspect", "--summary"]);
                    command
                }
                _ => Command::new(&this),
            };
            command
                .arg(&directory)
                .env(TASK, name)
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            let start = Instant::now();
            assert!(command.status().expect("a process").success(), "{name}");
            times.push(start.elapsed());
        }
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("{RUNS} processes each     median      least");
    for ((_, what), times) in TASKS.iter().zip(&mut times) {
        times.sort();
        println!("{:>8.2} ms {:>8.2} ms  {what}", ms(times[RUNS / 2]), ms(times[0]));
    }
}
