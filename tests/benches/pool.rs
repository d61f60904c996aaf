//! What a parallel section costs, beside the work in it. On a machine that does other things too, the fast sections
//! tell more than the usual ones.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use voxtral::Pool;
use voxtral_core::kernels::Executor;

/// Times of sections whose tasks take `task` each, one for every thread: a tenth are faster, and half are.
fn sections(pool: &Pool, task: Duration, pause: Duration) -> [Duration; 2] {
    let tasks = pool.threads();
    let begin = Instant::now();
    let mut times: Vec<_> = (0..5000)
        .take_while(|_| begin.elapsed() < Duration::from_millis(500))
        .map(|_| {
            let next = AtomicUsize::new(0);
            let work = || {
                while next.fetch_add(1, Ordering::Relaxed) < tasks {
                    let start = Instant::now();
                    while start.elapsed() < task {
                        spin_loop();
                    }
                }
            };
            thread::sleep(pause);
            let start = Instant::now();
            pool.run(&work);
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    [times[times.len() / 10], times[times.len() / 2]]
}

fn main() {
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads);
        for (micros, pause) in [(0, 0), (20, 0), (100, 0), (20, 500), (100, 500)] {
            let [task, pause] = [micros, pause].map(Duration::from_micros);
            let [fast, usual] = sections(&pool, task, pause);
            println!(
                "{threads} threads, {task:>5?} of work for each, {pause:>5?} after the last: {fast:>9?}, half within {usual:?}"
            );
        }
    }
}
