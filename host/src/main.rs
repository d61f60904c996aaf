//! The `voxtral` program.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use voxtral::commands::inspect::{self, Inspect};
use voxtral::commands::transcribe::{self, Transcribe};

/// Speech to text on CPUs, with Mistral's Voxtral Realtime model or the small one that is built in.
#[derive(Parser)]
#[command(
    name = "voxtral",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    transcribe: Transcribe,
}

#[derive(Subcommand)]
enum Command {
    /// What is in a safetensors file, and whether it is as it should be
    Inspect(Inspect),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.command {
        Some(Command::Inspect(inspect)) => inspect::run(inspect),
        None => transcribe::run(&cli.transcribe),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("voxtral: {error}");
            ExitCode::FAILURE
        }
    }
}
