//! The `voxtral` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    voxtral::commands::main()
}
