//! What the program can do, one file per subcommand.
//!
//! A new one is a file here with its arguments and a `run`, and a variant of `Command`.

mod bench;
mod captions;
mod completions;
mod console;
mod hear;
mod inspect;
mod man;
mod memory;
mod monitor;
mod options;
mod output;
mod report;
mod transcribe;
mod version;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::error::Error;
use crate::{fault, interrupt};

/// Exit status when whoever reads the output went away, as shells have it for a program that SIGPIPE ends.
const CLOSED_PIPE_STATUS: u8 = 141;

const AFTER_HELP: &str = "\
Environment:
  VOXTRAL_MODEL  Directory of the model, where -d is not given

Exit status:
    0  Success
    1  Something failed; a line on standard error says what
    2  The command line is wrong
  130  Ctrl-C; the text so far was written (live audio: the second Ctrl-C; the first ends it as its end would)
  135  A file of the model was shortened while it was in use, or its disk failed
  141  Whoever read the output closed it

A file that is named like a command: voxtral ./FILE, or voxtral -- FILE";

/// Speech to text on CPUs, with Mistral's Voxtral Realtime model or the small one that is built in
#[derive(Parser, Debug)]
#[command(
    name = "voxtral",
    version,
    long_version = version::text(),
    after_help = AFTER_HELP,
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    // As in voxtral.c the last one counts.
    args_override_self = true,
)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    transcribe: transcribe::Transcribe,
}

/// The subcommands. Without one, files are transcribed.
#[derive(Subcommand, Debug)]
enum Command {
    Transcribe(transcribe::Transcribe),
    Memory(memory::Memory),
    Inspect(inspect::Inspect),
    Bench(bench::Bench),
    Completions(completions::Completions),
    Man(man::Man),
}

/// The definition of the command line.
pub fn definition() -> clap::Command {
    Cli::command()
}

/// Does what the command line says, and says what went wrong in one line.
pub fn main() -> ExitCode {
    fault::install();
    interrupt::install();
    let cli = Cli::parse();
    let result = match &cli.command {
        None => transcribe::run(&cli.transcribe),
        Some(Command::Transcribe(args)) => transcribe::run(args),
        Some(Command::Memory(args)) => memory::run(args),
        Some(Command::Inspect(args)) => inspect::run(args),
        Some(Command::Bench(args)) => bench::run(args),
        Some(Command::Completions(args)) => completions::run(args),
        Some(Command::Man(args)) => man::run(args),
    };
    match result {
        Ok(status) => status,
        Err(error) if error.is_closed_pipe() => ExitCode::from(CLOSED_PIPE_STATUS),
        Err(Error::Interrupted) => ExitCode::from(interrupt::STATUS),
        Err(error) => {
            console::tell(error);
            ExitCode::FAILURE
        }
    }
}

/// Writes a whole text to standard output.
fn print(text: &[u8]) -> Result<ExitCode, Error> {
    let out = &mut io::stdout().lock();
    out.write_all(text).and_then(|()| out.flush()).map_err(Error::Output)?;
    Ok(ExitCode::SUCCESS)
}
