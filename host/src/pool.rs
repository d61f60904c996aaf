//! Threads behind core's `Executor`.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use voxtral_core::kernels::Executor;

/// How often an idle worker looks for the next section before it sleeps: some 20 µs, about the time between two
/// sections of one pass. Between passes workers sleep.
const SPINS: u32 = 4000;

/// A borrowed section of work, its lifetime erased.
#[derive(Clone, Copy)]
struct Section(*const (dyn Fn() + Sync));

// SAFETY: the closure is `Sync`, so it may be called through a shared pointer from any thread; `Pool::run` keeps it
// alive until no worker is inside.
unsafe impl Send for Section {}

#[derive(Default)]
struct State {
    section: Option<Section>,
    /// Workers that have begun to wait for sections.
    up: usize,
    /// Workers inside the section.
    inside: usize,
    shutdown: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Counts sections; spinning workers watch it.
    epoch: AtomicU64,
    opened: Condvar,
    /// A worker is up, or the last one has left a section.
    left: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A fixed number of threads that run core's parallel sections together with the caller.
///
/// A section ends when the caller finds no task left and the workers that had joined are out again; workers that
/// wake too late are not waited for. No call allocates.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// One section at a time: callers take turns.
    turn: Mutex<()>,
}

impl Pool {
    /// `threads` in all, the caller's own included; 1 (or 0) starts none.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let workers: Vec<_> = (1..threads)
            .map_while(|_| {
                let shared = Arc::clone(&shared);
                // Where the system refuses one, there are fewer; the work gets done all the same.
                thread::Builder::new()
                    .name("voxtral".into())
                    .spawn(move || work(&shared))
                    .ok()
            })
            .collect();
        // What a thread allocates to begin with is done when it is up, and no section has to wait for it.
        let mut state = shared.lock();
        while state.up < workers.len() {
            state = shared.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        Self {
            shared,
            workers,
            turn: Mutex::new(()),
        }
    }

    /// Threads that work, the caller's included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }
}

impl Executor for Pool {
    fn run(&self, section: &(dyn Fn() + Sync)) {
        if self.workers.is_empty() {
            return;
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let pointer: *const (dyn Fn() + Sync + '_) = section;
        // SAFETY: only the lifetime changes. Workers call the closure only between `inside += 1` and `inside -= 1`,
        // which they begin only while `section` is set; `Close` below unsets it and waits for `inside == 0` before
        // this function returns, or unwinds.
        let pointer: *const (dyn Fn() + Sync + 'static) = unsafe { std::mem::transmute(pointer) };
        self.shared.lock().section = Some(Section(pointer));
        self.shared.epoch.fetch_add(1, Ordering::Release);
        self.shared.opened.notify_all();
        let _close = Close(&self.shared);
        section();
    }
}

/// Ends a section when it goes out of scope.
struct Close<'a>(&'a Shared);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.section = None;
        while state.inside > 0 {
            state = self.0.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Leaves a section when it goes out of scope.
struct Leave<'a>(&'a Shared);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.inside -= 1;
        if state.inside == 0 {
            self.0.left.notify_all();
        }
    }
}

fn work(shared: &Shared) {
    let mut seen = shared.epoch.load(Ordering::Acquire);
    shared.lock().up += 1;
    shared.left.notify_all();
    loop {
        for _ in 0..SPINS {
            if shared.epoch.load(Ordering::Acquire) != seen {
                break;
            }
            hint::spin_loop();
        }
        let mut state = shared.lock();
        while shared.epoch.load(Ordering::Acquire) == seen && !state.shutdown {
            state = shared.opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.shutdown {
            return;
        }
        seen = shared.epoch.load(Ordering::Acquire);
        let Some(section) = state.section else { continue };
        state.inside += 1;
        drop(state);
        let _leave = Leave(shared);
        // SAFETY: the section was open when this worker joined it under the lock, so `Pool::run` keeps the closure
        // alive until `_leave` is dropped.
        unsafe { (*section.0)() };
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().shutdown = true;
        self.shared.epoch.fetch_add(1, Ordering::Release);
        self.shared.opened.notify_all();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}
