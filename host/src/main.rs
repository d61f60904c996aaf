//! The `voxtral` program.

use std::process::ExitCode;

use clap::Parser;
use voxtral::commands::transcribe::{self, Transcribe};

/// Speech to text on CPUs, with Mistral's Voxtral Realtime model or the small one that is built in.
#[derive(Parser)]
#[command(name = "voxtral", version)]
struct Cli {
    #[command(flatten)]
    transcribe: Transcribe,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match transcribe::run(&cli.transcribe) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("voxtral: {error}");
            ExitCode::FAILURE
        }
    }
}
