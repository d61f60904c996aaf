//! One error type for all that can go wrong, so that `?` does.

use core::fmt;

use voxtral_core::format::{image, params, safetensors, tekken, wav};
use voxtral_core::layout::LayoutError;
use voxtral_core::model::BindError;
use voxtral_core::session::SessionError;

macro_rules! failures {
    ($($(#[$doc:meta])* $variant:ident($error:ty),)*) => {
        /// Why there is no text.
        #[derive(Debug)]
        pub enum Failure {
            $($(#[$doc])* $variant($error),)*
            /// The recording has this many samples per second, not 16 000.
            Rate(u32),
        }

        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*

    };
}

failures! {
    /// The packed model.
    Image(image::ImageError),
    /// The weights.
    Weights(safetensors::Error),
    /// The sizes of the model.
    Params(params::Error),
    /// The vocabulary.
    Vocabulary(tekken::Error),
    /// Weights and sizes do not belong together.
    Bind(BindError),
    /// A buffer is too small, or an option impossible.
    Layout(LayoutError),
    /// The recording.
    Wav(wav::WavError),
    /// A pass.
    Session(SessionError),
    /// The text could not be written.
    Write(fmt::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(error) => error.fmt(f),
            Self::Weights(error) => error.fmt(f),
            Self::Bind(error) => error.fmt(f),
            Self::Layout(error) => error.fmt(f),
            Self::Wav(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
            // The messages of these can name a number with a fraction, and printing one takes code and tables that
            // nothing else here needs. What is wrong in detail `voxtral inspect --check` says, before it is in flash.
            Self::Params(_) => f.write_str("params.json describes no such model"),
            Self::Vocabulary(_) => f.write_str("tekken.json is no such vocabulary"),
            Self::Session(SessionError::BadSample { index, .. }) => write!(f, "sample {index} cannot be audio"),
            Self::Session(SessionError::NotANumber { position, .. }) => {
                write!(f, "the weights are damaged: position {position} is not a number")
            }
            Self::Session(_) => f.write_str("model, memory and session do not belong together"),
            Self::Rate(rate) => write!(f, "the recording has {rate} samples per second, 16000 are wanted"),
        }
    }
}

impl core::error::Error for Failure {}
