//! `voxtral prime`: the start that all utterances share, written beside the model.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use voxtral_core::layout::Options;
use voxtral_core::model::NoProbe;
use voxtral_core::session::Session;

use super::console::Console;
use super::new_file::{NewFile, unwritten};
use super::options::{ModelOptions, SessionOptions, ThreadOptions};
use crate::error::Error;
use crate::interrupt;
use crate::kernels;
use crate::model::{FILES, Model};
use crate::pool::Pool;
use crate::start::start_file_name;
use crate::transcriber::{Nobody, Transcriber};

/// Compute the start that all utterances share, before anything is said, and write it beside the model, where it is
/// found from then on: the first word comes sooner. It is for one delay, window, type of cache and kind of processor
#[derive(Args, Debug)]
pub(super) struct Prime {
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    session: SessionOptions,
    #[command(flatten)]
    threads: ThreadOptions,
}

pub(super) fn run(args: &Prime) -> Result<ExitCode, Error> {
    let Some(directory) = args.model.directory() else {
        return Err(Error::Usage(
            "the built-in model has no directory to write to, and its start takes milliseconds; give -d DIR".into(),
        ));
    };
    let begun = Instant::now();
    let console = Console::new(false);
    let model = args.model.open(&console)?;
    let options = args.session.of(&model, &console)?;
    let pool = args.threads.pool();
    let transcriber = primed(&model, &options, &pool)?;
    let layout = transcriber.layout();
    let path: PathBuf = directory.join(start_file_name(layout, kernels::choose().class()));
    let bytes = transcriber.start().unwrap_or_default();
    // A link there may lead to anything, and a FIFO waits for somebody.
    if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file; remove it first");
        return Err(Error::File { path, source });
    }
    let mut file = NewFile::create(&path, &FILES.map(|name| directory.join(name)), false)?;
    file.write_all(bytes).map_err(unwritten(&path))?;
    file.keep().map_err(unwritten(&path))?;
    console.note(format_args!(
        "{}: {} of the {} positions before the first word, {:.1} MB, in {:.2} s",
        path.display(),
        Session::silent_positions(layout),
        transcriber.session().schedule().prompt_len(),
        bytes.len() as f64 * 1e-6,
        begun.elapsed().as_secs_f64()
    ));
    Ok(ExitCode::SUCCESS)
}

/// A transcriber that keeps the start. What damaged weights would make of it is found out by hearing nothing at all.
pub(super) fn primed<'m>(model: &'m Model, options: &Options, pool: &'m Pool) -> Result<Transcriber<'m>, Error> {
    let mut transcriber = Transcriber::new(model, options, pool)?;
    transcriber.set_interrupt(interrupt::flag());
    transcriber.keep_start()?;
    transcriber.prime()?;
    transcriber.finish_to(&mut Nobody, &mut NoProbe)?;
    Ok(transcriber)
}
