//! A model on disk, or the small one built into the program: three files, mapped and indexed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use voxtral_core::format::params::Params;
use voxtral_core::format::tekken::Vocabulary;
use voxtral_core::model::{self, Binding, Slot};

use crate::error::Error;
use crate::map::{Bytes, Mapper};
use crate::recognise::{Kind, is_image};
use crate::weights::WeightsFile;

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

/// Delays that the small model was trained with lie in this range, in milliseconds.
pub(crate) const EMBEDDED_DELAYS: std::ops::RangeInclusive<usize> = 80..=960;

/// How to get a file of the published model.
pub(crate) fn download_hint(file: &str) -> String {
    format!("curl --fail -L -C - -O https://huggingface.co/mistralai/Voxtral-Mini-4B-Realtime-2602/resolve/main/{file}")
}

/// A model, opened: files mapped, every tensor found and checked, no weight read but one norm's.
pub struct Model {
    weights: Bytes,
    tekken: Bytes,
    slots: Vec<Slot>,
    binding: Binding,
    vocabulary: Vocabulary,
    times: OpenTimes,
}

/// Where the time of opening a model went.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenTimes {
    /// Opening and mapping the three files.
    pub map: Duration,
    /// Reading `params.json`.
    pub params: Duration,
    /// Reading `tekken.json`, apart from the way from ids to text, which is found out later.
    pub vocabulary: Duration,
    /// Reading and checking the header of the weights.
    pub header: Duration,
    /// Finding every tensor.
    pub bind: Duration,
}

/// Tells the time from one call to the next.
struct Stopwatch(Instant);

impl Stopwatch {
    fn lap(&mut self) -> Duration {
        let start = std::mem::replace(&mut self.0, Instant::now());
        self.0 - start
    }
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
        let mut watch = Stopwatch(Instant::now());
        let refuse = |source| Error::ModelDirectory {
            path: directory.into(),
            source,
        };
        if !fs::metadata(directory).map_err(refuse)?.is_dir() {
            if is_image(directory) {
                return Err(Error::NotWeights {
                    path: directory.into(),
                    found: Kind::Image,
                });
            }
            return Err(refuse(io::Error::new(io::ErrorKind::NotADirectory, "not a directory")));
        }
        if is_hugging_face(directory) {
            return Err(Error::HuggingFaceDirectory {
                directory: directory.into(),
            });
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
        let map = watch.lap();
        let mut model = Self::new(weights, params, tekken)?;
        model.times.map = map;
        Ok(model)
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
        let mut times = OpenTimes::default();
        let mut watch = Stopwatch(Instant::now());
        let (path, json) = params;
        let params = Params::parse(&json).map_err(|source| match not_json(&json) {
            Some(found) => Error::NotWeights {
                path: path.clone(),
                found,
            },
            None => Error::Params {
                path: path.clone(),
                source: source.into(),
            },
        })?;
        times.params = watch.lap();

        let (path, tekken) = tekken;
        let vocabulary = Vocabulary::parse(&tekken).map_err(|source| match not_json(&tekken) {
            Some(found) => Error::NotWeights {
                path: path.clone(),
                found,
            },
            None => Error::Tekken {
                path: path.clone(),
                source: source.into(),
            },
        })?;
        times.vocabulary = watch.lap();

        let (expected, found) = (params.decoder.vocab_size, vocabulary.vocab_size);
        if found as usize != expected {
            return Err(Error::Vocabulary { path, expected, found });
        }

        let (path, weights) = weights;
        let len = weights.len() as u64;
        let weights = WeightsFile::index(path, weights, len)?;
        times.header = watch.lap();
        let mut slots = vec![Slot::default(); Binding::slots(&params)];
        let binding = Binding::new(&weights.header(), &params, &mut slots).map_err(|source| Error::Bind {
            path: weights.path().into(),
            source,
        })?;
        times.bind = watch.lap();
        Ok(Self {
            weights: weights.into_bytes(),
            tekken,
            slots,
            binding,
            vocabulary,
            times,
        })
    }

    /// The view that core computes with.
    pub fn view(&self) -> model::Model<'_> {
        model::Model::new(&self.weights, &self.slots, &self.binding)
    }

    /// Whether it is the one that is built into the program.
    pub(crate) fn is_embedded(&self) -> bool {
        matches!(self.weights, Bytes::Static(_))
    }

    /// Sizes of the model.
    pub fn params(&self) -> &Params {
        self.binding.params()
    }

    /// Special ids, delay, and the way to the text of every id.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Where the time of opening it went.
    pub fn open_times(&self) -> OpenTimes {
        self.times
    }

    /// The bytes of the file with the weights.
    pub(crate) fn weights(&self) -> &[u8] {
        &self.weights
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

/// Whether a directory has a checkpoint of the Hugging Face layout and not the original one.
pub(crate) fn is_hugging_face(directory: &Path) -> bool {
    let has = |file: &str| directory.join(file).exists();
    !has(FILES[0]) && (has("model.safetensors") || has("model.safetensors.index.json"))
}

/// What stands in place of a JSON file, if that is something else.
fn not_json(bytes: &[u8]) -> Option<Kind> {
    Kind::of(bytes).filter(|kind| *kind != Kind::Json)
}
