//! A model on disk, or the small one built into the program: three files, mapped and indexed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use voxtral_core::format::params::Params;
use voxtral_core::format::safetensors::{self, Entry};
use voxtral_core::format::tekken::Vocabulary;
use voxtral_core::model::{self, Binding, Slot};

use crate::error::Error;
use crate::map::{Bytes, Mapper};

/// The files of a model directory: weights, sizes, vocabulary.
pub(crate) const FILES: [&str; 3] = ["consolidated.safetensors", "params.json", "tekken.json"];

/// Name of the model that is built into the program.
pub const EMBEDDED_NAME: &str = "nano-realtime (built in; knows twenty English words)";

/// Weights of 2 bytes are read in place at any address; aligned ones are read a little faster.
#[cfg(feature = "embedded-model")]
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

#[cfg(feature = "embedded-model")]
static EMBEDDED_WEIGHTS: &Aligned<[u8]> = &Aligned(*include_bytes!("../nano/consolidated.safetensors"));

/// How to get a file of the published model.
pub(crate) fn download_hint(file: &str) -> String {
    format!("curl -L -C - -O https://huggingface.co/mistralai/Voxtral-Mini-4B-Realtime-2602/resolve/main/{file}")
}

/// A model, opened: files mapped, every tensor found and checked, no weight read but one norm's.
pub struct Model {
    weights: Bytes,
    tekken: Bytes,
    slots: Vec<Slot>,
    binding: Binding,
    vocabulary: Vocabulary,
}

impl Model {
    /// Opens a directory with `consolidated.safetensors`, `params.json` and `tekken.json`.
    ///
    /// # Errors
    /// [`Error`] that names the file and says what is wrong with it.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        Self::open_with(directory, Mapper::default())
    }

    /// [`Model::open`] by another mapper.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn open_with(directory: &Path, mapper: Mapper) -> Result<Self, Error> {
        let refuse = |source| Error::ModelDirectory {
            path: directory.into(),
            source,
        };
        if !fs::metadata(directory).map_err(refuse)?.is_dir() {
            return Err(refuse(io::Error::new(io::ErrorKind::NotADirectory, "not a directory")));
        }
        let open = |file: &'static str| {
            let path = directory.join(file);
            let bytes = Bytes::open(&path, mapper).map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => Error::MissingModelFile {
                    directory: directory.into(),
                    file,
                },
                _ => Error::File {
                    path: path.clone(),
                    source,
                },
            })?;
            Ok::<_, Error>((path, bytes))
        };
        // The small files first: a mistake in them is told before the big one is looked at.
        let params = open(FILES[1])?;
        let tekken = open(FILES[2])?;
        let weights = open(FILES[0])?;
        Self::new(weights, params, tekken)
    }

    /// The small model that is built into the program. It knows twenty English words and nothing else.
    ///
    /// # Errors
    /// [`Error::NoModel`] if it was left out (feature `embedded-model`).
    #[cfg(not(feature = "embedded-model"))]
    pub fn embedded() -> Result<Self, Error> {
        Err(Error::NoModel)
    }

    /// The small model that is built into the program. It knows twenty English words and nothing else.
    ///
    /// # Errors
    /// [`Error::NoModel`] if it was left out (feature `embedded-model`).
    #[cfg(feature = "embedded-model")]
    pub fn embedded() -> Result<Self, Error> {
        let file = |name: &str, bytes| (PathBuf::from(format!("(built in) {name}")), Bytes::Static(bytes));
        Self::new(
            file(FILES[0], &EMBEDDED_WEIGHTS.0),
            file(FILES[1], include_bytes!("../nano/params.json")),
            file(FILES[2], include_bytes!("../nano/tekken.json")),
        )
    }

    fn new(weights: (PathBuf, Bytes), params: (PathBuf, Bytes), tekken: (PathBuf, Bytes)) -> Result<Self, Error> {
        let (path, json) = params;
        let params = Params::parse(&json).map_err(|source| Error::Params {
            path,
            source: source.into(),
        })?;

        let (path, tekken) = tekken;
        let vocabulary = Vocabulary::parse(&tekken).map_err(|source| Error::Tekken {
            path: path.clone(),
            source: source.into(),
        })?;

        let (expected, found) = (params.decoder.vocab_size, vocabulary.vocab_size);
        if found as usize != expected {
            return Err(Error::Vocabulary { path, expected, found });
        }

        let (path, weights) = weights;
        let refuse = |source: safetensors::Error| Error::Safetensors {
            path: path.clone(),
            source,
            explained: source.explain(&weights).to_string(),
        };
        let mut entries = vec![Entry::default(); safetensors::count(&weights).map_err(refuse)?];
        let header = safetensors::parse(&weights, &mut entries).map_err(refuse)?;
        let mut slots = vec![Slot::default(); Binding::slots(&params)];
        let binding = Binding::new(&header, &params, &mut slots).map_err(|source| Error::Bind {
            path: path.clone(),
            source,
        })?;
        Ok(Self {
            weights,
            tekken,
            slots,
            binding,
            vocabulary,
        })
    }

    /// The view that core computes with.
    pub fn view(&self) -> model::Model<'_> {
        model::Model::new(&self.weights, &self.slots, &self.binding)
    }

    /// Sizes of the model.
    pub fn params(&self) -> &Params {
        self.binding.params()
    }

    /// Special ids, delay, and the way to the text of every id.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Bytes of the file with the weights, which is mapped and read in place.
    pub fn weights_len(&self) -> usize {
        self.weights.len()
    }

    /// The bytes of `tekken.json`.
    pub fn tekken(&self) -> &[u8] {
        &self.tekken
    }
}
