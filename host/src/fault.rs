//! A mapped file that is shortened while it is in use.
//!
//! The pages behind its new end are gone, and touching one raises SIGBUS. No program can go on from there, nor see it
//! coming: checking the length first only makes the gap smaller. What can be done is to say what happened.

use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Exit status when a mapped file was shortened, or its disk failed: 128 and the number that SIGBUS has on Linux.
pub const STATUS: u8 = 135;

/// Mappings that a fault can be told of; a program has three.
const SLOTS: usize = 16;

/// A mapping, as a signal handler can read it.
struct Slot {
    /// 0 for a free slot.
    start: AtomicUsize,
    /// 0 while the slot is being filled.
    end: AtomicUsize,
    name: AtomicPtr<u8>,
    name_len: AtomicUsize,
}

static MAPPED: [Slot; SLOTS] = [const {
    Slot {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        name: AtomicPtr::new(ptr::null_mut()),
        name_len: AtomicUsize::new(0),
    }
}; SLOTS];

/// Whether a thread is telling of a fault.
static TOLD: AtomicBool = AtomicBool::new(false);

/// What was on SIGBUS before: Rust's own handler.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// The name of a mapped range, known to the handler until it is dropped. Drop it before the range is unmapped.
pub(crate) struct Known {
    slot: Option<&'static Slot>,
    _name: Box<[u8]>,
}

impl Known {
    /// Tells the handler of `len` mapped bytes at `start`. More ranges than there are slots stay unknown.
    pub(crate) fn new(start: usize, len: usize, name: &[u8]) -> Self {
        let name: Box<[u8]> = name.into();
        let claim = |slot: &&Slot| {
            slot.start
                .compare_exchange(0, start, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        let slot = MAPPED.iter().find(claim);
        if let Some(slot) = slot {
            slot.name.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
            slot.name_len.store(name.len(), Ordering::Relaxed);
            slot.end.store(start + len, Ordering::Release);
        }
        Self { slot, _name: name }
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.end.store(0, Ordering::Relaxed);
            slot.start.store(0, Ordering::Release);
        }
    }
}

/// From now on a fault in a mapped file of this crate writes one line to standard error and ends the process with
/// [`STATUS`]. Faults elsewhere do what they did before.
///
/// For programs, once: it changes what the whole process does.
pub fn install() {
    // SAFETY: `sigaction` is a plain structure, for which zeros are valid. The handler runs on the stack for signals
    // that Rust gives every thread, and calls nothing that POSIX does not let signal handlers call.
    unsafe {
        let mut before: libc::sigaction = mem::zeroed();
        if libc::sigaction(libc::SIGBUS, ptr::null(), &mut before) != 0 || BEFORE.set(before).is_err() {
            return;
        }
        let mut action: libc::sigaction = mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_fault;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &action, ptr::null_mut());
    }
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the system hands over a valid `siginfo_t`. The name of a slot whose range holds the
    // faulting address is alive: whoever touched that address borrows the mapping, which is dropped after its slot.
    // `write`, `pause`, `_exit`, `sigaction` and `raise` are async-signal-safe.
    unsafe {
        // Positive codes come from the kernel; `si_addr` has a meaning with them only.
        let raised = (*info).si_code > 0;
        let address = (*info).si_addr() as usize;
        for slot in &MAPPED {
            let end = slot.end.load(Ordering::Acquire);
            if raised && address < end && address >= slot.start.load(Ordering::Relaxed) {
                // Other threads may meet the same fault while this one writes: the first one tells.
                if TOLD.swap(true, Ordering::Relaxed) {
                    loop {
                        libc::pause();
                    }
                }
                say(b"voxtral: ");
                let name = slot.name.load(Ordering::Relaxed);
                libc::write(2, name.cast_const().cast(), slot.name_len.load(Ordering::Relaxed));
                say(b": the file was shortened by another program while it was in use, or its disk failed; ");
                say(b"replace a model by renaming the new file over the old one\n");
                libc::_exit(STATUS.into());
            }
        }
        match BEFORE.get() {
            // The access is repeated, and meets the handler of before.
            Some(before) if raised => libc::sigaction(signal, before, ptr::null_mut()),
            _ => {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal)
            }
        };
    }
}

/// Writes to standard error. Nothing can be done if that fails.
fn say(text: &[u8]) {
    // SAFETY: the range is that of a slice.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known_at(address: usize) -> bool {
        MAPPED
            .iter()
            .any(|slot| address >= slot.start.load(Ordering::Relaxed) && address < slot.end.load(Ordering::Relaxed))
    }

    /// Addresses of no mapping, so that no other test's is among them.
    #[test]
    fn ranges_are_known_until_they_are_dropped() {
        let first = Known::new(16, 8, b"a");
        let second = Known::new(32, 8, b"b");
        assert!(known_at(16) && known_at(23) && !known_at(24) && known_at(39));
        drop(first);
        assert!(!known_at(16) && known_at(32));
        let more: Vec<_> = (0..2 * SLOTS).map(|i| Known::new(64 + 8 * i, 8, b"c")).collect();
        assert!(
            known_at(64) && !known_at(64 + 8 * (2 * SLOTS - 1)),
            "one too many is left out"
        );
        drop((second, more));
        assert!((0..1024).all(|address| !known_at(address)));
    }
}
