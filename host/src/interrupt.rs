//! Ctrl-C: what has been said is written, then the program ends.

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Exit status after Ctrl-C, as shells have it: 128 and the signal's number.
pub const STATUS: u8 = 130;

/// Seconds that a step which has begun gets to end. Every token is flushed when it is decided, so nothing is lost if
/// it takes longer.
const GRACE: libc::c_uint = 1;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Seconds until the alarm, 0 for none.
static ALARM: AtomicU32 = AtomicU32::new(GRACE);

/// From now on the first Ctrl-C only sets [`flag`], and what it asks to end may take its time.
pub fn let_work_end() {
    ALARM.store(0, Ordering::Relaxed);
}

/// Set by the first Ctrl-C once [`install`] was called; see [`crate::Transcriber::set_interrupt`].
pub fn flag() -> &'static AtomicBool {
    &INTERRUPTED
}

/// From now on Ctrl-C sets [`flag`] and ends the process with [`STATUS`] a second later if it has not ended by then.
/// The second Ctrl-C ends it at once. Where the signal was ignored (as under `nohup`) it stays so.
///
/// For programs, once: it changes what the whole process does.
pub fn install() {
    // SAFETY: `sigaction` is a plain structure, for which zeros are valid; the handlers do nothing but store to an
    // atomic and call `alarm` and `_exit`, which POSIX lets signal handlers call.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        let mut old: libc::sigaction = mem::zeroed();
        if libc::sigaction(libc::SIGINT, ptr::null(), &mut old) != 0 || old.sa_sigaction == libc::SIG_IGN {
            return;
        }
        action.sa_sigaction = on_alarm as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(libc::SIGALRM, &action, ptr::null_mut());
        action.sa_sigaction = on_interrupt as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
        libc::sigaction(libc::SIGINT, &action, ptr::null_mut());
    }
}

extern "C" fn on_interrupt(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
    // SAFETY: async-signal-safe.
    unsafe { libc::alarm(ALARM.load(Ordering::Relaxed)) };
}

extern "C" fn on_alarm(_signal: libc::c_int) {
    // SAFETY: async-signal-safe.
    unsafe { libc::_exit(STATUS.into()) }
}
