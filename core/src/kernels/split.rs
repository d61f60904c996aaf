//! Splitting an output into disjoint bands, and handing them to the threads of an executor, each exactly once.

use core::marker::PhantomData;
use core::ops::Range;

use super::Executor;

/// Work below this many multiplications runs on the caller's thread: waking another costs about as much.
const WORTH_THREADS: usize = 1 << 18;
/// A piece has at least this many multiplications, so that claiming it is cheap beside it.
const SMALLEST_PIECE: usize = 1 << 16;
/// Where there are enough of them, pieces have this many multiplications: streams of weights are long then, which the
/// processor has to recognise as such before it reads ahead.
const LONG_PIECE: usize = 1_179_648;
/// This many pieces are enough to spare long ones.
const FEW_PIECES: usize = 8;
/// At most this many pieces: enough to even out threads of unequal speed.
const MOST_PIECES: usize = 64;

/// A range of columns of a row-major buffer, with the right to write it.
pub(super) struct Band<'a> {
    /// Start of the buffer, not of the band.
    buffer: *mut f32,
    height: usize,
    stride: usize,
    start: usize,
    width: usize,
    owner: PhantomData<&'a mut [f32]>,
}

impl<'a> Band<'a> {
    /// All columns of a buffer of `height` rows. A remainder of `buffer` that fills no row is left out.
    pub(super) fn whole(buffer: &'a mut [f32], height: usize) -> Self {
        let stride = buffer.len().checked_div(height).unwrap_or(0);
        Self {
            buffer: buffer.as_mut_ptr(),
            height,
            stride,
            start: 0,
            width: stride,
            owner: PhantomData,
        }
    }

    /// Number of rows.
    pub(super) fn height(&self) -> usize {
        self.height
    }
    /// The first column of the buffer that belongs to the band.
    pub(super) fn start(&self) -> usize {
        self.start
    }
    /// Number of columns.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Some of the band's rows and columns, as a band that borrows this one; columns are counted in the band.
    pub(super) fn part(&mut self, rows: Range<usize>, columns: Range<usize>) -> Band<'_> {
        assert!(
            rows.start <= rows.end && rows.end <= self.height,
            "a band has no such rows"
        );
        assert!(
            columns.start <= columns.end && columns.end <= self.width,
            "a band has no such columns"
        );
        Band {
            // SAFETY: the row begins inside the buffer, or, if there are none, where it ends.
            buffer: unsafe { self.buffer.add(rows.start * self.stride) },
            height: rows.len(),
            stride: self.stride,
            start: self.start + columns.start,
            width: columns.len(),
            owner: PhantomData,
        }
    }

    /// The band's part of row `index`.
    pub(super) fn row(&mut self, index: usize) -> &mut [f32] {
        assert!(index < self.height, "a band has no such row");
        // SAFETY: `index < height` and `start + width <= stride`, so the part lies inside the buffer that the band's
        // maker borrowed for 'a. No other band has these columns (`Pieces::band`), and this one is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.buffer.add(index * self.stride + self.start), self.width) }
    }
}

/// A buffer cut into bands of `piece` columns each (the last may be narrower).
struct Pieces {
    buffer: *mut f32,
    height: usize,
    width: usize,
    piece: usize,
}

// SAFETY: the pointer is only used to make bands, which are disjoint slices of f32; f32 is Send.
unsafe impl Sync for Pieces {}

impl Pieces {
    /// Band `index`.
    ///
    /// # Safety
    /// The buffer of `height * width` values is borrowed mutably for the life of the band, and no other band of this
    /// index lives.
    unsafe fn band<'a>(&self, index: usize) -> Band<'a> {
        let start = (index * self.piece).min(self.width);
        Band {
            buffer: self.buffer,
            height: self.height,
            stride: self.width,
            start,
            width: self.piece.min(self.width - start),
            owner: PhantomData,
        }
    }
}

/// Cuts the columns of `buffer` (`height` rows) into bands and calls `work` with each, on the threads of `executor`.
///
/// Bands begin at multiples of `unit` columns; `unit_cost` is the number of multiplications for one unit.
pub(super) fn split(
    executor: &dyn Executor,
    buffer: &mut [f32],
    height: usize,
    unit: usize,
    unit_cost: usize,
    work: &(dyn Fn(Band) + Sync),
) {
    let width = buffer.len().checked_div(height).unwrap_or(0);
    if width == 0 || unit == 0 {
        return;
    }
    let units = width.div_ceil(unit);
    if units == 1 || units.saturating_mul(unit_cost) < WORTH_THREADS {
        return work(Band::whole(buffer, height));
    }
    let units_of = |cost: usize| cost.div_ceil(unit_cost.max(1));
    let long = units_of(LONG_PIECE).min(units.div_ceil(FEW_PIECES));
    let piece = units
        .div_ceil(MOST_PIECES)
        .max(long)
        .max(units_of(SMALLEST_PIECE))
        .saturating_mul(unit);
    let pieces = Pieces {
        buffer: buffer.as_mut_ptr(),
        height,
        width,
        piece,
    };
    run_tasks(executor, width.div_ceil(piece), &|index| {
        // SAFETY: `buffer` stays borrowed until `run_tasks` returns, by when all its tasks have ended (the contract
        // of `Executor`); `run_tasks` gives out every index once.
        work(unsafe { pieces.band(index) });
    });
}

/// Calls `task` once for every index below `count`, on the threads of `executor` and on the caller's.
#[cfg(target_has_atomic = "ptr")]
fn run_tasks(executor: &dyn Executor, count: usize, task: &(dyn Fn(usize) + Sync)) {
    use core::sync::atomic::{AtomicUsize, Ordering};

    let next = AtomicUsize::new(0);
    // The counter stops at `count`, so that no number of calls can make it wrap. Relaxed is enough: an index is all
    // that it hands over, and the executor waits for its threads.
    let claim = |next: usize| if next < count { Some(next + 1) } else { None };
    let work = || {
        while let Ok(index) = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim) {
            task(index);
        }
    };
    executor.run(&work);
    work();
}

/// Without atomic counters there is nothing to share work by: the caller's thread does it all.
#[cfg(not(target_has_atomic = "ptr"))]
fn run_tasks(_executor: &dyn Executor, count: usize, task: &(dyn Fn(usize) + Sync)) {
    (0..count).for_each(task);
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::kernels::Serial;

    /// Calls the closure on several threads, several times, from within itself and after the end.
    struct Unruly;
    impl Executor for Unruly {
        fn run(&self, work: &(dyn Fn() + Sync)) {
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        work();
                        Serial.run(work);
                        work();
                    });
                }
            });
            work();
        }
    }

    #[test]
    fn every_task_runs_once() {
        let executors: [&dyn Executor; 2] = [&Serial, &Unruly];
        for executor in executors {
            for count in [0, 1, 2, 63, 1000] {
                let runs: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                run_tasks(executor, count, &|index| {
                    runs[index].fetch_add(1, Ordering::Relaxed);
                });
                assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn bands_cover_every_column_once() {
        for (height, width, unit, cost) in [
            (1, 1, 1, 1),
            (3, 100, 16, WORTH_THREADS),
            (2, 1000, 7, 40_000),
            (5, 64, 8, 1),
        ] {
            let mut buffer = vec![0.0f32; height * width];
            split(&Unruly, &mut buffer, height, unit, cost, &|mut band| {
                assert_eq!(band.start() % unit, 0);
                for row in 0..band.height() {
                    let start = band.start();
                    for (i, value) in band.row(row).iter_mut().enumerate() {
                        *value += (row * width + start + i + 1) as f32;
                    }
                }
            });
            assert!(buffer.iter().enumerate().all(|(i, &value)| value == (i + 1) as f32));
        }
    }

    #[test]
    fn small_work_is_one_piece() {
        let mut buffer = vec![0.0f32; 64];
        let pieces = AtomicUsize::new(0);
        split(&Unruly, &mut buffer, 1, 1, 100, &|_| {
            pieces.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(pieces.load(Ordering::Relaxed), 1);
    }
}
