//! What the new file will be: every tensor with its storage and place, and the header that says so.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use voxtral_core::format::params::Params;
use voxtral_core::format::safetensors::{Blocks, Dtype, Label, Tensor};
use voxtral_core::kernels::Storage;
use voxtral_core::model::{Role, blocks_label};

use super::encode::PIECE;
use super::recipe::{Override, Recipe};
use crate::error::Error;
use crate::weights::WeightsFile;

/// The data of a file begins at a multiple of this, which kernels like better.
const ALIGNMENT: usize = 64;

/// The key of the metadata that names the recipe.
const RECIPE_KEY: &str = "voxtral.recipe";

/// A tensor on its way.
pub(crate) struct Planned<'a> {
    pub(crate) name: String,
    /// What it is in the model, if it is part of it.
    pub(crate) role: Option<Role>,
    pub(super) source: Tensor<'a>,
    /// How its elements are stored now; of no meaning where they stay so.
    pub(super) from: Storage,
    /// How they will be; `None` if they stay.
    pub(crate) storage: Option<Storage>,
    /// What the recipe asked for and cannot be had, since rows of this width have no such blocks.
    pub(crate) refused: Option<Storage>,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Bytes in the new file.
    pub(crate) bytes: u64,
}

/// The new file.
pub(crate) struct Plan<'a> {
    /// In the order of the data.
    pub(crate) tensors: Vec<Planned<'a>>,
    /// With the number in front of it.
    pub(super) header: Vec<u8>,
}

impl<'a> Plan<'a> {
    /// The plan for a model.
    ///
    /// # Errors
    /// [`Error::AlreadyQuantised`], and [`Error::Usage`] if an override is for nothing.
    pub(crate) fn new(
        source: &'a WeightsFile,
        params: &Params,
        recipe: Recipe,
        overrides: &[Override],
    ) -> Result<Self, Error> {
        let roles: HashMap<String, Role> = Role::all(params).map(|role| (role.to_string(), role)).collect();
        let header = source.header();
        for other in overrides {
            let fits = |(name, role): (&String, &Role)| role.takes_blocks() && other.of(name).is_some();
            if !roles.iter().any(fits) {
                return Err(Error::Usage(format!(
                    "--set {other}: no matrix that may be blocks has {:?} in its name (`voxtral inspect` lists the names)",
                    other.part()
                )));
            }
        }
        let mut tensors = Vec::with_capacity(header.len());
        for tensor in header.iter_by_offset() {
            let name = tensor.name().to_string();
            let role = roles.get(&name).copied();
            if role.is_some() && tensor.blocks().is_some() {
                return Err(Error::AlreadyQuantised {
                    path: source.path().into(),
                    tensor: name,
                });
            }
            tensors.push(Planned::new(tensor, name, role, |name, role| {
                let mut chosen = recipe.storage(role, params);
                if role.takes_blocks() {
                    for other in overrides.iter().filter_map(|other| other.of(name)) {
                        chosen = other;
                    }
                }
                chosen
            }));
        }
        let metadata = header
            .metadata()
            .map(|(key, value)| (key.to_string(), Value::from(value.to_string())));
        let header = file_header(&tensors, metadata.collect(), recipe);
        Ok(Self { tensors, header })
    }

    /// Bytes of the file.
    pub(crate) fn len(&self) -> u64 {
        self.header.len() as u64 + self.tensors.iter().map(|tensor| tensor.bytes).sum::<u64>()
    }

    /// Bytes of data that are read for it.
    pub(crate) fn source_len(&self) -> u64 {
        self.tensors.iter().map(Planned::source_len).sum()
    }
}

impl<'a> Planned<'a> {
    fn new(
        source: Tensor<'a>,
        name: String,
        role: Option<Role>,
        choose: impl Fn(&str, Role) -> Option<Storage>,
    ) -> Self {
        let from = match source.dtype() {
            Dtype::F16 => Storage::F16,
            Dtype::F32 => Storage::F32,
            _ => Storage::Bf16,
        };
        let mut shape = source.shape().map(|dim| dim as usize);
        let (rows, cols) = match (source.rank(), shape.next(), shape.next()) {
            (2, Some(rows), Some(cols)) => (rows, cols),
            _ => (1, source.elements() as usize),
        };
        let wanted = role.and_then(|role| choose(&name, role));
        let row_bytes = wanted.and_then(|storage| storage.row_bytes(cols));
        let storage = wanted.filter(|_| row_bytes.is_some());
        let range = source.range();
        let bytes = row_bytes.map_or(range.end - range.start, |row| row as u64 * rows as u64);
        Self {
            name,
            role,
            source,
            from,
            storage,
            refused: wanted.filter(|_| row_bytes.is_none()),
            rows,
            cols,
            bytes,
        }
    }

    /// Its bytes in the original.
    pub(crate) fn source_len(&self) -> u64 {
        let range = self.source.range();
        range.end - range.start
    }

    /// Its elements.
    pub(crate) fn elements(&self) -> u64 {
        self.source.elements()
    }

    /// The name of the storage in the new file.
    pub(crate) fn storage_name(&self) -> &'static str {
        match self.storage {
            Some(Storage::Q8) => "Q8",
            Some(Storage::Q4) => "Q4",
            _ => self.source.dtype().name(),
        }
    }

    /// Whole rows of the original, about [`PIECE`] bytes at a time, with the number of the first.
    pub(super) fn pieces<'b>(&self, bytes: &'b [u8]) -> impl Iterator<Item = (usize, &'b [u8])> + use<'b> {
        let row = (self.from.row_bytes(self.cols).unwrap_or(0)).max(1);
        let rows = (PIECE / row).max(1);
        bytes
            .chunks(rows * row)
            .enumerate()
            .map(move |(i, piece)| (i * rows, piece))
    }
}

/// The header, padded so that the data is aligned.
fn file_header(tensors: &[Planned<'_>], mut metadata: Map<String, Value>, recipe: Recipe) -> Vec<u8> {
    metadata.insert(RECIPE_KEY.into(), recipe.name().into());
    let mut entries = Map::new();
    let mut offset = 0;
    for tensor in tensors {
        let end = offset + tensor.bytes;
        let label = tensor.storage.and_then(blocks_label);
        let (dtype, shape) = match (tensor.storage, label) {
            (Some(storage), Some(label)) => {
                let blocks = Blocks {
                    label: Label::new(label),
                    rows: tensor.rows as u64,
                    cols: tensor.cols as u64,
                };
                metadata.insert(format!("{}{}", Blocks::KEY, tensor.name), blocks.to_string().into());
                let row = storage.row_bytes(tensor.cols).unwrap_or(0);
                (Dtype::U8.name(), vec![tensor.rows as u64, row as u64])
            }
            _ => (tensor.source.dtype().name(), tensor.source.shape().collect()),
        };
        entries.insert(
            tensor.name.clone(),
            json!({"dtype": dtype, "shape": shape, "data_offsets": [offset, end]}),
        );
        offset = end;
    }
    let mut object = Map::new();
    object.insert("__metadata__".into(), Value::Object(metadata));
    object.append(&mut entries);
    let mut header = vec![0; 8];
    header.extend(Value::Object(object).to_string().into_bytes());
    header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
    let len = header.len() as u64 - 8;
    header[..8].copy_from_slice(&len.to_le_bytes());
    header
}
