//! How work is spread over threads without core knowing any.

/// Runs a closure on as many threads as it likes, including none.
///
/// The closure claims its tasks from a counter in core, and core finishes on the caller's thread what is left when
/// `run` returns. So no implementation can make a task run twice or not at all.
///
/// `run` returns only after every call that it made has ended. Safe code cannot do otherwise: `work` is borrowed for
/// the length of `run`, so threads that call it have to be joined, or waited for, before that. An implementation that
/// passes the borrow on by unsafe code (as a pool of long-lived threads must) owes this promise: results are written
/// by the calls, and are read as soon as `run` returns.
pub trait Executor: Sync {
    /// Calls `work` any number of times, on any threads; returns after the last call has ended.
    fn run(&self, work: &(dyn Fn() + Sync));
}

/// No threads: everything runs on the caller's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Executor for Serial {
    fn run(&self, _work: &(dyn Fn() + Sync)) {}
}
