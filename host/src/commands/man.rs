//! `voxtral man`: the manual page.

use std::process::ExitCode;

use clap::Args;

use crate::error::Error;

/// Print the manual page, of the program or of one command
///
/// To read it: voxtral man | man -l -
#[derive(Args, Debug)]
pub(super) struct Man {
    /// The command whose page it is
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

pub(super) fn run(args: &Man) -> Result<ExitCode, Error> {
    let mut command = super::definition();
    command.build();
    if let Some(name) = &args.command {
        match command.find_subcommand(name) {
            Some(found) => command = found.clone(),
            None => return Err(Error::Usage(format!("there is no command {name:?}"))),
        }
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut page)
        .map_err(Error::Output)?;
    super::print(&page)
}
