//! How the tensor of a role is stored, and whether that is as long as its shape wants it.

use super::binding::{BindError, Role, Shape};
use crate::format::params::Params;
use crate::format::safetensors::{Blocks, Dtype, Label, Tensor};
use crate::kernels::Storage;

/// The label of [`Storage::Q8`] in a file.
pub(super) const Q8: &str = "q8/1";
/// The label of [`Storage::Q4`] in a file.
pub(super) const Q4: &str = "q4/1";

/// How a storage in blocks is called in a file (see [`Blocks`]); `None` for the others, which have a dtype.
pub const fn blocks_label(storage: Storage) -> Option<&'static str> {
    match storage {
        Storage::Q8 => Some(Q8),
        Storage::Q4 => Some(Q4),
        Storage::Bf16 | Storage::F16 | Storage::F32 => None,
    }
}

/// The storage of a tensor, and for blocks that its bytes are as many as its rows and columns take.
pub(super) fn check_storage(role: Role, tensor: &Tensor) -> Result<Storage, BindError> {
    let Some(blocks) = tensor.blocks() else {
        return match tensor.dtype() {
            Dtype::Bf16 => Ok(Storage::Bf16),
            Dtype::F16 => Ok(Storage::F16),
            Dtype::F32 => Ok(Storage::F32),
            found => Err(BindError::WrongDtype { role, found }),
        };
    };
    let Blocks { label, rows, cols } = blocks.map_err(|_| BindError::InvalidBlocks { role })?;
    let storage = [Storage::Q8, Storage::Q4]
        .into_iter()
        .find(|&storage| blocks_label(storage).map(Label::new) == Some(label))
        .ok_or(BindError::UnknownBlocks { role, found: label })?;
    if !role.takes_blocks() {
        return Err(BindError::NoBlocksHere { role });
    }
    if tensor.dtype() != Dtype::U8 {
        let found = tensor.dtype();
        return Err(BindError::BlocksDtype { role, found });
    }
    let row_bytes = usize::try_from(cols).ok().and_then(|cols| storage.row_bytes(cols));
    let expected: Shape = [rows, row_bytes.unwrap_or(0) as u64].into_iter().collect();
    let found: Shape = tensor.shape().collect();
    if row_bytes.is_none() || expected != found {
        return Err(BindError::BlocksSize { role, expected, found });
    }
    Ok(storage)
}

/// The shape of a tensor, for blocks that of the matrix in them, is the role's.
pub(super) fn check_shape(role: Role, params: &Params, tensor: &Tensor) -> Result<(), BindError> {
    let expected = role.shape(params);
    let found = match tensor.blocks() {
        Some(Ok(Blocks { rows, cols, .. })) => [rows, cols].into_iter().collect(),
        _ => tensor.shape().collect(),
    };
    if expected == found {
        Ok(())
    } else {
        Err(BindError::WrongShape { role, expected, found })
    }
}
