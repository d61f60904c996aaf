//! Which weight files a path means: one file, a directory, or the index of a checkpoint in several files.
//!
//! Such a checkpoint has files `model-00001-of-00003.safetensors` and an index beside them,
//! `model.safetensors.index.json`: `{"metadata": {…}, "weight_map": {"tensor name": "file name", …}}`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Error;
use crate::model::FILES;
use crate::recognise::Kind;
use crate::weights::WeightsFile;

/// The ending of an index.
const INDEX: &str = ".index.json";
/// The ending of weights.
const WEIGHTS: &str = ".safetensors";

/// The weight files that belong together, and the index that says so.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    /// The path that was given.
    pub(crate) path: PathBuf,
    /// The files, in order.
    pub(crate) files: Vec<PathBuf>,
    index: Option<Index>,
}

/// What an index says.
#[derive(Debug)]
struct Index {
    path: PathBuf,
    /// Tensors and the files they are in.
    map: BTreeMap<String, String>,
}

impl Checkpoint {
    /// What `path` means. A directory: `consolidated.safetensors` if it is there, else what an index lists, else every
    /// safetensors file.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Shards`] if there is no weight file, an index is none, or files of a numbered set are
    /// missing.
    pub(crate) fn at(path: &Path) -> Result<Self, Error> {
        let is_index = path.to_string_lossy().ends_with(INDEX);
        let is_directory = fs::metadata(path).map_err(|source| file_error(path, source))?.is_dir();
        if !is_directory && !is_index {
            return Ok(Self::of(path, vec![path.into()], None));
        }
        if is_index && !is_directory {
            return Self::by_index(path, path);
        }
        let single = path.join(FILES[0]);
        if single.exists() {
            return Ok(Self::of(path, vec![single], None));
        }
        let mut names = vec![];
        for entry in fs::read_dir(path).map_err(|source| file_error(path, source))? {
            let name = entry.map_err(|source| file_error(path, source))?.file_name();
            // A name that is not UTF-8 is no shard's, and weights all the same.
            names.push(name);
        }
        names.sort();
        let ends = |ending: &str| {
            let names = names
                .iter()
                .filter(move |name| name.to_string_lossy().ends_with(ending));
            names.map(|name| path.join(name)).collect::<Vec<_>>()
        };
        let indices = ends(&format!("{WEIGHTS}{INDEX}"));
        match &indices[..] {
            [] => {}
            [index] => return Self::by_index(path, index),
            [first, second, ..] => {
                let what = format!(
                    "has several indices ({}, {}); give one of them",
                    file_name(first),
                    file_name(second)
                );
                return Err(shards(path, what));
            }
        }
        let files = ends(WEIGHTS);
        if files.is_empty() {
            return Err(shards(path, "no safetensors file is in this directory".into()));
        }
        missing_numbers(path, &files)?;
        Ok(Self::of(path, files, None))
    }

    fn of(path: &Path, files: Vec<PathBuf>, index: Option<Index>) -> Self {
        let path = path.into();
        Self { path, files, index }
    }

    fn by_index(given: &Path, path: &Path) -> Result<Self, Error> {
        let json = fs::read(path).map_err(|source| file_error(path, source))?;
        let value: Value = serde_json::from_slice(&json).map_err(|error| match Kind::of(&json) {
            None | Some(Kind::Json) => shards(path, error.to_string()),
            Some(found) => Error::NotWeights {
                path: path.into(),
                found,
            },
        })?;
        let Some(Value::Object(weight_map)) = value.get("weight_map") else {
            return Err(shards(path, "weight_map is missing".into()));
        };
        let mut map = BTreeMap::new();
        for (tensor, file) in weight_map {
            // An index has no say over files elsewhere.
            let name = file
                .as_str()
                .filter(|name| Path::new(name).file_name() == Some(name.as_ref()));
            let Some(name) = name else {
                let what = format!("weight_map has {file} for {tensor:?}, expected a file's name");
                return Err(shards(path, what));
            };
            map.insert(tensor.clone(), name.to_string());
        }
        let names: BTreeSet<&String> = map.values().collect();
        let files = names.into_iter().map(|name| path.with_file_name(name)).collect();
        let index = Index { path: path.into(), map };
        Ok(Self::of(given, files, Some(index)))
    }

    /// Opens every file.
    ///
    /// # Errors
    /// Those of [`WeightsFile::open`], with the first file that has one.
    pub(crate) fn open(&self) -> Result<Vec<WeightsFile>, Error> {
        self.files.iter().map(|file| WeightsFile::open(file)).collect()
    }

    /// Checks that no tensor is in two files, and that each is in the file where the index has it.
    ///
    /// # Errors
    /// [`Error::Shards`], on the first that is not.
    pub(crate) fn check(&self, files: &[WeightsFile]) -> Result<(), Error> {
        if files.len() < 2 && self.index.is_none() {
            return Ok(());
        }
        let mut found = BTreeMap::new();
        for file in files {
            let here = file_name(file.path());
            for tensor in file.header().iter() {
                let name = tensor.name().to_string();
                if let Some(there) = found.get(&name) {
                    return Err(shards(
                        &self.path,
                        format!("tensor {name:?} is in both {there} and {here}"),
                    ));
                }
                found.insert(name, here.clone());
            }
        }
        let Some(index) = &self.index else { return Ok(()) };
        for (tensor, file) in &index.map {
            let what = match found.get(tensor) {
                Some(there) if there == file => continue,
                Some(there) => format!("has tensor {tensor:?} in {file}, but it is in {there}"),
                None => format!("has tensor {tensor:?} in {file}, but it is in no file"),
            };
            return Err(shards(&index.path, what));
        }
        match found.iter().find(|(name, _)| !index.map.contains_key(*name)) {
            Some((name, file)) => Err(shards(&index.path, format!("lacks tensor {name:?} of {file}"))),
            None => Ok(()),
        }
    }
}

/// Refuses a numbered set that is not whole, so that part of a model is not taken for all of it.
fn missing_numbers(directory: &Path, files: &[PathBuf]) -> Result<(), Error> {
    let mut sets: BTreeMap<(String, u32), BTreeSet<u32>> = BTreeMap::new();
    for file in files {
        if let Some((set, number)) = numbered(&file_name(file)) {
            sets.entry(set).or_default().insert(number);
        }
    }
    for ((stem, of), numbers) in sets {
        if let Some(missing) = (1..=of).find(|number| !numbers.contains(number)) {
            let what = format!("{stem}-{missing:05}-of-{of:05}{WEIGHTS} is missing");
            return Err(shards(directory, what));
        }
    }
    Ok(())
}

/// `stem-00002-of-00003.safetensors`: the stem with the number of files, and which it is.
fn numbered(name: &str) -> Option<((String, u32), u32)> {
    let (rest, of) = name.strip_suffix(WEIGHTS)?.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    Some(((stem.into(), of.parse().ok()?), number.parse().ok()?))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn shards(path: &Path, what: String) -> Error {
    Error::Shards {
        path: path.into(),
        what,
    }
}

fn file_error(path: &Path, source: std::io::Error) -> Error {
    Error::File {
        path: path.into(),
        source,
    }
}
