//! Rows on all threads, and how far they come back from what they were.

use std::sync::Mutex;

use voxtral_core::kernels::{Executor, Matrix, Storage, encode_row};

use super::RowError;

/// Bytes of the original that are worked on at a time.
pub(super) const PIECE: usize = 8 << 20;

/// Bytes of the original that a thread takes at a time.
const TASK: usize = 64 << 10;

/// How far decoded weights are from the original.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Errors {
    /// The largest difference.
    pub(crate) largest: f64,
    squares: f64,
    /// Of the original.
    signal: f64,
    count: u64,
}

impl Errors {
    /// Root of the mean of the squared differences.
    pub(crate) fn rms(&self) -> f64 {
        ratio(self.squares, self.count as f64).sqrt()
    }

    /// The same over that of the weights.
    pub(crate) fn relative(&self) -> f64 {
        ratio(self.squares, self.signal).sqrt()
    }

    /// Adds another part's.
    pub(crate) fn add(&mut self, other: &Self) {
        self.largest = self.largest.max(other.largest);
        self.squares += other.squares;
        self.signal += other.signal;
        self.count += other.count;
    }

    fn row(&mut self, original: &[f32], decoded: &[f32]) {
        for (a, b) in original.iter().zip(decoded) {
            let difference = (f64::from(*a) - f64::from(*b)).abs();
            self.largest = self.largest.max(difference);
            self.squares += difference * difference;
            self.signal += f64::from(*a) * f64::from(*a);
        }
        self.count += original.len() as u64;
    }
}

/// 0 where there is nothing to compare with.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// Encodes pieces, one after the other, in the same memory.
pub(super) struct Encoder<'a> {
    executor: &'a dyn Executor,
    out: Vec<u8>,
}

/// Rows that a thread takes: the number of the first, their bytes, and room for the new ones.
type Task<'t> = (usize, (&'t [u8], &'t mut [u8]));

impl<'a> Encoder<'a> {
    pub(super) fn new(executor: &'a dyn Executor) -> Self {
        Self {
            executor,
            out: Vec::new(),
        }
    }

    /// Encodes `rows`, whole rows of `cols` elements stored as `from`; adds to `errors`.
    ///
    /// Sums are over tasks in their order, so they do not depend on threads.
    pub(super) fn encode(
        &mut self,
        from: Storage,
        to: Storage,
        cols: usize,
        rows: &[u8],
        importance: Option<&[f32]>,
        errors: &mut Errors,
    ) -> Result<&[u8], RowError> {
        let (Some(old), Some(new)) = (from.row_bytes(cols), to.row_bytes(cols)) else {
            return Ok(&[]);
        };
        let (old, new) = (old.max(1), new.max(1));
        let count = rows.len() / old;
        self.out.resize(count * new, 0);
        let together = (TASK / old).max(1);
        let mut results: Vec<Result<Errors, RowError>> = vec![Ok(Errors::default()); count.div_ceil(together)];
        let tasks = rows.chunks(together * old).zip(self.out.chunks_mut(together * new));
        let tasks = Mutex::new(tasks.enumerate().zip(&mut results));
        let work = || {
            let mut rows = Rows::new(from, to, cols, importance);
            loop {
                // A thread that panicked has left the list as it was.
                let task = tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
                let Some((task, result)) = task else { break };
                *result = rows.encode(task, together);
            }
        };
        self.executor.run(&work);
        work();
        for result in results {
            errors.add(&result?);
        }
        Ok(&self.out)
    }
}

/// What a thread works in.
struct Rows<'i> {
    from: Storage,
    to: Storage,
    original: Vec<f32>,
    decoded: Vec<f32>,
    importance: Option<&'i [f32]>,
}

impl<'i> Rows<'i> {
    fn new(from: Storage, to: Storage, cols: usize, importance: Option<&'i [f32]>) -> Self {
        Self {
            from,
            to,
            original: vec![0.0; cols],
            decoded: vec![0.0; cols],
            importance,
        }
    }

    fn encode(&mut self, (index, (old, new)): Task<'_>, together: usize) -> Result<Errors, RowError> {
        let cols = self.original.len();
        let mut errors = Errors::default();
        let (Some(old_row), Some(new_row)) = (self.from.row_bytes(cols), self.to.row_bytes(cols)) else {
            return Ok(errors);
        };
        let rows = old
            .chunks_exact(old_row.max(1))
            .zip(new.chunks_exact_mut(new_row.max(1)));
        for (row, (old, new)) in rows.enumerate() {
            widen(old, self.from, &mut self.original);
            encode_row(self.to, &self.original, self.importance, new)
                .map_err(|source| (index * together + row, source))?;
            widen(new, self.to, &mut self.decoded);
            errors.row(&self.original, &self.decoded);
        }
        Ok(errors)
    }
}

/// The values of one row.
fn widen(bytes: &[u8], storage: Storage, out: &mut [f32]) {
    if let Some(row) = Matrix::new(bytes, 1, out.len(), storage) {
        row.widen_row(0, out);
    }
}
