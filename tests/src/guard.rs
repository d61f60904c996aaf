//! Memory that ends, or begins, exactly at a page that cannot be touched: whoever reads one byte too many is stopped
//! by the machine.

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Large enough for the page size of every system.
const PAGE: usize = 1 << 16;

/// Memory between two pages without access.
pub struct Guarded {
    base: *mut u8,
    len: usize,
    start: usize,
    count: usize,
}

impl Guarded {
    /// `count` bytes that end `gap` bytes before the page that follows.
    pub fn ending(count: usize, gap: usize) -> Self {
        let inner = (count + gap).div_ceil(PAGE).max(1) * PAGE;
        Self::new(inner, PAGE + inner - gap - count, count)
    }

    /// `count` bytes that begin `gap` bytes after the page that precedes.
    pub fn beginning(count: usize, gap: usize) -> Self {
        Self::new((count + gap).div_ceil(PAGE).max(1) * PAGE, PAGE + gap, count)
    }

    fn new(inner: usize, start: usize, count: usize) -> Self {
        let len = inner + 2 * PAGE;
        // SAFETY: a new mapping anywhere, which nothing else refers to; its outer pages lose all access before
        // anything is made of them.
        let base = unsafe {
            let base = mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
            .unwrap();
            mprotect(base, PAGE, MprotectFlags::empty()).unwrap();
            mprotect(base.byte_add(PAGE + inner), PAGE, MprotectFlags::empty()).unwrap();
            base.cast::<u8>()
        };
        Self {
            base,
            len,
            start,
            count,
        }
    }

    /// The bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: these bytes lie between the outer pages, and are borrowed with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(self.start), self.count) }
    }

    /// The bytes as values; they must be at a multiple of 4.
    pub fn floats(&mut self) -> &mut [f32] {
        assert_eq!(self.start % 4, 0);
        // SAFETY: as for `bytes`; the address is a multiple of 4, and any bits are an f32.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(self.start).cast(), self.count / 4) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        unsafe { munmap(self.base.cast(), self.len).unwrap() };
    }
}
