//! Ctrl-C, and its kin that ask a program to end (SIGTERM, SIGHUP): what has been said is written, then the program
//! ends.

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// What is handled alike.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Seconds that a step which has begun gets to end. Every token is flushed when it is decided, so nothing is lost if
/// it takes longer.
const GRACE: libc::c_uint = 1;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The first signal that came, 0 for none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Seconds until the alarm, 0 for none.
static ALARM: AtomicU32 = AtomicU32::new(GRACE);

/// Whether standard output is inside a line.
static LINE_BEGUN: AtomicBool = AtomicBool::new(false);

/// From now on the first signal only sets [`flag`], and what it asks to end may take its time.
pub fn let_work_end() {
    ALARM.store(0, Ordering::Relaxed);
}

/// Set by the first signal once [`install`] was called; see [`crate::Transcriber::set_interrupt`].
pub fn flag() -> &'static AtomicBool {
    &INTERRUPTED
}

/// The exit status that the first signal asks for, as shells have it: 128 and its number; that of Ctrl-C if there was
/// none.
pub fn status() -> u8 {
    match SIGNAL.load(Ordering::Relaxed) {
        0 => status_of(libc::SIGINT),
        signal => status_of(signal),
    }
}

/// Whether the signal that came was another one than Ctrl-C: who sent it is told by the status that it worked.
pub(crate) fn was_told_to_end() -> bool {
    !matches!(SIGNAL.load(Ordering::Relaxed), 0 | libc::SIGINT)
}

/// Tells whether standard output is inside a line of text, which an end at once has to end as well.
pub(crate) fn set_line_begun(begun: bool) {
    LINE_BEGUN.store(begun, Ordering::Relaxed);
}

fn status_of(signal: libc::c_int) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// From now on a file that gets larger than the system lets it (`ulimit -f`) is an error of the write and no sudden end.
pub fn expect_full_files() {
    // SAFETY: ignoring a signal runs no code.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// From now on Ctrl-C, SIGTERM and SIGHUP set [`flag`] and end the process with [`status`] a second later if it has
/// not ended by then. A second one ends it at once. A signal that was ignored (as under `nohup`) stays so.
///
/// For programs, once: it changes what the whole process does.
pub fn install() {
    // SAFETY: `sigaction` is a plain structure, for which zeros are valid; the handlers do nothing but use atomics and
    // call `alarm`, `write` and `_exit`, which POSIX lets signal handlers call.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        let mut old: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_alarm as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(libc::SIGALRM, &action, ptr::null_mut());
        action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        for signal in SIGNALS {
            if libc::sigaction(signal, ptr::null(), &mut old) == 0 && old.sa_sigaction != libc::SIG_IGN {
                libc::sigaction(signal, &action, ptr::null_mut());
            }
        }
    }
}

extern "C" fn on_signal(signal: libc::c_int) {
    if INTERRUPTED.swap(true, Ordering::Relaxed) {
        stop(signal);
    }
    SIGNAL.store(signal, Ordering::Relaxed);
    // SAFETY: async-signal-safe.
    unsafe { libc::alarm(ALARM.load(Ordering::Relaxed)) };
}

extern "C" fn on_alarm(_signal: libc::c_int) {
    stop(SIGNAL.load(Ordering::Relaxed))
}

fn stop(signal: libc::c_int) {
    // SAFETY: both are async-signal-safe, and the byte is a constant.
    unsafe {
        if LINE_BEGUN.load(Ordering::Relaxed) {
            libc::write(libc::STDOUT_FILENO, b"\n".as_ptr().cast(), 1);
        }
        libc::_exit(status_of(signal).into())
    }
}
