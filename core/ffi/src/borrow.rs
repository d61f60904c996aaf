//! Pointers of C as borrows, as far as they can be checked.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::slice;

use crate::status::Status;

/// Alignment of the memory of models and streams in bytes; state and scratch want that of a float.
pub const ALIGNMENT: usize = 16;

/// Bytes that are only read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// The first of them.
    pub data: *const u8,
    /// How many.
    pub len: usize,
}

/// A block of the caller's memory, whose contents do not matter.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Its beginning.
    pub data: *mut c_void,
    /// Its size in bytes.
    pub size: usize,
}

impl Memory {
    /// Whether there is a block of `size` bytes.
    pub(crate) fn check(self, size: usize, alignment: usize) -> Result<(), Status> {
        if self.data.is_null() || self.size > isize::MAX as usize {
            Err(Status::BadArgument)
        } else if self.data.addr() % alignment != 0 {
            Err(Status::Misaligned)
        } else if self.size < size {
            Err(Status::TooSmall)
        } else {
            Ok(())
        }
    }
}

/// A slice; one of no elements is an error, as is a null pointer.
///
/// # Safety
/// What is there lives for `'a`, and nothing writes to it meanwhile.
pub(crate) unsafe fn slice<'a, T>(data: *const T, len: usize) -> Result<&'a [T], Status> {
    if data.is_null() || len == 0 || len > isize::MAX as usize / size_of::<T>() {
        return Err(Status::BadArgument);
    }
    if !data.is_aligned() {
        return Err(Status::Misaligned);
    }
    // SAFETY: not null, aligned, of a possible length; the rest is the caller's promise.
    Ok(unsafe { slice::from_raw_parts(data, len) })
}

/// A buffer for text; none if the pointer is null.
///
/// # Safety
/// What is there lives for `'a`, and nothing else uses it meanwhile.
pub(crate) unsafe fn text<'a>(data: *mut u8, len: usize) -> Result<&'a mut [MaybeUninit<u8>], Status> {
    if data.is_null() {
        return Ok(&mut []);
    }
    if len == 0 || len > isize::MAX as usize {
        return Err(Status::BadArgument);
    }
    // SAFETY: not null, of a possible length; the rest is the caller's promise.
    Ok(unsafe { slice::from_raw_parts_mut(data.cast(), len) })
}

/// What a pointer points to.
///
/// # Safety
/// It lives for `'a`, and nothing writes to it meanwhile.
pub(crate) unsafe fn shared<'a, T>(pointer: *const T) -> Result<&'a T, Status> {
    if pointer.is_null() {
        return Err(Status::BadArgument);
    }
    if !pointer.is_aligned() {
        return Err(Status::Misaligned);
    }
    // SAFETY: not null, aligned; the rest is the caller's promise.
    Ok(unsafe { &*pointer })
}

/// Where a result goes, whose contents before do not matter.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn place<'a, T>(pointer: *mut T) -> Result<&'a mut MaybeUninit<T>, Status> {
    if pointer.is_null() {
        return Err(Status::BadArgument);
    }
    if !pointer.is_aligned() {
        return Err(Status::Misaligned);
    }
    // SAFETY: not null, aligned; the rest is the caller's promise.
    Ok(unsafe { &mut *pointer.cast() })
}

/// Writes a line of text and the zero behind it, cut at a whole character if the buffer is too small. Says how long the
/// whole line is.
pub(crate) struct Line<'a> {
    buffer: &'a mut [MaybeUninit<u8>],
    /// Bytes that were written.
    written: usize,
    /// Bytes of the whole text.
    pub(crate) len: usize,
}

impl<'a> Line<'a> {
    pub(crate) fn new(buffer: &'a mut [MaybeUninit<u8>]) -> Self {
        let mut line = Self {
            buffer,
            written: 0,
            len: 0,
        };
        line.end();
        line
    }

    fn end(&mut self) {
        if let Some(byte) = self.buffer.get_mut(self.written) {
            byte.write(0);
        }
    }

    pub(crate) fn push(&mut self, character: char) {
        let mut utf8 = [0; 4];
        let utf8 = character.encode_utf8(&mut utf8).as_bytes();
        // Once something was left out, what follows is.
        let room = self.buffer.len().saturating_sub(1);
        if self.written == self.len && self.len.saturating_add(utf8.len()) <= room {
            for (place, byte) in self.buffer.iter_mut().skip(self.written).zip(utf8) {
                place.write(*byte);
            }
            self.written = self.written.saturating_add(utf8.len());
            self.end();
        }
        self.len = self.len.saturating_add(utf8.len());
    }

    /// Whether all of it was written.
    pub(crate) fn is_whole(&self) -> bool {
        self.written == self.len
    }
}

impl core::fmt::Write for Line<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        text.chars().for_each(|character| self.push(character));
        Ok(())
    }
}
