//! Executors that call the closure not at all, often, and within each other.

use std::thread;

use voxtral_core::kernels::{Executor, Serial};

/// Calls the closure several times on several threads, and once more on the caller's.
pub struct Crowd;
impl Executor for Crowd {
    fn run(&self, work: &(dyn Fn() + Sync)) {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    work();
                    work();
                });
            }
        });
        work();
    }
}

/// Hands the closure on to other executors, inside of other closures.
pub struct Nested;
impl Executor for Nested {
    fn run(&self, work: &(dyn Fn() + Sync)) {
        Crowd.run(&|| {
            Serial.run(work);
            thread::scope(|scope| {
                scope.spawn(work);
            });
        });
    }
}

pub fn executors() -> [&'static dyn Executor; 3] {
    [&Serial, &Crowd, &Nested]
}
