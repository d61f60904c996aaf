//! What the program can do, one file per subcommand.

pub mod inspect;
pub mod transcribe;
