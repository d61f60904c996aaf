//! Why a session refuses.

use core::fmt;

use super::{MAX_ORIGIN, MAX_SAMPLE};
use crate::layout::LayoutError;
use crate::model::{Stage, WeightsError};

/// Why a session refuses.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum SessionError {
    /// The memory was carved by another layout than the session's.
    OtherMemory,
    /// The model is not the one the session was begun with, or its sizes are not the layout's.
    OtherModel,
    /// Samples after the end of the utterance.
    Finished,
    /// A session cannot start beyond position [`MAX_ORIGIN`].
    Origin {
        /// What was asked for.
        position: u64,
    },
    /// A sample that cannot be audio: NaN, infinite or beyond ±[`MAX_SAMPLE`]. No sample of the call was taken.
    BadSample {
        /// Its index in the slice.
        index: usize,
        /// Its value.
        value: f32,
    },
    /// The model computed NaN or an infinity: weights are damaged. The session can only be reset.
    NotANumber {
        /// Where it was noticed.
        stage: Stage,
        /// Decoder position.
        position: u64,
    },
    /// See [`WeightsError`]. The session can only be reset.
    Weights(WeightsError),
    /// See [`LayoutError`].
    Layout(LayoutError),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherMemory => f.write_str("the memory was carved for another layout than the session's"),
            Self::OtherModel => f.write_str("the model is not the one that the session was made for"),
            Self::Finished => f.write_str("the utterance has ended; reset the session before feeding more audio"),
            Self::Origin { position } => {
                write!(
                    f,
                    "a session cannot start at position {position}, only up to {MAX_ORIGIN}"
                )
            }
            Self::BadSample { index, value } => {
                write!(
                    f,
                    "sample {index} is {value}, which cannot be audio (NaN, infinite or beyond ±{MAX_SAMPLE})"
                )
            }
            Self::NotANumber { stage, position } => {
                write!(
                    f,
                    "the model computed NaN or an infinity ({stage:?}, position {position}): its weights are damaged"
                )
            }
            Self::Weights(error) => error.fmt(f),
            Self::Layout(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SessionError {}

impl From<WeightsError> for SessionError {
    fn from(error: WeightsError) -> Self {
        Self::Weights(error)
    }
}

impl From<LayoutError> for SessionError {
    fn from(error: LayoutError) -> Self {
        Self::Layout(error)
    }
}
