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

        impl fmt::Display for Failure {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant(error) => error.fmt(f),)*
                    Self::Rate(rate) => write!(f, "the recording has {rate} samples per second, 16000 are wanted"),
                }
            }
        }
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

impl core::error::Error for Failure {}
