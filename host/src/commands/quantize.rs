//! `voxtral quantize`: a model with smaller weights.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Instant;

use clap::Args;

use super::console::Console;
use super::new_file::NewFile;
use super::options::ThreadOptions;
use super::stdout::{self, Stdout};
use crate::error::Error;
use crate::interrupt;
use crate::model::{FILES, Model};
use crate::quantize::{Activations, Errors, Job, Override, Plan, Planned, Recipe, Watch};
use crate::usage::Peak;
use crate::weights::WeightsFile;

/// Write a model with smaller weights, and what that costs tensor by tensor
#[derive(Args, Debug)]
pub(super) struct Quantize {
    /// Directory of the model
    #[arg(value_name = "IN")]
    from: PathBuf,
    /// Directory for the new one, which must not have one yet
    #[arg(value_name = "OUT")]
    to: PathBuf,
    /// How small the weights become
    #[arg(long, value_enum)]
    recipe: Recipe,
    /// Audio to weigh errors by: those count more in columns that it needs more
    #[arg(long, value_name = "AUDIO", num_args = 1..)]
    calibrate: Vec<PathBuf>,
    /// Another storage than the recipe's for matrices whose name has PART in it: PART=q8, PART=q4 or PART=keep; the
    /// last that fits counts
    #[arg(long, value_name = "PART=STORAGE", value_parser = Override::parse)]
    set: Vec<Override>,
    #[command(flatten)]
    threads: ThreadOptions,
    /// Print nothing but errors
    #[arg(long)]
    silent: bool,
}

pub(super) fn run(args: &Quantize) -> Result<ExitCode, Error> {
    let start = Instant::now();
    stdout::tell_if_nowhere();
    let mut console = Console::new(args.silent);
    let model = Model::open(&args.from)?;
    let out = Directory::create(&args.from, &args.to)?;
    interrupt::let_work_end();
    let pool = args.threads.pool();
    let source = WeightsFile::open(&args.from.join(FILES[0]))?;
    let plan = Plan::new(&source, model.params(), args.recipe, &args.set)?;
    let activations = Activations::gather(&model, &args.calibrate, &pool, |_, _| interrupted())?;
    for remark in &activations.remarks {
        console.error(format_args!("{remark}"));
    }

    let path = args.to.join(FILES[0]);
    let inputs = FILES.map(|file| args.from.join(file));
    let mut file = NewFile::create(&path, &inputs, false)?;
    console.begin_bytes(args.recipe_name(), plan.source_len());
    let mut table = Table {
        console: &console,
        silent: args.silent,
        width: plan.tensors.iter().map(|tensor| tensor.name.len()).max().unwrap_or(0),
        all: Totals::default(),
        peak: Peak::default(),
    };
    table.headings()?;
    let job = Job {
        source: &source,
        plan: &plan,
        activations: &activations,
        executor: &pool,
    };
    job.write(&path, &mut file, &mut table)?;
    table.totals(&plan)?;
    let peak = table.peak;
    console.end_bar();
    let refuse = |path: &Path| {
        let path = path.to_path_buf();
        move |source| Error::File { path, source }
    };
    // The weights come last: with them it is a model.
    for name in &FILES[1..] {
        let path = args.to.join(name);
        let mut file = NewFile::create(&path, &inputs, false)?;
        let bytes = fs::read(args.from.join(name)).map_err(refuse(&args.from.join(name)))?;
        file.write_all(&bytes).map_err(refuse(&path))?;
        out.keep(file, name)?;
    }
    out.keep(file, FILES[0])?;
    out.done();
    if let Some((resident, _)) = peak.get() {
        console.note(format_args!(
            "{}: {} bytes written in {:.1} s; memory at its highest: {:.0} MB allocated, beside {:.0} MB of mapped files",
            args.to.display(),
            plan.len(),
            start.elapsed().as_secs_f64(),
            resident.anonymous as f64 * 1e-6,
            resident.file as f64 * 1e-6
        ));
    }
    Ok(ExitCode::SUCCESS)
}

impl Quantize {
    fn recipe_name(&self) -> &'static str {
        self.recipe.name()
    }
}

fn interrupted() -> Result<(), Error> {
    if interrupt::flag().load(Ordering::Relaxed) {
        Err(Error::Interrupted)
    } else {
        Ok(())
    }
}

/// The directory that is written. What was put there is taken away again unless all of it was.
struct Directory {
    path: PathBuf,
    /// Whether it was made for this.
    made: bool,
    kept: std::cell::RefCell<Vec<PathBuf>>,
}

impl Directory {
    /// # Errors
    /// [`Error::OutputIsInput`] and [`Error::Exists`] if it has files of a model, [`Error::File`].
    fn create(from: &Path, path: &Path) -> Result<Self, Error> {
        let refuse = |source| Error::File {
            path: path.into(),
            source,
        };
        let same = |a: &Path, b: &Path| Some(a.canonicalize().ok()? == b.canonicalize().ok()?);
        if same(from, path) == Some(true) {
            return Err(Error::OutputIsInput { path: path.into() });
        }
        for name in FILES {
            let file = path.join(name);
            // Even a link to nothing is something.
            if file.symlink_metadata().is_ok() {
                return Err(Error::Exists { path: file });
            }
        }
        let made = match fs::create_dir(path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => false,
            Err(error) => return Err(refuse(error)),
        };
        Ok(Self {
            path: path.into(),
            made,
            kept: Vec::new().into(),
        })
    }

    /// A file of it is whole.
    fn keep(&self, file: NewFile, name: &str) -> Result<(), Error> {
        let path = self.path.join(name);
        if path.symlink_metadata().is_ok() {
            return Err(Error::Exists { path });
        }
        file.keep().map_err(|source| Error::File {
            path: path.clone(),
            source,
        })?;
        self.kept.borrow_mut().push(path);
        Ok(())
    }

    /// All is there.
    fn done(mut self) {
        self.made = false;
        self.kept.get_mut().clear();
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What cannot be removed stays; there is nobody to tell.
        for path in self.kept.get_mut() {
            let _ = fs::remove_file(path);
        }
        if self.made {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// What tensors of one storage come to.
#[derive(Clone, Copy, Default)]
struct Total {
    tensors: u64,
    elements: u64,
    bytes: u64,
    errors: Errors,
}

impl Total {
    fn add(&mut self, tensor: &Planned<'_>, errors: Option<&Errors>) {
        self.tensors += 1;
        self.elements += tensor.elements();
        self.bytes += tensor.bytes;
        if let Some(errors) = errors {
            self.errors.add(errors);
        }
    }
}

/// Totals by the name of the storage, in the order in which they came.
type Totals = Vec<(&'static str, Total)>;

/// Lines on standard output, one for each tensor as it is done.
struct Table<'a> {
    console: &'a Console,
    silent: bool,
    /// Of the longest name.
    width: usize,
    all: Totals,
    peak: Peak,
}

impl Table<'_> {
    fn line(&self, line: String) -> Result<(), Error> {
        if self.silent {
            return Ok(());
        }
        let write = || Stdout.write_all(format!("{}\n", line.trim_end()).as_bytes());
        self.console.suspend(write).map_err(Error::Output)
    }

    fn headings(&self) -> Result<(), Error> {
        let width = self.width;
        self.line(format!(
            "{:<width$}  storage  bits/weight  largest error    rms error  relative",
            "tensor"
        ))
    }

    fn row(&self, name: &str, storage: &str, bits: f64, errors: Option<&Errors>, remark: &str) -> Result<(), Error> {
        let width = self.width;
        let errors = match errors {
            Some(errors) => format!(
                "{:>13.3e}  {:>11.3e}  {:>8.5}",
                errors.largest,
                errors.rms(),
                errors.relative()
            ),
            None => format!("{:>13}  {:>11}  {:>8}", "-", "-", "-"),
        };
        self.line(format!(
            "{name:<width$}  {storage:<7}  {bits:>11.3}  {errors}  {remark}"
        ))
    }

    /// What it comes to by storage, and in all.
    fn totals(&self, plan: &Plan<'_>) -> Result<(), Error> {
        self.line(String::new())?;
        let mut all = Total::default();
        for (name, total) in &self.all {
            let text = format!(
                "{} tensors, {} weights, {} bytes",
                total.tensors, total.elements, total.bytes
            );
            let errors = matches!(*name, "Q8" | "Q4").then_some(&total.errors);
            self.row(&text, name, bits(total.bytes, total.elements), errors, "")?;
            all.tensors += total.tensors;
            all.elements += total.elements;
            all.bytes += total.bytes;
            all.errors.add(&total.errors);
        }
        let text = format!(
            "{} tensors, {} weights, {} bytes",
            all.tensors,
            all.elements,
            plan.len()
        );
        self.row(&text, "all", bits(all.bytes, all.elements), Some(&all.errors), "")
    }
}

fn bits(bytes: u64, elements: u64) -> f64 {
    8.0 * bytes as f64 / elements.max(1) as f64
}

impl Watch for Table<'_> {
    fn progress(&mut self, bytes: u64) -> Result<(), Error> {
        self.console.progress(bytes);
        self.peak.sample();
        interrupted()
    }

    fn tensor(&mut self, tensor: &Planned<'_>, errors: Option<&Errors>) -> Result<(), Error> {
        let storage = tensor.storage_name();
        let remark = match tensor.refused {
            Some(wanted) => format!("no {wanted:?}: rows of {} are no multiple of 32", tensor.cols),
            None => String::new(),
        };
        let bits = bits(tensor.bytes, tensor.elements());
        self.row(&tensor.name, storage, bits, errors, &remark)?;
        match self.all.iter_mut().find(|(name, _)| *name == storage) {
            Some((_, total)) => total.add(tensor, errors),
            None => {
                let mut total = Total::default();
                total.add(tensor, errors);
                self.all.push((storage, total));
            }
        }
        Ok(())
    }
}
