//! Writing a model with smaller weights: tensor by tensor, in pieces, so that memory does not grow with the model.
//!
//! What is where is known before anything is computed ([`Plan`]), so the header is written first and the data follows
//! it in the order of the original.

mod calibrate;
mod encode;
mod plan;
mod recipe;

use std::io::{self, Write};
use std::path::Path;

use voxtral_core::kernels::{EncodeError, Executor};

use crate::error::Error;
use crate::weights::WeightsFile;

pub(crate) use calibrate::Activations;
pub(crate) use encode::Errors;
pub(crate) use plan::{Plan, Planned};
pub(crate) use recipe::{Override, Recipe};

/// Hears of tensors as they are written.
pub(crate) trait Watch {
    /// So many bytes of the original have been read in all. An error ends the work.
    fn progress(&mut self, bytes: u64) -> Result<(), Error>;

    /// A tensor has been written. `errors` are those that its new storage makes, if it has one.
    fn tensor(&mut self, tensor: &Planned<'_>, errors: Option<&Errors>) -> Result<(), Error>;
}

/// What the writing needs to know.
pub(crate) struct Job<'a> {
    pub(crate) source: &'a WeightsFile,
    pub(crate) plan: &'a Plan<'a>,
    pub(crate) activations: &'a Activations,
    pub(crate) executor: &'a dyn Executor,
}

impl Job<'_> {
    /// Writes the whole file.
    ///
    /// # Errors
    /// [`Error::File`] with `path` if it cannot be written, [`Error::Encode`] if a weight cannot be, and those of the
    /// watch.
    pub(crate) fn write(&self, path: &Path, out: &mut dyn Write, watch: &mut dyn Watch) -> Result<(), Error> {
        let refuse = |source: io::Error| Error::File {
            path: path.into(),
            source,
        };
        out.write_all(&self.plan.header).map_err(refuse)?;
        let mut encoder = encode::Encoder::new(self.executor);
        let mut done = 0;
        for tensor in &self.plan.tensors {
            let bytes = tensor.source.bytes().map_err(|source| self.source.refusal(source))?;
            let Some(storage) = tensor.storage else {
                for piece in bytes.chunks(encode::PIECE) {
                    out.write_all(piece).map_err(refuse)?;
                    done += piece.len() as u64;
                    watch.progress(done)?;
                }
                watch.tensor(tensor, None)?;
                continue;
            };
            let importance = self.activations.of(tensor.role);
            let mut errors = Errors::default();
            for (first, rows) in tensor.pieces(bytes) {
                let encoded = encoder
                    .encode(tensor.from, storage, tensor.cols, rows, importance, &mut errors)
                    .map_err(|(row, source)| Error::Encode {
                        path: self.source.path().into(),
                        tensor: tensor.name.clone(),
                        row: first + row,
                        source,
                    })?;
                out.write_all(encoded).map_err(refuse)?;
                done += rows.len() as u64;
                watch.progress(done)?;
            }
            watch.tensor(tensor, Some(&errors))?;
        }
        Ok(())
    }
}

/// What went wrong with which row.
type RowError = (usize, EncodeError);
