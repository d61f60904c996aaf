//! What a call came to.

use core::ffi::{CStr, c_char, c_int};

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $message:literal;)*) => {
        const MESSAGES: &[(c_int, &CStr)] = &[$(($value, $message)),*];
        const _: () = {
            $(assert!(Status::$name as c_int == $value);)*
        };
    };
}

/// What a call came to. Negative ones are errors.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done; from vx_stream_get and vx_stream_step: a token was given.
    Ok = 0,
    /// vx_stream_step worked without deciding a token: call it again.
    Worked = 1,
    /// Nothing to do before more samples are fed, or the stream is finished or flushed.
    NeedAudio = 2,
    /// The stream is at its end: it can be reset for the next one.
    Done = 3,
    /// A pointer is null, or a length is zero or beyond what can be addressed.
    BadArgument = -1,
    /// This is no handle of that kind: never opened, or closed.
    BadHandle = -2,
    /// Memory is not aligned as it must be (VX_ALIGNMENT).
    Misaligned = -3,
    /// Memory or a text buffer is too small; the size that was asked for says how large it must be.
    TooSmall = -4,
    /// Another thread is using the stream.
    Busy = -5,
    /// Samples after the end: reset the stream first.
    Finished = -6,
    /// A sample that cannot be audio: not a number, infinite or beyond +-64.
    BadSample = -7,
    /// An option is impossible with this model.
    BadOption = -8,
    /// The weights are no safetensors file, or a damaged one.
    BadWeights = -9,
    /// params.json cannot be read, or describes no such model.
    BadParams = -10,
    /// tekken.json cannot be read, or is no such vocabulary.
    BadVocabulary = -11,
    /// The files do not belong together: tensors are missing or of other shapes, or vocabularies differ.
    Mismatch = -12,
    /// The weights are damaged, which a computation noticed; the stream can only be reset.
    Damaged = -13,
    /// The model is still used by streams.
    InUse = -14,
    /// The system has not enough memory.
    NoMemory = -15,
    /// A file or directory cannot be opened.
    NoFile = -16,
    /// This is no packed model, or a damaged one.
    BadImage = -17,
}

statuses! {
    Ok = 0, c"done";
    Worked = 1, c"worked without deciding a token";
    NeedAudio = 2, c"more audio is needed";
    Done = 3, c"the stream is at its end";
    BadArgument = -1, c"a pointer is null, or a length is impossible";
    BadHandle = -2, c"this is no such handle: it was never opened, or is closed";
    Misaligned = -3, c"memory is not aligned";
    TooSmall = -4, c"memory or a buffer is too small";
    Busy = -5, c"another thread is using the stream";
    Finished = -6, c"the stream has ended; reset it before feeding more audio";
    BadSample = -7, c"a sample cannot be audio (not a number, infinite or beyond +-64)";
    BadOption = -8, c"an option is impossible with this model";
    BadWeights = -9, c"the weights are no whole safetensors file";
    BadParams = -10, c"params.json is damaged or describes another kind of model";
    BadVocabulary = -11, c"tekken.json is damaged or is another kind of vocabulary";
    Mismatch = -12, c"the model's files do not belong together";
    Damaged = -13, c"the model computed what is not a number: its weights are damaged";
    InUse = -14, c"the model is still used by streams";
    NoMemory = -15, c"there is not enough memory";
    NoFile = -16, c"a file or directory cannot be opened";
    BadImage = -17, c"this is no packed model, or a damaged one";
}

/// A line of text about a status, without an end of line; one for any number. It is constant and never freed.
#[unsafe(no_mangle)]
pub extern "C" fn vx_message(status: c_int) -> *const c_char {
    let known = MESSAGES.iter().find(|(value, _)| *value == status);
    known.map_or(c"unknown status", |(_, message)| *message).as_ptr()
}

/// The status of a result.
pub(crate) fn status(result: Result<Status, Status>) -> Status {
    result.unwrap_or_else(|error| error)
}
