//! For systems with files, memory and threads: what a C program on Linux needs no blocks of its own for.

use std::boxed::Box;
use std::ffi::{CStr, OsStr, c_char};
use std::fmt::Write;
use std::path::Path;
use std::ptr;
use std::sync::atomic::Ordering;
use std::vec::Vec;

use voxtral::{Error, Pool};
use voxtral_core::kernels::{Executor, Serial};

use crate::borrow::{self, Line};
use crate::model::Model;
use crate::status::{Status, status};
use crate::stream::{Inner, Options, Stream, lay_out};

/// What a stream has of its own.
pub(crate) struct Owned {
    /// Kept for the stream, which points into them.
    _memory: [Vec<f32>; 2],
    pool: Option<Pool>,
}

/// What computes for such a stream.
pub(crate) fn executor(owned: Option<&Owned>) -> &dyn Executor {
    match owned.and_then(|owned| owned.pool.as_ref()) {
        Some(pool) => pool,
        None => &Serial,
    }
}

/// Opens a directory with consolidated.safetensors, params.json and tekken.json, which it maps. If that fails a line
/// about why is written to text, cut to text_size bytes with the zero behind it; text may be null. To be closed by
/// vx_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_open(
    directory: *const c_char,
    model: *mut *mut Model,
    text: *mut c_char,
    text_size: usize,
) -> Status {
    // SAFETY: see the crate's documentation.
    let (place, buffer) = unsafe { (borrow::place(model), borrow::text(text.cast(), text_size)) };
    status((|| {
        let (place, mut line) = (place?, Line::new(buffer?));
        place.write(ptr::null_mut());
        if directory.is_null() {
            return Err(Status::BadArgument);
        }
        // SAFETY: not null, and ended by a zero by the type that it has in C.
        let name = unsafe { CStr::from_ptr(directory) };
        match open(path(name)) {
            Ok(opened) => {
                place.write(Box::into_raw(Box::new(opened)));
                Ok(Status::Ok)
            }
            Err(error) => {
                // A line takes everything.
                let _ = write!(line, "{error}");
                Err(status_of(&error))
            }
        }
    })())
}

#[cfg(unix)]
fn path(name: &CStr) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(OsStr::from_bytes(name.to_bytes()))
}

#[cfg(not(unix))]
fn path(name: &CStr) -> &Path {
    Path::new(OsStr::new(name.to_str().unwrap_or_default()))
}

fn open(directory: &Path) -> Result<Model, Error> {
    let model = voxtral::Model::open(directory)?;
    let mut offsets = vec![0; model.vocabulary().index_len()];
    model.vocabulary().index(model.tekken(), &mut offsets)?;
    Ok(Model::opened(model, offsets))
}

fn status_of(error: &Error) -> Status {
    match error {
        Error::Params { .. } => Status::BadParams,
        Error::Tekken { .. } | Error::Text(_) => Status::BadVocabulary,
        Error::Vocabulary { .. } | Error::Bind { .. } => Status::Mismatch,
        Error::Safetensors { .. } | Error::NotWeights { .. } => Status::BadWeights,
        _ => Status::NoFile,
    }
}

/// Closes a model of vx_open. Null is none, and nothing is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_close(model: *mut Model) -> Status {
    if model.is_null() {
        return Status::Ok;
    }
    // SAFETY: see the crate's documentation.
    let found = unsafe { Model::of(model) };
    status((|| {
        let found = found?;
        if !found.is_opened() {
            return Err(Status::BadHandle);
        }
        if found.users.load(Ordering::Acquire) != 0 {
            return Err(Status::InUse);
        }
        // SAFETY: `vx_open` made it by a box, and no stream is left that uses it.
        let mut model = unsafe { Box::from_raw(model) };
        model.unmark();
        Ok(Status::Ok)
    })())
}

/// Makes a stream that allocates what it needs and computes by so many threads (1: by that of the caller). To be closed
/// by vx_stream_close, before its model is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_stream_open(
    model: *const Model,
    options: *const Options,
    threads: u32,
    stream: *mut *mut Stream,
) -> Status {
    // SAFETY: see the crate's documentation.
    let (found, place) = unsafe { (Model::of(model), borrow::place(stream)) };
    status((|| {
        let (found, place) = (found?, place?);
        place.write(ptr::null_mut());
        if !(1..=1024).contains(&threads) {
            return Err(Status::BadArgument);
        }
        // SAFETY: see the crate's documentation.
        let layout = unsafe { lay_out(found, options) }?;
        let mut memory = [zeroed(layout.state_len())?, zeroed(layout.scratch_len())?];
        let [state, scratch] = [memory[0].as_mut_ptr(), memory[1].as_mut_ptr()];
        // SAFETY: the vectors are as long as the layout says, and live as long as what points to them.
        let mut inner = unsafe { Inner::new(model, &layout, state, scratch) };
        inner.owned = Some(Owned {
            _memory: memory,
            pool: (threads > 1).then(|| Pool::new(threads as usize)),
        });
        found.users.fetch_add(1, Ordering::AcqRel);
        place.write(Box::into_raw(Box::new(Stream::new(inner))));
        Ok(Status::Ok)
    })())
}

/// So many zeros: pages of the system, which cost nothing before they are touched.
fn zeroed(len: usize) -> Result<Vec<f32>, Status> {
    Vec::<f32>::new().try_reserve_exact(len).map_err(|_| Status::NoMemory)?;
    Ok(vec![0.0; len])
}

/// Closes a stream of vx_stream_open. Null is none, and nothing is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_stream_close(stream: *mut Stream) -> Status {
    if stream.is_null() {
        return Status::Ok;
    }
    // SAFETY: see the crate's documentation.
    let held = unsafe { Stream::hold(stream) };
    status((|| {
        let mut held = held?;
        let inner = held.inner();
        if inner.owned.is_none() {
            return Err(Status::BadHandle);
        }
        // SAFETY: the model lives as long as its streams.
        let model = unsafe { Model::of(inner.model) }?;
        // The flag stays taken: it goes with the stream.
        std::mem::forget(held);
        // SAFETY: `vx_stream_open` made it by a box, and this thread alone holds it.
        let mut stream = unsafe { Box::from_raw(stream) };
        stream.unmark();
        drop(stream);
        model.users.fetch_sub(1, Ordering::AcqRel);
        Ok(Status::Ok)
    })())
}
