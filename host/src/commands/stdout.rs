//! Standard output as it is: unlike `std`'s, whose writes succeed where it is closed.

use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::event::PollFlags;
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat, stat};

use super::console;
use crate::patience::patiently;

/// Standard output, unbuffered. Waits where it is non-blocking.
pub(super) struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let out = io::stdout();
        patiently(&out, PollFlags::OUT, || Ok(rustix::io::write(out.as_fd(), bytes)?))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Says it if standard output was closed: then it is `/dev/null`, opened for reading as well, by Rust's runtime.
pub(super) fn tell_if_nowhere() {
    let out = io::stdout();
    let reads = fcntl_getfl(&out).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDWR);
    let null = match (fstat(&out), stat("/dev/null")) {
        (Ok(out), Ok(null)) => FileType::from_raw_mode(out.st_mode).is_char_device() && out.st_rdev == null.st_rdev,
        _ => false,
    };
    if reads && null {
        console::tell("standard output is closed, or /dev/null: what is written goes nowhere");
    }
}
