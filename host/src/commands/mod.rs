//! What the program can do, one file per subcommand.
//!
//! A new one is a file here with its arguments and a `run`, and a variant of `Command`.

mod bench;
mod captions;
mod compare;
mod completions;
mod console;
mod hear;
mod inspect;
mod man;
mod memory;
mod monitor;
mod new_file;
mod options;
mod output;
mod pack;
mod prime;
mod quantize;
mod report;
mod stdout;
mod transcribe;
mod version;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use self::stdout::Stdout;
use crate::error::Error;
use crate::{fault, interrupt, kernels};

/// Exit status when whoever reads the output went away, as shells have it for a program that SIGPIPE ends.
const CLOSED_PIPE_STATUS: u8 = 141;

/// Exit status when the command line is wrong.
const USAGE_STATUS: u8 = 2;

const AFTER_HELP: &str = "\
Environment:
  VOXTRAL_MODEL    Directory of the model, where -d is not given
  VOXTRAL_KERNELS  Other kernels than the best of this machine: avx2 (without AVX-VNNI), neon (without dot products),
                   scalar-fused (the same bits as these) or scalar

Exit status:
    0  Success
    1  Something failed; a line on standard error says what
    2  The command line is wrong
  129  SIGHUP; the text so far was written (live audio: that of all that came before)
  130  Ctrl-C; the text so far was written (live audio: the second Ctrl-C; the first ends it as its end would)
  135  A file of the model was shortened while it was in use, or its disk failed
  141  Whoever read the output closed it
  143  SIGTERM; as SIGHUP

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
    Prime(prime::Prime),
    Quantize(quantize::Quantize),
    Compare(compare::Compare),
    Pack(pack::Pack),
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
    interrupt::expect_full_files();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(told(&error)),
    };
    if let Some(word) = kernels::strange_word() {
        console::tell(format_args!(
            "{}={word:?} names no kernels of this machine ({}), so the best are used",
            kernels::VARIABLE,
            kernels::WORDS.join(", ")
        ));
    }
    let result = match &cli.command {
        None => transcribe::run(&cli.transcribe),
        Some(Command::Transcribe(args)) => transcribe::run(args),
        Some(Command::Memory(args)) => memory::run(args),
        Some(Command::Inspect(args)) => inspect::run(args),
        Some(Command::Prime(args)) => prime::run(args),
        Some(Command::Quantize(args)) => quantize::run(args),
        Some(Command::Compare(args)) => compare::run(args),
        Some(Command::Pack(args)) => pack::run(args),
        Some(Command::Bench(args)) => bench::run(args),
        Some(Command::Completions(args)) => completions::run(args),
        Some(Command::Man(args)) => man::run(args),
    };
    match result {
        Ok(status) => status,
        Err(error) if error.is_closed_pipe() => ExitCode::from(CLOSED_PIPE_STATUS),
        Err(Error::Interrupted) => ExitCode::from(interrupt::status()),
        Err(error) => {
            let usage = error.is_wrong_usage();
            console::tell(error);
            if usage {
                ExitCode::from(USAGE_STATUS)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

/// Prints the help or the version that was asked for; what is wrong with a command line in one line.
fn told(error: &clap::Error) -> u8 {
    let text = error.render();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let text = if io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
                text.ansi().to_string()
            } else {
                text.to_string()
            };
            match print(text.as_bytes()) {
                Ok(_) => 0,
                Err(error) if error.is_closed_pipe() => CLOSED_PIPE_STATUS,
                Err(error) => {
                    console::tell(error);
                    1
                }
            }
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // Nobody may be reading.
            let _ = write!(io::stderr().lock(), "{text}");
            USAGE_STATUS
        }
        _ => {
            // What follows the first paragraph is guesses at what was meant, and how the command is used.
            let text = text.to_string();
            let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
            let line = lines.collect::<Vec<_>>().join(" ");
            console::tell(Error::Usage(line.trim_start_matches("error: ").into()));
            USAGE_STATUS
        }
    }
}

/// Writes a whole text to standard output.
fn print(text: &[u8]) -> Result<ExitCode, Error> {
    stdout::tell_if_nowhere();
    Stdout.write_all(text).map_err(Error::Output)?;
    Ok(ExitCode::SUCCESS)
}
