//! What can go wrong, each in one plain line that says what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

use voxtral_core::format::image::ImageError;
use voxtral_core::format::{params, safetensors, tekken, wav};
use voxtral_core::kernels::EncodeError;
use voxtral_core::layout::LayoutError;
use voxtral_core::model::BindError;
use voxtral_core::session::SessionError;

use crate::audio::AudioError;
use crate::model::{FILES, download_hint};
use crate::recognise::Kind;

/// Any error of the program.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The model directory is not there, or not a directory.
    ModelDirectory {
        /// The path that was given.
        path: PathBuf,
        /// Why it cannot be used.
        source: io::Error,
    },
    /// A file of the model is not in its directory.
    MissingModelFile {
        /// The directory.
        directory: PathBuf,
        /// Its name.
        file: &'static str,
    },
    /// A file cannot be opened, read or mapped.
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The weights are no safetensors file.
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: safetensors::Error,
        /// The same in words, with the tensor's name.
        explained: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// A file is something else than its name says, such as an error page that was saved in its place.
    NotWeights {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: Kind,
    },
    /// A packed model cannot be used.
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ImageError,
    },
    /// A sharded checkpoint's index, or its files, do not fit together.
    Shards {
        /// The index or directory.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The directory has a checkpoint of the Hugging Face layout, which is another one.
    HuggingFaceDirectory {
        /// The directory.
        directory: PathBuf,
    },
    /// Memory that a layout asks for cannot be had.
    Memory {
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// A tensor that was asked for is not in the file.
    NoTensor {
        /// The file or directory.
        path: PathBuf,
        /// The name that was asked for.
        name: String,
    },
    /// The file is not the model that `params.json` describes; what does not fit has been listed.
    NotTheModel {
        /// The file.
        path: PathBuf,
        /// How many things do not fit.
        faults: usize,
    },
    /// `params.json` cannot be used.
    Params {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<params::Error>,
    },
    /// `tekken.json` cannot be used.
    Tekken {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<tekken::Error>,
    },
    /// The weights are not the model that `params.json` describes.
    Bind {
        /// The weights.
        path: PathBuf,
        /// What does not fit.
        source: BindError,
    },
    /// `tekken.json` is of another model than `params.json`.
    Vocabulary {
        /// `tekken.json`.
        path: PathBuf,
        /// Ids by `params.json`.
        expected: usize,
        /// Ids by `tekken.json`.
        found: u32,
    },
    /// A WAV that cannot be read.
    Wav {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: wav::WavError,
    },
    /// Audio of another format that cannot be read.
    Audio {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: AudioError,
    },
    /// An option is impossible, or memory cannot be had.
    Layout(LayoutError),
    /// The session refuses.
    Session(SessionError),
    /// One of several models fails.
    OfModel {
        /// Its directory.
        directory: PathBuf,
        /// What is wrong.
        source: Box<Error>,
    },
    /// Text of a token cannot be found.
    Text(Box<tekken::Error>),
    /// Text cannot be written.
    Output(io::Error),
    /// No model was named, and none is built in.
    NoModel,
    /// What is wrong with the directory that came from the environment.
    FromEnvironment {
        /// The variable.
        variable: &'static str,
        /// What is wrong.
        source: Box<Error>,
    },
    /// The microphone was asked for, and this build has no feature for it.
    NoMicrophone,
    /// Several inputs for a form of output that has the times of one.
    OneInput,
    /// No measurement of the bench has that in its name.
    NoMeasurement {
        /// What was asked for.
        word: String,
    },
    /// The output would be written over an input.
    OutputIsInput {
        /// The name that was given for the output.
        path: PathBuf,
    },
    /// Something is there already that is not to be written over.
    Exists {
        /// What is there.
        path: PathBuf,
    },
    /// Weights are in blocks already, and would lose more by being rounded again.
    AlreadyQuantised {
        /// The file.
        path: PathBuf,
        /// The first tensor of which it is so.
        tensor: String,
    },
    /// The weights of a tensor are in blocks that cannot be read.
    Blocks {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// What the file says of its storage.
        storage: String,
    },
    /// A weight cannot be stored in fewer bits.
    Encode {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its row.
        row: usize,
        /// What is wrong with it.
        source: EncodeError,
    },
    /// Two models that were to be compared have other sizes.
    OtherSizes {
        /// The one.
        a: String,
        /// The other.
        b: String,
    },
    /// The command line is wrong in another way.
    Usage(String),
    /// Interrupted, by Ctrl-C for instance.
    Interrupted,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ModelDirectory { path, source } => write!(
                f,
                "{}: {source}; the model is a directory with {}, {} and {} ({})",
                path.display(),
                FILES[0],
                FILES[1],
                FILES[2],
                download_hint(FILES[0])
            ),
            Self::MissingModelFile { directory, file } => {
                write!(
                    f,
                    "{}: {file} is missing; get it with: {}",
                    directory.display(),
                    download_hint(file)
                )
            }
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Safetensors {
                path, explained, hint, ..
            } => {
                write!(f, "{}: {explained}", path.display())?;
                hint.iter().try_for_each(|hint| write!(f, "; {hint}"))
            }
            Self::NotWeights { path, found } => write!(f, "{}: {}", path.display(), found.tell(path)),
            Self::Image { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Shards { path, what } => write!(f, "{}: {what}", path.display()),
            Self::HuggingFaceDirectory { directory } => write!(
                f,
                "{}: {}: {}",
                directory.display(),
                BindError::HuggingFaceLayout,
                download_hint(FILES[0])
            ),
            Self::Memory { bytes } => write!(
                f,
                "{:.0} MB of memory are needed beside the weights and cannot be had; a smaller --chunk or --window needs \
                 less (see: voxtral memory)",
                *bytes as f64 * 1e-6
            ),
            Self::NoTensor { path, name } => write!(f, "{}: no tensor is named {name:?}", path.display()),
            Self::NotTheModel { path, faults: 1 } => {
                write!(f, "{}: 1 thing is not as params.json says", path.display())
            }
            Self::NotTheModel { path, faults } => {
                write!(f, "{}: {faults} things are not as params.json says", path.display())
            }
            Self::Params { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Tekken { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Bind {
                path,
                source: source @ BindError::HuggingFaceLayout,
            } => {
                write!(f, "{}: {source}: {}", path.display(), download_hint(FILES[0]))
            }
            Self::Bind { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Vocabulary { path, expected, found } => write!(
                f,
                "{}: the vocabulary has {found} ids, params.json makes it {expected}: the files are of two models",
                path.display()
            ),
            Self::Wav { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Audio { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Layout(source) => source.fmt(f),
            Self::Session(source) => source.fmt(f),
            Self::OfModel { directory, source } => write!(f, "{}: {source}", directory.display()),
            Self::Text(source) => write!(f, "{}: {source}", FILES[2]),
            Self::Output(source) => write!(f, "cannot write the output: {source}"),
            Self::NoModel => write!(
                f,
                "no model: this program has none built in, give the directory of one by -d DIR or VOXTRAL_MODEL ({})",
                download_hint(FILES[0])
            ),
            Self::FromEnvironment { variable, source } => write!(f, "{source} (the directory is from {variable})"),
            Self::NoMicrophone => f.write_str(
                "--from-mic: this build was made without the feature mic; use: \
                 arecord -q -f S16_LE -r 16000 -c 1 -t raw | voxtral --stdin",
            ),
            Self::OneInput => f.write_str("captions (srt, vtt) have the times of one input; give one file at a time"),
            Self::NoMeasurement { word } => write!(
                f,
                "no measurement has {word:?} in its name; without a word all are made, and their names shown"
            ),
            Self::OutputIsInput { path } => write!(
                f,
                "{}: the file that is to be written is one that is read",
                path.display()
            ),
            Self::Exists { path } => write!(f, "{}: this is there already, and is not written over", path.display()),
            Self::AlreadyQuantised { path, tensor } => write!(
                f,
                "{}: tensor {tensor} is quantised already; begin with the original model",
                path.display()
            ),
            Self::Blocks { path, tensor, storage } => write!(
                f,
                "{}: tensor {tensor} is stored as {storage:?}, which this version does not know or its bytes are not",
                path.display()
            ),
            Self::Encode {
                path,
                tensor,
                row,
                source,
            } => write!(f, "{}: tensor {tensor}, row {row}: {source}", path.display()),
            Self::OtherSizes { a, b } => write!(
                f,
                "{a} and {b}: the models have other sizes or vocabularies, so there is nothing to compare"
            ),
            Self::Usage(what) => write!(f, "{what}; see voxtral --help"),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::ModelDirectory { source, .. } | Self::File { source, .. } | Self::Output(source) => Some(source),
            Self::MissingModelFile { .. }
            | Self::NotWeights { .. }
            | Self::Shards { .. }
            | Self::HuggingFaceDirectory { .. }
            | Self::Memory { .. }
            | Self::NoTensor { .. }
            | Self::NotTheModel { .. }
            | Self::Vocabulary { .. }
            | Self::NoModel
            | Self::NoMicrophone
            | Self::OneInput
            | Self::NoMeasurement { .. }
            | Self::OutputIsInput { .. }
            | Self::Exists { .. }
            | Self::AlreadyQuantised { .. }
            | Self::OtherSizes { .. }
            | Self::Blocks { .. }
            | Self::Usage(_)
            | Self::Interrupted => None,
            Self::Encode { source, .. } => Some(source),
            Self::FromEnvironment { source, .. } | Self::OfModel { source, .. } => Some(source),
            Self::Safetensors { source, .. } => Some(source),
            Self::Params { source, .. } => Some(&**source),
            Self::Tekken { source, .. } | Self::Text(source) => Some(&**source),
            Self::Bind { source, .. } => Some(source),
            Self::Image { source, .. } => Some(source),
            Self::Wav { source, .. } => Some(source),
            Self::Audio { source, .. } => Some(source),
            Self::Layout(source) => Some(source),
            Self::Session(source) => Some(source),
        }
    }
}

impl Error {
    /// Whether whoever reads the output has gone away, which is no mistake of anybody.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(source) if source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Whether the command line asks for what cannot be.
    pub fn is_wrong_usage(&self) -> bool {
        match self {
            Self::OneInput | Self::OutputIsInput { .. } | Self::Usage(_) => true,
            Self::Layout(source) => matches!(
                source,
                LayoutError::Delay { .. }
                    | LayoutError::EmptyChunk
                    | LayoutError::Window { .. }
                    | LayoutError::Batch { .. }
            ),
            _ => false,
        }
    }
}

impl From<tekken::Error> for Error {
    fn from(source: tekken::Error) -> Self {
        Self::Text(Box::new(source))
    }
}

impl From<LayoutError> for Error {
    fn from(source: LayoutError) -> Self {
        Self::Layout(source)
    }
}

impl From<SessionError> for Error {
    fn from(source: SessionError) -> Self {
        Self::Session(source)
    }
}
