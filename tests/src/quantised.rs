//! Models with weights in blocks, made of plain ones by core's encoder, and what such a file means in f32.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use voxtral_core::format::params::Params;
use voxtral_core::kernels::{Matrix, Storage, encode_row};
use voxtral_core::model::{Role, blocks_label};

use crate::generator::safetensors::{self, Tensor};

/// A file's tensors, and the pairs of its metadata. Fields are free, so that tests can make them wrong.
pub struct Model {
    /// By name.
    pub tensors: BTreeMap<String, Tensor>,
    /// Keys and values.
    pub metadata: BTreeMap<String, String>,
}

impl Model {
    /// A model of plain storage with every matrix that may be in blocks of `storage`, and whose rows are wide enough,
    /// in them.
    pub fn new(weights: &[u8], params: &Params, storage: Storage) -> Self {
        let roles: BTreeSet<String> = Role::all(params)
            .filter(|role| role.takes_blocks())
            .map(|role| role.to_string())
            .collect();
        let mut metadata = BTreeMap::new();
        let mut tensors = safetensors::read(weights);
        for tensor in tensors.values_mut().filter(|tensor| roles.contains(&tensor.name)) {
            let (rows, cols) = (tensor.shape[0], tensor.shape[1]);
            let Some(row_bytes) = storage.row_bytes(cols) else {
                continue;
            };
            let values: Vec<f32> = tensor.values().iter().map(|&v| v as f32).collect();
            let mut bytes = vec![0; rows * row_bytes];
            for (row, out) in values.chunks_exact(cols).zip(bytes.chunks_exact_mut(row_bytes)) {
                encode_row(storage, row, None, out).expect("weights are finite");
            }
            let label = blocks_label(storage).expect("a storage in blocks");
            metadata.insert(
                format!("voxtral.blocks.{}", tensor.name),
                format!("{label} {rows}x{cols}"),
            );
            (tensor.dtype, tensor.shape, tensor.bytes) = ("U8".into(), vec![rows, row_bytes], bytes);
        }
        Self { tensors, metadata }
    }

    /// The file.
    pub fn file(&self) -> Vec<u8> {
        let data: Vec<&[u8]> = self.tensors.values().map(|tensor| &tensor.bytes[..]).collect();
        safetensors::raw_file(&Value::Object(self.header()).to_string(), &data.concat())
    }

    /// The header of the file.
    pub fn header(&self) -> Map<String, Value> {
        let mut header = Map::new();
        header.insert("__metadata__".into(), json!(self.metadata));
        let mut offset = 0;
        for tensor in self.tensors.values() {
            let end = offset + tensor.bytes.len();
            let entry = json!({"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [offset, end]});
            header.insert(tensor.name.clone(), entry);
            offset = end;
        }
        header
    }

    /// The same weights with those in blocks decoded to f32: what the f64 reference computes with.
    pub fn widened(&self) -> BTreeMap<String, Tensor> {
        let mut tensors = self.tensors.clone();
        for (key, value) in &self.metadata {
            let tensor = tensors.get_mut(&key["voxtral.blocks.".len()..]).expect("the tensor");
            let (label, shape) = value.split_once(' ').expect("a label and a shape");
            let (rows, cols) = shape.split_once('x').expect("rows and columns");
            let (rows, cols) = (rows.parse().expect("rows"), cols.parse().expect("columns"));
            let storage = [Storage::Q8, Storage::Q4]
                .into_iter()
                .find(|&storage| blocks_label(storage) == Some(label))
                .expect("a known label");
            let matrix = Matrix::new(&tensor.bytes, rows, cols, storage).expect("a matrix");
            let mut values = vec![0.0; rows * cols];
            for (row, out) in values.chunks_exact_mut(cols).enumerate() {
                matrix.widen_row(row, out);
            }
            let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            (tensor.dtype, tensor.shape, tensor.bytes) = ("F32".into(), vec![rows, cols], bytes);
        }
        tensors
    }
}
