//! What the pool costs. One test, since it looks at the time of the whole process.

use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use voxtral::Pool;
use voxtral_core::kernels::Executor;

fn cpu_time() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap()
}

/// A section costs less than 10 µs (the fast tenth, as other programs run too), and threads that have nothing to do
/// sleep.
#[test]
fn sections_are_cheap_and_idle_threads_sleep() {
    let pool = Pool::new(4);
    let mut times: Vec<_> = (0..2000)
        .map(|_| {
            let start = Instant::now();
            pool.run(&|| {});
            start.elapsed()
        })
        .collect();
    times.sort();
    let section = times[times.len() / 10];
    assert!(section < Duration::from_micros(10), "a section takes {section:?}");

    // Workers look for the next section a little longer.
    thread::sleep(Duration::from_millis(50));
    let before = cpu_time();
    thread::sleep(Duration::from_millis(500));
    let idle = cpu_time() - before;
    assert!(
        idle < Duration::from_millis(5),
        "{idle:?} of computing in 500 ms of nothing"
    );
}
