//! Reading and writing that waits where whoever opened the file said it should not.
//!
//! Standard input and output are shared with other programs, any of which may have made them non-blocking.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// A file whose reads wait for bytes, non-blocking or not.
pub(crate) struct Patient<'a>(pub(crate) &'a File);

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        patiently(self.0, PollFlags::IN, || self.0.read(buffer))
    }
}

/// Does it again and again until it need not wait.
pub(crate) fn patiently<T>(
    file: impl AsFd,
    wanted: PollFlags,
    mut act: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    loop {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match poll(&mut [PollFd::new(&file, wanted)], None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            result => return result,
        }
    }
}
