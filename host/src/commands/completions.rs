//! `voxtral completions`: what a shell needs to complete the command line.

use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use crate::error::Error;

/// Print a script that lets a shell complete this command line
///
/// For bash: voxtral completions bash > ~/.local/share/bash-completion/completions/voxtral
#[derive(Args, Debug)]
pub(super) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn run(args: &Completions) -> Result<ExitCode, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::definition(), "voxtral", &mut script);
    super::print(&script)
}
