//! Short windows of time, and whether others disturbed them.

use std::hint;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use voxtral_core::kernels::Executor;

use crate::pool::Pool;

/// Share of a window that its threads may have been without a processor together.
const DISTURBED: f64 = 0.03;
/// Time without a processor that is not told from none: what the clocks and a timer's interrupt cost.
const UNNOTICED: Duration = Duration::from_micros(10);
/// The latest that a thread comes to a section if it has a processor, the time to wake it included.
const LATE: Duration = Duration::from_micros(300);
/// Share of a section without dependences and with small tasks in which its threads are not at work.
const IDLE: f64 = 0.1;
/// What opening and closing a section may take beside the work in it, threads that sleep included. A thread that loses
/// its processor there keeps the others waiting for a time slice, which is longer.
const TURN: Duration = Duration::from_micros(300);

/// Both clocks of a thread.
#[derive(Clone, Copy)]
struct Clocks {
    wall: Instant,
    cpu: Duration,
}

impl Clocks {
    fn now() -> Self {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        Self {
            wall: Instant::now(),
            // Of a clock that never goes below 0.
            cpu: cpu.try_into().unwrap_or_default(),
        }
    }

    /// Time on the wall and on the processor since then.
    fn since(self) -> (Duration, Duration) {
        let now = Self::now();
        (now.wall - self.wall, now.cpu.saturating_sub(self.cpu))
    }
}

/// A pool that notices whether its threads had processors.
pub(super) struct Crew {
    pool: Pool,
    /// Nanoseconds that threads were without a processor in sections, or on their way to them.
    lost: AtomicU64,
    /// Time of the caller inside of sections and at their ends, where it may wait: on the wall, and its processor's.
    inside: Mutex<(Duration, Duration)>,
}

impl Crew {
    pub(super) fn new(threads: usize) -> Self {
        Self {
            pool: Pool::new(threads),
            lost: AtomicU64::new(0),
            inside: Mutex::default(),
        }
    }

    pub(super) fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Calls `task` once for every index below `count`, on all threads, as core does it. Tasks are alike, and there are
    /// several for each thread, so that all threads should be at work all the time.
    pub(super) fn each(&self, count: usize, task: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&index| index < count) {
                task(index);
            }
        };
        self.section(&work, true);
        work();
    }

    /// Calls `f` until `at_least` so much time has gone, once at least.
    pub(super) fn window(&self, at_least: Duration, f: &mut dyn FnMut()) -> Window {
        // Sleeping threads are woken before the window, not in it.
        self.each(4 * self.threads(), &|_| spin(LATE / 8));
        self.lost.store(0, Ordering::Relaxed);
        *self.inside() = Default::default();
        let start = Clocks::now();
        let mut calls = 0u32;
        while calls == 0 || start.wall.elapsed() < at_least {
            f();
            calls += 1;
        }
        let (wall, cpu) = start.since();
        let (wall_inside, cpu_inside) = *self.inside();
        let outside = (wall.saturating_sub(wall_inside)).saturating_sub(cpu.saturating_sub(cpu_inside));
        let lost = outside + Duration::from_nanos(self.lost.load(Ordering::Relaxed));
        Window {
            seconds: wall.as_secs_f64() / f64::from(calls),
            disturbed: lost > wall.mul_f64(DISTURBED) + UNNOTICED,
        }
    }

    /// A section in which `all` threads should be at work to the end, or should at least have come.
    fn section(&self, work: &(dyn Fn() + Sync), all: bool) {
        // The pool does nothing then, and core works behind this call.
        if self.threads() == 1 {
            return;
        }
        let came = AtomicUsize::new(0);
        // In nanoseconds from the start of the section: when threads came and went, and how long they worked.
        let (first, latest) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        let (last, worked) = (AtomicU64::new(0), AtomicU64::new(0));
        let start = Clocks::now();
        let at = || start.wall.elapsed().as_nanos() as u64;
        self.pool.run(&|| {
            came.fetch_add(1, Ordering::Relaxed);
            let begin = at();
            first.fetch_min(begin, Ordering::Relaxed);
            latest.fetch_max(begin, Ordering::Relaxed);
            let start = Clocks::now();
            work();
            let (wall, cpu) = start.since();
            last.fetch_max(at(), Ordering::Relaxed);
            worked.fetch_add(wall.as_nanos() as u64, Ordering::Relaxed);
            let lost = wall.saturating_sub(cpu);
            self.lost.fetch_add(lost.as_nanos() as u64, Ordering::Relaxed);
        });
        let (wall, cpu) = start.since();
        let between = Duration::from_nanos(last.into_inner().saturating_sub(first.into_inner()));
        let mut lost = wall.saturating_sub(between).saturating_sub(TURN);
        let worked = Duration::from_nanos(worked.into_inner());
        let idle = (wall * self.threads() as u32).saturating_sub(worked);
        let latest = Duration::from_nanos(latest.into_inner());
        if all {
            lost += idle.saturating_sub(wall.mul_f64(IDLE));
        } else if latest > LATE {
            lost += latest;
        } else if wall > LATE {
            lost += wall * (self.threads() - came.into_inner()) as u32;
        }
        self.lost.fetch_add(lost.as_nanos() as u64, Ordering::Relaxed);
        let mut inside = self.inside();
        inside.0 += wall;
        inside.1 += cpu;
    }

    fn inside(&self) -> MutexGuard<'_, (Duration, Duration)> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Executor for Crew {
    fn run(&self, work: &(dyn Fn() + Sync)) {
        self.section(work, false);
    }
}

/// Keeps a processor busy.
fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        hint::spin_loop();
    }
}

/// What one window told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// For one call.
    pub(super) seconds: f64,
    /// Whether a thread was without a processor for a part of it.
    pub(super) disturbed: bool,
}

/// Of several numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// The smallest.
    pub(crate) min: f64,
    /// The middle one, of an even count the upper.
    pub(crate) median: f64,
    /// The largest.
    pub(crate) max: f64,
}

impl Spread {
    /// `None` of no numbers.
    pub(super) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            min: *sorted.first()?,
            median: sorted[sorted.len() / 2],
            max: *sorted.last()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_of_what_was_given() {
        assert_eq!(Spread::of([]), None);
        let spread = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 3.0));
        let one = Spread::of([5.0]).unwrap();
        assert_eq!((one.min, one.median, one.max), (5.0, 5.0, 5.0));
    }

    #[test]
    fn every_task_runs_once() {
        for threads in [1, 2, 3] {
            let crew = Crew::new(threads);
            let runs: Vec<_> = (0..100).map(|_| AtomicUsize::new(0)).collect();
            crew.each(runs.len(), &|index| {
                runs[index].fetch_add(1, Ordering::Relaxed);
            });
            assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1));
        }
    }

    /// A thread that sleeps has no processor, as one that others keep from it; wherever it is in the section.
    #[test]
    fn sleep_is_a_disturbance() {
        let nap = Duration::from_millis(3);
        for threads in [1, 2] {
            let crew = Crew::new(threads);
            let outside = crew.window(Duration::ZERO, &mut || std::thread::sleep(nap));
            assert!(outside.disturbed && outside.seconds >= 0.003, "{outside:?}");
            let inside = crew.window(Duration::ZERO, &mut || {
                crew.each(2, &|index| {
                    if index == 1 {
                        std::thread::sleep(nap);
                    } else {
                        spin(nap);
                    }
                });
            });
            assert!(inside.disturbed, "{threads}: {inside:?}");
        }
    }

    /// On a machine that is not wholly taken by others some of many windows are quiet.
    #[test]
    fn quiet_windows_count() {
        let crew = Crew::new(1);
        let quiet = (0..200).any(|_| {
            !crew
                .window(Duration::from_micros(300), &mut || spin(Duration::from_micros(50)))
                .disturbed
        });
        assert!(quiet);
    }
}
