//! std shell.
