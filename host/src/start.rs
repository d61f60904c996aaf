//! The start that all utterances share: computed, kept, or read from a file beside the model.

use std::io;
use std::path::{Path, PathBuf};

use voxtral_core::kernels::{CacheType, Class};
use voxtral_core::layout::{Layout, MS_PER_POSITION};

use crate::error::Error;
use crate::map::{Bytes, Mapper};

/// Where the start of an utterance comes from.
pub(crate) enum Start<'m> {
    /// It is computed each time.
    Computed,
    /// It is kept once it has been computed.
    Kept {
        /// Room for it.
        bytes: Vec<u8>,
        /// Whether it is there.
        whole: bool,
    },
    /// Somebody else has it.
    Given(&'m [u8]),
}

impl Start<'_> {
    /// Its bytes, if it is there.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Kept { bytes, whole: true } => Some(bytes),
            Self::Given(bytes) => Some(bytes),
            Self::Computed | Self::Kept { .. } => None,
        }
    }
}

/// The name of the file beside a model with the start for these options. What else it depends on is looked up in the
/// file: one for another model is refused by its contents.
pub fn start_file_name(layout: &Layout, class: Class) -> PathBuf {
    let options = layout.options();
    let cache = match options.cache {
        CacheType::F32 => "f32",
        CacheType::Bf16 => "bf16",
        CacheType::Q8 => "q8",
    };
    let class = match class {
        Class::Fused => "fused",
        Class::Separate => "separate",
    };
    let delay = options.delay_tokens * MS_PER_POSITION;
    let window = layout.decoder_window();
    format!("start-{delay}ms-{window}-{cache}-{class}.voxtral").into()
}

/// Maps such a file, if it is there.
///
/// # Errors
/// [`Error::File`] if it is there and cannot be read.
pub fn open_start(path: &Path) -> Result<Option<Bytes>, Error> {
    match Bytes::open(path, Mapper::default()) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File {
            path: path.into(),
            source,
        }),
    }
}
