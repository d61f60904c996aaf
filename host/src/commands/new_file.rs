//! `-o FILE`: a file that is there once it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;

use super::stdout::Stdout;
use crate::error::Error;

/// Symbolic links that are followed, as Linux does.
const MOST_LINKS: u32 = 40;

/// Names that are tried for a file that has none yet.
const MOST_NAMES: u32 = 100;

/// A file that takes its name, and the place of what had it, once it is whole. Until then it has no name at all where
/// the file system can do that, else another one beside it. What is no regular file, or below `/dev` and `/proc`, is
/// written to as it is.
pub(super) struct NewFile {
    out: BufWriter<Box<dyn Write>>,
    place: Option<Place>,
}

/// A file that is not whole yet.
struct Place {
    file: File,
    /// Its name so far, if it has one.
    part: Option<PathBuf>,
    /// Its name once it is whole.
    path: PathBuf,
}

/// What a path finally names, symbolic links followed.
enum Final {
    /// One of the program's own files: its number.
    Own(u32),
    /// Something of the system's, or no regular file.
    AsItIs(PathBuf),
    /// A regular file, or nothing yet.
    File(PathBuf),
}

impl NewFile {
    /// `inputs` are the files that are read: none of them may be written over; with `stdin` standard input is one.
    ///
    /// # Errors
    /// [`Error::File`] if the system refuses, and [`Error::OutputIsInput`].
    pub(super) fn create(path: &Path, inputs: &[PathBuf], stdin: bool) -> Result<Self, Error> {
        let refuse = |source| Error::File {
            path: path.into(),
            source,
        };
        if path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(refuse(io::Error::new(
                io::ErrorKind::IsADirectory,
                "the name of a directory, not of a file",
            )));
        }
        if is_input(path, inputs, stdin) {
            return Err(Error::OutputIsInput { path: path.into() });
        }
        Self::open(path).map_err(refuse)
    }

    fn open(path: &Path) -> io::Result<Self> {
        let as_it_is = |out: Box<dyn Write>| Self {
            out: BufWriter::new(out),
            place: None,
        };
        match resolve(path)? {
            // Not opened anew: that would begin at the start of a file, and cannot be done with a socket.
            Final::Own(1) => Ok(as_it_is(Box::new(Stdout))),
            Final::Own(2) => Ok(as_it_is(Box::new(io::stderr()))),
            Final::Own(number) => {
                let file = OpenOptions::new()
                    .append(true)
                    .open(format!("/proc/self/fd/{number}"))?;
                Ok(as_it_is(Box::new(file)))
            }
            Final::AsItIs(path) => {
                // Files that have room below /dev are created; devices take no notice of the rest.
                let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
                Ok(as_it_is(Box::new(file)))
            }
            Final::File(path) => {
                let place = Place::create(path)?;
                Ok(Self {
                    out: BufWriter::new(Box::new(place.file.try_clone()?)),
                    place: Some(place),
                })
            }
        }
    }

    /// It is whole.
    pub(super) fn keep(mut self) -> io::Result<()> {
        self.out.flush()?;
        self.place.take().map_or(Ok(()), Place::keep)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Place {
    fn create(path: PathBuf) -> io::Result<Self> {
        let (file, part) = match nameless(&path) {
            Some(file) => (file, None),
            None => {
                let (part, file) = beside(&path, |part| OpenOptions::new().write(true).create_new(true).open(part))?;
                (file, Some(part))
            }
        };
        let place = Self { file, part, path };
        if let Ok(before) = place.path.metadata() {
            place.file.set_permissions(before.permissions())?;
        }
        Ok(place)
    }

    fn keep(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if self.part.is_none() {
            // A link takes no other file's place; only a rename does.
            let (part, ()) = beside(&self.path, |part| link(&self.file, part))?;
            self.part = Some(part);
        }
        if let Some(part) = &self.part {
            fs::rename(part, &self.path)?;
        }
        self.part = None;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // It may be gone already, and there is nobody to tell.
            let _ = fs::remove_file(part);
        }
    }
}

/// The error for what the system says of writing a file.
pub(super) fn unwritten(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    move |source| match source.kind() {
        // Whoever read it has gone away.
        io::ErrorKind::BrokenPipe => Error::Output(source),
        _ => Error::File {
            path: path.into(),
            source,
        },
    }
}

/// Makes something under a name beside `path` that nothing has. The name is short, since that of `path` may be as
/// long as names can be.
fn beside<T>(path: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(PathBuf, T)> {
    let mut number = 0;
    loop {
        let part = path.with_file_name(format!(".voxtral-{}-{number}.part", process::id()));
        match make(&part) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MOST_NAMES => number += 1,
            result => return result.map(|made| (part, made)),
        }
    }
}

/// A file without a name in the directory of `path`, which is gone with the program however that ends.
#[cfg(target_os = "linux")]
fn nameless(path: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags, open};
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = open(directory.unwrap_or(Path::new(".")), flags, Mode::from_raw_mode(0o666)).ok()?;
    // Without /proc it could not get a name.
    own(&file).exists().then(|| file.into())
}

/// Gives a file without a name one.
#[cfg(target_os = "linux")]
fn link(file: &File, name: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    Ok(linkat(CWD, own(file), CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(target_os = "linux")]
fn own(file: impl AsFd) -> PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()).into()
}

#[cfg(not(target_os = "linux"))]
fn nameless(_path: &Path) -> Option<File> {
    None
}

#[cfg(not(target_os = "linux"))]
fn link(_file: &File, _name: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether a regular file is one that is read.
fn is_input(path: &Path, inputs: &[PathBuf], stdin: bool) -> bool {
    let Some(out) = path.metadata().ok().filter(|there| there.is_file()) else {
        return false;
    };
    let same = |other: (u64, u64)| other == (out.dev(), out.ino());
    let of_stdin = || {
        let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        file.and_then(|file| file.metadata())
    };
    let inputs = inputs.iter().filter_map(|input| input.metadata().ok());
    let stdin = if stdin { of_stdin().ok() } else { None };
    inputs.chain(stdin).any(|input| same((input.dev(), input.ino())))
}

fn resolve(path: &Path) -> io::Result<Final> {
    let own = Path::new("/proc/self/fd").canonicalize().ok();
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new(".")).canonicalize()?;
        let Some(name) = path.file_name() else {
            return Ok(Final::AsItIs(path));
        };
        if own.as_ref() == Some(&parent) {
            if let Some(number) = name.to_str().and_then(|name| name.parse().ok()) {
                return Ok(Final::Own(number));
            }
        }
        match path.symlink_metadata() {
            Ok(there) if there.is_symlink() => path = parent.join(path.read_link()?),
            _ if parent.starts_with("/dev") || parent.starts_with("/proc") => return Ok(Final::AsItIs(path)),
            Ok(there) if !there.is_file() => return Ok(Final::AsItIs(path)),
            _ => return Ok(Final::File(path)),
        }
    }
    Err(rustix::io::Errno::LOOP.into())
}
