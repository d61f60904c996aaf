//! Files as memory: mapped read-only, read by the system page by page as they are used.
//!
//! The honest limit of mapping: if another process shortens the file in place while it is mapped, touching the lost
//! pages raises SIGBUS; see [`crate::fault`]. Replacing a file by renaming another over it is harmless: the mapping keeps
//! the old one.

use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::fault::Known;

/// How files are mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mapper {
    /// By rustix: the system call itself, private and read-only.
    #[default]
    Rustix,
    /// By the memmap2 crate, for systems that rustix does not map files on.
    Memmap2,
}

/// The bytes of a file.
pub enum Bytes {
    /// Mapped by [`Mapper::Rustix`].
    Mapped(Mapping),
    /// Mapped by [`Mapper::Memmap2`].
    Memmap2(memmap2::Mmap),
    /// Built into the program.
    Static(&'static [u8]),
    /// Read into memory: the header of a file that cannot be mapped.
    Read(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(mapping) => mapping,
            Bytes::Memmap2(mapping) => mapping,
            Bytes::Static(bytes) => bytes,
            Bytes::Read(bytes) => bytes,
        }
    }
}

impl Bytes {
    /// The longest file that the address space holds: a slice has at most so many bytes.
    pub(crate) const MAX_LEN: u64 = isize::MAX as u64;

    /// Maps a whole file. The descriptor is closed again; the mapping stays.
    ///
    /// # Errors
    /// What the system says on opening or mapping, or that the file does not fit the address space.
    pub fn open(path: &Path, mapper: Mapper) -> io::Result<Self> {
        let (file, len) = Self::file(path)?;
        Self::map(&file, len, path, mapper)
    }

    /// A regular file and its length.
    pub(crate) fn file(path: &Path) -> io::Result<(File, u64)> {
        // Looked at before it is opened: opening a FIFO waits for somebody to write to it.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok((file, len))
    }

    /// Maps the first `len` bytes of a file, whose `path` a fault is told with.
    pub(crate) fn map(file: &File, len: u64, path: &Path, mapper: Mapper) -> io::Result<Self> {
        if len > Self::MAX_LEN {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "the file does not fit the address space of this machine",
            ));
        }
        let len = len as usize;
        if len == 0 {
            return Ok(Bytes::Static(&[]));
        }
        match mapper {
            Mapper::Rustix => Mapping::new(file, len, path).map(Bytes::Mapped),
            // SAFETY: the mapping is read-only; see the module on files that shrink.
            Mapper::Memmap2 => unsafe { memmap2::MmapOptions::new().len(len).map(file) }.map(Bytes::Memmap2),
        }
    }
}

/// A private read-only mapping.
pub struct Mapping {
    start: ptr::NonNull<u8>,
    len: usize,
    /// For the fault handler; gone before the mapping is.
    known: Option<Known>,
}

// SAFETY: the mapping is read-only and owned; sharing it is sharing a `&[u8]`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &File, len: usize, path: &Path) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the system's choice; nothing else refers to it.
        let start = unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, file, 0) }?;
        let start = ptr::NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let known = Known::new(start.as_ptr().addr(), len, path.as_os_str().as_bytes());
        Ok(Self {
            start,
            len,
            known: Some(known),
        })
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start..start + len` is mapped readable until `drop`, and nobody writes to it through this process.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.known = None;
        // SAFETY: the range was mapped by `new` and is given back once.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
