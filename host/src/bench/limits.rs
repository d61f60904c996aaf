//! How fast this machine reads the model's file, and multiplies.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use voxtral_core::kernels::Kernels;

use super::peak::{FLOP, MAX_STREAMS, Peak};
use super::windows::{Crew, Spread, Window};
use super::{LEAST_WINDOWS, MOST_WINDOWS, PATIENCE, WINDOW, check_interrupt};
use crate::error::Error;

/// Bytes that a thread reads before it takes the next piece. No multiple of a large power of two, and neither are its
/// parts: streams would move over the same channels and banks of memory in step.
const PIECE: usize = 2_000_000;
/// Pieces for each thread in one call: so many that none waits long for another, and that a call takes most of a window.
const PIECES: usize = 12;
/// Calls of the loop out of registers for each thread in one call.
const LOOPS: usize = 64;

/// Numbers of streams that are so near to the fastest are as good. Of these the nearest to [`USUAL_STREAMS`] is taken: where
/// memory is busy for a while all are alike, and later this one is near the fastest again.
const ALIKE: f64 = 0.97;
const USUAL_STREAMS: usize = 4;

/// What something can be bound by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Reading, in GB/s.
    Memory,
    /// Multiply-adds, in GFLOP/s.
    Arithmetic,
}

impl Resource {
    /// What its rates are in.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Memory => "GB/s",
            Self::Arithmetic => "GFLOP/s",
        }
    }
}

/// One limit of some threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// In the resource's unit; `None` if no window counted.
    pub(crate) rate: Option<Spread>,
    /// The median of the windows that counted, else of all, which is good enough to tell by what something is bound.
    usual: Option<f64>,
    /// Windows that counted.
    pub(crate) windows: usize,
    /// Windows that others disturbed.
    pub(crate) discarded: usize,
}

/// Both limits of some threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Threads at work.
    pub(crate) threads: usize,
    /// Streams that each thread reads side by side: the number that was fastest.
    pub(crate) streams: usize,
    /// Reading so.
    pub(crate) read: Limit,
    /// Multiplying out of registers.
    pub(crate) multiply_add: Limit,
}

/// The loops that show the limits, over the weights.
pub(crate) struct Limits<'m> {
    peak: Peak,
    weights: &'m [u8],
    /// Where the next call reads.
    at: AtomicUsize,
    streams: usize,
    /// Rates that decide by which of the two something is bound.
    rates: [f64; 2],
}

impl<'m> Limits<'m> {
    pub(super) fn new(kernels: Kernels, weights: &'m [u8]) -> Self {
        Self {
            peak: Peak::of(kernels),
            weights,
            at: AtomicUsize::new(0),
            streams: 1,
            rates: [1.0; 2],
        }
    }

    /// What multiplies, for a person.
    pub(crate) fn arithmetic(&self) -> &'static str {
        self.peak.name()
    }

    /// Holds everything against these from now on.
    pub(super) fn hold(&mut self, measured: &Measured) {
        self.streams = measured.streams;
        if let (Some(read), Some(multiply_add)) = (measured.read.usual, measured.multiply_add.usual) {
            self.rates = [read, multiply_add];
        }
    }

    /// By which limit so much work takes longer.
    pub(super) fn binding(&self, flop: f64, bytes: f64) -> Resource {
        if flop / self.rates[1] > bytes / self.rates[0] {
            Resource::Arithmetic
        } else {
            Resource::Memory
        }
    }

    /// Rate in a window of a resource's loop, by the streams that are held to be the fastest.
    pub(super) fn window(&self, crew: &Crew, resource: Resource, length: Duration) -> (f64, Window) {
        match resource {
            Resource::Memory => self.read_window(crew, self.streams, length),
            Resource::Arithmetic => self.multiply_add_window(crew, length),
        }
    }

    fn read_window(&self, crew: &Crew, streams: usize, length: Duration) -> (f64, Window) {
        let mut bytes = 0;
        let mut calls = 0;
        let window = crew.window(length, &mut || {
            bytes += self.read(crew, streams);
            calls += 1;
        });
        (1e-9 * bytes as f64 / f64::from(calls) / window.seconds, window)
    }

    fn multiply_add_window(&self, crew: &Crew, length: Duration) -> (f64, Window) {
        let tasks = crew.threads() * LOOPS;
        let window = crew.window(length, &mut || crew.each(tasks, &|_| self.peak.multiply_add()));
        (1e-9 * FLOP * tasks as f64 / window.seconds, window)
    }

    /// Reads the next pieces of the weights; says how many bytes that were.
    fn read(&self, crew: &Crew, streams: usize) -> usize {
        let tasks = crew.threads() * PIECES;
        let piece = PIECE.min(self.weights.len() / tasks);
        let mut start = self.at.load(Ordering::Relaxed);
        if start + tasks * piece > self.weights.len() {
            start = 0;
        }
        self.at.store(start + tasks * piece, Ordering::Relaxed);
        let read = AtomicUsize::new(0);
        crew.each(tasks, &|index| {
            let bytes = self.peak.read(&self.weights[start + index * piece..][..piece], streams);
            read.fetch_add(bytes, Ordering::Relaxed);
        });
        read.into_inner()
    }

    /// Reads some bytes once.
    pub(super) fn read_piece(&self, crew: &Crew, bytes: &[u8]) {
        let pieces: Vec<_> = bytes.chunks(PIECE).collect();
        crew.each(pieces.len(), &|index| {
            self.peak.read(pieces[index], 1);
        });
    }

    /// Measures both. Reading is tried with every number of streams, in turns.
    pub(super) fn measure(&self, crew: &Crew, budget: Duration, from_disk: bool) -> Result<Measured, Error> {
        let mut tries = [const { Try::new() }; MAX_STREAMS + 1];
        let start = Instant::now();
        loop {
            for (streams, tried) in (1..=MAX_STREAMS).zip(&mut tries) {
                tried.add(self.read_window(crew, streams, WINDOW), from_disk);
            }
            tries[MAX_STREAMS].add(self.multiply_add_window(crew, WINDOW), false);
            check_interrupt()?;
            let most = tries.iter().map(|tried| tried.rates.len()).max().unwrap_or_default();
            let least = tries.iter().map(|tried| tried.rates.len()).min().unwrap_or_default();
            let spent = start.elapsed();
            if most >= MOST_WINDOWS || spent > budget && least >= LEAST_WINDOWS || spent > PATIENCE * budget {
                break;
            }
        }
        let [reads @ .., multiply_add] = tries.map(Try::end);
        let median = |limit: &Limit| limit.usual.unwrap_or_default();
        let fastest = reads.iter().map(median).fold(0.0, f64::max);
        let (streams, read) = (1..=MAX_STREAMS)
            .zip(reads)
            .filter(|(_, read)| median(read) >= ALIKE * fastest)
            .min_by_key(|(streams, _)| streams.abs_diff(USUAL_STREAMS))
            .unwrap_or((USUAL_STREAMS, multiply_add));
        Ok(Measured {
            threads: crew.threads(),
            streams,
            read,
            multiply_add,
        })
    }
}

/// Windows of one loop.
struct Try {
    rates: Vec<f64>,
    disturbed: Vec<f64>,
}

impl Try {
    const fn new() -> Self {
        Self {
            rates: Vec::new(),
            disturbed: Vec::new(),
        }
    }

    fn add(&mut self, (rate, window): (f64, Window), anyway: bool) {
        if window.disturbed && !anyway {
            self.disturbed.push(rate);
        } else {
            self.rates.push(rate);
        }
    }

    fn end(self) -> Limit {
        let (windows, discarded) = (self.rates.len(), self.disturbed.len());
        let rate = Spread::of(self.rates);
        Limit {
            windows,
            usual: rate.or_else(|| Spread::of(self.disturbed)).map(|rate| rate.median),
            rate,
            discarded,
        }
    }
}
