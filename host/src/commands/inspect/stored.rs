//! Tensors whose bytes are blocks of weights: what they hold.

use voxtral_core::format::safetensors::{Blocks, Tensor};
use voxtral_core::kernels::{Matrix, Storage};
use voxtral_core::model::blocks_label;

use crate::error::Error;
use crate::weights::WeightsFile;

/// What the metadata says of the tensor's blocks, if it says something that can be read.
pub(super) fn blocks(tensor: &Tensor<'_>) -> Option<Blocks> {
    tensor.blocks()?.ok()
}

/// The elements of a tensor: weights, where its bytes are blocks of them.
pub(super) fn elements(tensor: &Tensor<'_>) -> u64 {
    blocks(tensor).map_or_else(|| tensor.elements(), |blocks| blocks.rows.saturating_mul(blocks.cols))
}

/// Bits of the file for each weight.
pub(super) fn bits_per_weight(tensor: &Tensor<'_>) -> f64 {
    let range = tensor.range();
    8.0 * (range.end - range.start) as f64 / elements(tensor).max(1) as f64
}

/// The weights in a tensor's blocks, if it has some.
///
/// # Errors
/// [`Error::Blocks`] if they cannot be read; [`Error::Safetensors`] if they are out of reach.
pub(super) fn matrix<'a>(file: &WeightsFile, tensor: &Tensor<'a>) -> Result<Option<Matrix<'a>>, Error> {
    let Some(told) = tensor.blocks() else { return Ok(None) };
    let refuse = |storage: String| Error::Blocks {
        path: file.path().into(),
        tensor: tensor.name().to_string(),
        storage,
    };
    let blocks = told.map_err(|text| refuse(text.to_string()))?;
    let label = blocks.label.to_string();
    let storage = [Storage::Q8, Storage::Q4]
        .into_iter()
        .find(|&storage| blocks_label(storage) == Some(label.as_str()))
        .ok_or_else(|| refuse(blocks.to_string()))?;
    let bytes = tensor.bytes().map_err(|source| file.refusal(source))?;
    let (rows, cols) = (usize::try_from(blocks.rows), usize::try_from(blocks.cols));
    let matrix = rows.ok().zip(cols.ok());
    let matrix = matrix.and_then(|(rows, cols)| Matrix::new(bytes, rows, cols, storage));
    matrix.map(Some).ok_or_else(|| refuse(blocks.to_string()))
}

/// All weights of a matrix, row by row.
pub(super) fn values(matrix: Matrix<'_>) -> impl Iterator<Item = f32> + Clone {
    (0..matrix.rows()).flat_map(move |row| {
        let mut values = vec![0.0; matrix.cols()];
        matrix.widen_row(row, &mut values);
        values
    })
}
