//! Options that several subcommands have.

use std::env;
use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use clap::{Args, ValueEnum};
use voxtral_core::layout::{CacheType, Options};

use super::console::Console;
use crate::error::Error;
use crate::model::{EMBEDDED_DELAYS, EMBEDDED_NAME, FILES, Model};
use crate::pool::Pool;

/// The variable that names the model where `-d` does not.
const MODEL_VARIABLE: &str = "VOXTRAL_MODEL";

/// Which model.
#[derive(Args, Debug)]
pub(super) struct ModelOptions {
    /// Directory of the model: consolidated.safetensors, params.json, tekken.json [default: VOXTRAL_MODEL, else the
    /// small model that is built in]
    #[arg(short = 'd', value_name = "DIR")]
    model: Option<PathBuf>,
}

impl ModelOptions {
    /// Opens the model that was named, or the one that is built in, which is told.
    pub(super) fn open(&self, console: &Console) -> Result<Model, Error> {
        if let Some(directory) = &self.model {
            return Model::open(directory);
        }
        if let Some(directory) = variable() {
            return Model::open(Path::new(&directory)).map_err(|source| Error::FromEnvironment {
                variable: MODEL_VARIABLE,
                source: Box::new(source),
            });
        }
        let model = Model::embedded()?;
        console.note(format_args!(
            "no -d DIR given, nor {MODEL_VARIABLE}: using {EMBEDDED_NAME}"
        ));
        Ok(model)
    }

    /// Its directory, if it is not the one that is built in.
    pub(super) fn directory(&self) -> Option<PathBuf> {
        self.model.clone().or_else(|| variable().map(PathBuf::from))
    }

    /// Whether the file of the weights takes less of its disk than it is long: nothing was written to parts of it.
    pub(super) fn has_holes(&self) -> bool {
        let weights = self
            .directory()
            .and_then(|directory| fs::metadata(directory.join(FILES[0])).ok());
        weights.is_some_and(|weights| weights.blocks().saturating_mul(512) < weights.len() / 2)
    }

    /// The name of the model for a person.
    pub(super) fn name(&self) -> String {
        self.directory()
            .map_or_else(|| EMBEDDED_NAME.into(), |path| path.display().to_string())
    }
}

/// An empty variable counts as none.
fn variable() -> Option<std::ffi::OsString> {
    env::var_os(MODEL_VARIABLE).filter(|value| !value.is_empty())
}

/// What decides how large a session is.
#[derive(Args, Debug)]
pub(super) struct SessionOptions {
    /// How far the text lags behind the audio: 80, 160, …, 1200 or 2400 [default: what the model says, 480]
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    delay: Option<usize>,
    /// Positions of 80 ms that the decoder sees, if fewer than the model's own: less memory, but text may differ
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    window: Option<usize>,
    /// Positions of 80 ms that one pass of the encoder covers: more is faster for files, fewer need less memory and
    /// answer sooner; the text is the same [default: 25]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    chunk: Option<usize>,
    /// Most positions of 80 ms that are decoded in one pass where audio waits, 1 to 8: tokens between are guessed and
    /// verified, which is faster; the text is the same [default: 8]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    batch: Option<usize>,
    /// How the keys and values of past positions are kept: bf16 takes half the memory of f32, q8 little more
    /// than a quarter, and the text may differ
    #[arg(long, value_name = "TYPE", value_enum, default_value = "f32")]
    cache: Cache,
}

/// [`CacheType`] as an argument.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cache {
    F32,
    Bf16,
    Q8,
}

impl From<Cache> for CacheType {
    fn from(cache: Cache) -> Self {
        match cache {
            Cache::F32 => Self::F32,
            Cache::Bf16 => Self::Bf16,
            Cache::Q8 => Self::Q8,
        }
    }
}

impl SessionOptions {
    /// The options for a model, without keeping logits. A smaller window than the model's is told.
    pub(super) fn of(&self, model: &Model, console: &Console) -> Result<Options, Error> {
        let mut options = Options {
            logits: false,
            ..Options::from(model.vocabulary())
        };
        if let Some(ms) = self.delay {
            options = options.with_delay_ms(ms)?;
            if model.is_embedded() && !EMBEDDED_DELAYS.contains(&ms) {
                console.note(format_args!(
                    "the built-in model was trained for delays of {} to {} ms; with {ms} ms its words are worse",
                    EMBEDDED_DELAYS.start(),
                    EMBEDDED_DELAYS.end()
                ));
            }
        }
        if let Some(chunk) = self.chunk {
            options.chunk = chunk;
        }
        if let Some(batch) = self.batch {
            options.batch = batch;
        }
        options.cache = self.cache.into();
        let own = model.params().decoder.sliding_window;
        options.decoder_window = self.window;
        if let Some(window) = self.window.filter(|&window| (1..own).contains(&window)) {
            console.note(format_args!(
                "a window of {window} positions instead of the model's {own}: the text may differ from the model's \
                 after {:.1} s",
                window as f64 * 0.08
            ));
        }
        Ok(options)
    }
}

/// How it is computed.
#[derive(Args, Debug)]
pub(super) struct ThreadOptions {
    /// Threads that compute, 1 to 256 [default: one per core]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

impl ThreadOptions {
    pub(super) fn pool(&self) -> Pool {
        let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Pool::new(self.threads.map_or_else(cores, usize::from))
    }
}
