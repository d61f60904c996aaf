//! Models: three files in memory, found and checked.

use core::ffi::{c_char, c_void};
use core::fmt::{self, Write};
#[cfg(feature = "std")]
use core::sync::atomic::AtomicUsize;

use voxtral_core::format::image::Image;
use voxtral_core::format::params::Params;
use voxtral_core::format::safetensors::{self, Entry};
use voxtral_core::format::tekken::Vocabulary;
use voxtral_core::model::{self, Binding, Slot};

use crate::borrow::{self, ALIGNMENT, Bytes, Line, Memory};
use crate::status::{Status, status};

/// The files of a model, somewhere in memory: mapped, in flash, or linked into the program.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Files {
    /// consolidated.safetensors.
    pub weights: Bytes,
    /// params.json.
    pub params: Bytes,
    /// tekken.json.
    pub tekken: Bytes,
}

/// A model that was opened. It is only read from then on.
pub struct Model {
    mark: u64,
    /// Streams that cannot do without it, of those that are counted.
    #[cfg(feature = "std")]
    pub(crate) users: AtomicUsize,
    source: Source,
}

/// What a model begins with: "VXMODEL1".
const MARK: u64 = u64::from_le_bytes(*b"VXMODEL1");

enum Source {
    Tables {
        weights: &'static [u8],
        tekken: &'static [u8],
        slots: &'static [Slot],
        offsets: &'static [u32],
        binding: Binding,
        vocabulary: Vocabulary,
    },
    #[cfg(feature = "std")]
    Opened {
        model: voxtral::Model,
        offsets: std::vec::Vec<u32>,
    },
}

impl Model {
    fn new(source: Source) -> Self {
        Self {
            mark: MARK,
            #[cfg(feature = "std")]
            users: AtomicUsize::new(0),
            source,
        }
    }

    #[cfg(feature = "std")]
    pub(crate) fn opened(model: voxtral::Model, offsets: std::vec::Vec<u32>) -> Self {
        Self::new(Source::Opened { model, offsets })
    }

    /// The model behind a handle.
    ///
    /// # Safety
    /// A pointer that is not null points to readable memory, which is a model's for `'a` if it begins as one does.
    pub(crate) unsafe fn of<'a>(handle: *const Self) -> Result<&'a Self, Status> {
        // SAFETY: the caller's promise.
        let model = unsafe { borrow::shared(handle) }?;
        if model.mark == MARK {
            Ok(model)
        } else {
            Err(Status::BadHandle)
        }
    }

    /// From now on the handle is none.
    #[cfg(feature = "std")]
    pub(crate) fn unmark(&mut self) {
        self.mark = 0;
    }

    /// Whether it came from a directory.
    #[cfg(feature = "std")]
    pub(crate) fn is_opened(&self) -> bool {
        matches!(self.source, Source::Opened { .. })
    }

    pub(crate) fn view(&self) -> model::Model<'_> {
        match &self.source {
            Source::Tables {
                weights,
                slots,
                binding,
                ..
            } => model::Model::new(weights, slots, binding),
            #[cfg(feature = "std")]
            Source::Opened { model, .. } => model.view().with_kernels(voxtral::kernels::choose()),
        }
    }

    pub(crate) fn vocabulary(&self) -> &Vocabulary {
        match &self.source {
            Source::Tables { vocabulary, .. } => vocabulary,
            #[cfg(feature = "std")]
            Source::Opened { model, .. } => model.vocabulary(),
        }
    }

    /// The bytes of a token's text, none for control tokens and ids that do not exist.
    pub(crate) fn piece(&self, id: u32) -> impl Iterator<Item = u8> + '_ {
        let (tekken, offsets) = match &self.source {
            Source::Tables { tekken, offsets, .. } => (*tekken, *offsets),
            #[cfg(feature = "std")]
            Source::Opened { model, offsets } => (model.tekken(), offsets.as_slice()),
        };
        self.vocabulary().piece(tekken, offsets, id).into_iter().flatten()
    }
}

/// What is wrong with the files.
enum Fault {
    Argument(Status),
    Weights(safetensors::Error),
    Params(voxtral_core::format::params::Error),
    Vocabulary(voxtral_core::format::tekken::Error),
    Bind(model::BindError),
    VocabularySize { expected: usize, found: u32 },
}

impl Fault {
    fn status(&self) -> Status {
        match self {
            Self::Argument(status) => *status,
            Self::Weights(_) => Status::BadWeights,
            Self::Params(_) => Status::BadParams,
            Self::Vocabulary(_) => Status::BadVocabulary,
            Self::Bind(_) | Self::VocabularySize { .. } => Status::Mismatch,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(_) => f.write_str("a pointer is null, a length impossible, or the memory unfit"),
            Self::Weights(error) => write!(f, "consolidated.safetensors: {error}"),
            Self::Params(error) => write!(f, "params.json: {error}"),
            Self::Vocabulary(error) => write!(f, "tekken.json: {error}"),
            Self::Bind(error) => write!(f, "consolidated.safetensors: {error}"),
            Self::VocabularySize { expected, found } => {
                write!(f, "tekken.json has {found} ids, params.json says {expected}")
            }
        }
    }
}

/// The files as borrows, and what they say of themselves.
struct Read {
    weights: &'static [u8],
    tekken: &'static [u8],
    params: Params,
    vocabulary: Vocabulary,
    parts: Parts,
}

/// How a block of memory is divided: the model, its slots, then the index of tensors, which gives way to that of the
/// token bytes once it has served.
#[derive(Clone, Copy)]
struct Parts {
    entries: usize,
    slots: usize,
    offsets: usize,
    slots_at: usize,
    tail_at: usize,
    size: usize,
}

impl Parts {
    fn new(entries: usize, slots: usize, offsets: usize) -> Option<Self> {
        let slots_at = size_of::<Model>().checked_next_multiple_of(align_of::<Slot>())?;
        let tail_at = slots
            .checked_mul(size_of::<Slot>())?
            .checked_add(slots_at)?
            .checked_next_multiple_of(ALIGNMENT)?;
        let tail = entries
            .checked_mul(size_of::<Entry>())?
            .max(offsets.checked_mul(size_of::<u32>())?);
        Some(Self {
            entries,
            slots,
            offsets,
            slots_at,
            tail_at,
            size: tail_at.checked_add(tail)?,
        })
    }
}

const _: () = assert!(align_of::<Model>() <= ALIGNMENT && align_of::<Entry>() <= ALIGNMENT);

/// # Safety
/// What `files` points to lives as long as the model, and nothing writes to it.
unsafe fn read(files: *const Files) -> Result<Read, Fault> {
    // SAFETY: the caller's promise; the struct itself is only read here.
    let files = unsafe { borrow::shared(files) }.map_err(Fault::Argument)?;
    // SAFETY: the caller's promise, for each of the three.
    let borrowed = |bytes: Bytes| unsafe { borrow::slice(bytes.data, bytes.len) }.map_err(Fault::Argument);
    let (weights, params, tekken) = (
        borrowed(files.weights)?,
        borrowed(files.params)?,
        borrowed(files.tekken)?,
    );
    let params = Params::parse(params).map_err(Fault::Params)?;
    let vocabulary = Vocabulary::parse(tekken).map_err(Fault::Vocabulary)?;
    let (expected, found) = (params.decoder.vocab_size, vocabulary.vocab_size);
    if found as usize != expected {
        return Err(Fault::VocabularySize { expected, found });
    }
    let entries = safetensors::count(weights).map_err(Fault::Weights)?;
    let parts = Parts::new(entries, Binding::slots(&params), vocabulary.index_len())
        .ok_or(Fault::Argument(Status::BadParams))?;
    Ok(Read {
        weights,
        tekken,
        params,
        vocabulary,
        parts,
    })
}

/// # Safety
/// As [`read`], and the memory is nobody else's for as long.
unsafe fn open(files: *const Files, memory: Memory) -> Result<*const Model, Fault> {
    // SAFETY: the caller's promise.
    let read = unsafe { read(files) }?;
    let parts = read.parts;
    memory.check(parts.size, ALIGNMENT).map_err(Fault::Argument)?;
    let start = memory.data.cast::<u8>();
    // SAFETY: inside the block, whose size was checked.
    let (slots, tail) = unsafe { (start.add(parts.slots_at), start.add(parts.tail_at)) };
    // SAFETY: room for so many, aligned by `Parts`; written before they are seen as values.
    let entries = unsafe { fill(tail.cast::<Entry>(), parts.entries, Entry::default()) };
    let header = safetensors::parse(read.weights, entries).map_err(Fault::Weights)?;
    // SAFETY: as before, and before the tail.
    let slots = unsafe { fill(slots.cast::<Slot>(), parts.slots, Slot::default()) };
    let binding = Binding::new(&header, &read.params, slots).map_err(Fault::Bind)?;
    // SAFETY: as before; nothing uses the entries, which were in the same place, from here on.
    let offsets = unsafe { fill(tail.cast::<u32>(), parts.offsets, 0) };
    read.vocabulary.index(read.tekken, offsets).map_err(Fault::Vocabulary)?;
    let model = Model::new(Source::Tables {
        weights: read.weights,
        tekken: read.tekken,
        slots,
        offsets,
        binding,
        vocabulary: read.vocabulary,
    });
    let place = start.cast::<Model>();
    // SAFETY: the beginning of the block, before the slots; a model has nothing to drop.
    unsafe { place.write(model) };
    Ok(place)
}

/// # Safety
/// There is room for `len` values, aligned, which is nobody else's.
unsafe fn fill<T: Copy>(start: *mut T, len: usize, value: T) -> &'static mut [T] {
    for index in 0..len {
        // SAFETY: inside the room.
        unsafe { start.add(index).write(value) };
    }
    // SAFETY: all were just written.
    unsafe { core::slice::from_raw_parts_mut(start, len) }
}

/// Finds the files of a model that `voxtral pack` put into one image, which may be followed by anything. Only the header
/// of the image is read. VX_STATUS_BAD_IMAGE if it is none, or a damaged one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_image_files(image: *const u8, len: usize, files: *mut Files) -> Status {
    // SAFETY: see the crate's documentation.
    let (image, files) = unsafe { (borrow::slice(image, len), borrow::place(files)) };
    status((|| {
        let (image, files) = (image?, files?);
        let image = Image::open(image).map_err(|_| Status::BadImage)?;
        let bytes = |bytes: &[u8]| Bytes {
            data: bytes.as_ptr(),
            len: bytes.len(),
        };
        files.write(Files {
            weights: bytes(image.weights()),
            params: bytes(image.params()),
            tekken: bytes(image.tekken()),
        });
        Ok(Status::Ok)
    })())
}

/// How many bytes vx_model_open needs for these files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_model_size(files: *const Files, size: *mut usize) -> Status {
    // SAFETY: see the crate's documentation.
    let (read, size) = unsafe { (read(files), borrow::place(size)) };
    status(read.map_err(|fault| fault.status()).and_then(|read| {
        size?.write(read.parts.size);
        Ok(Status::Ok)
    }))
}

/// Opens a model whose files are in memory, in a block of at least vx_model_size bytes at a multiple of VX_ALIGNMENT.
/// Weights are read where they lie. The files and the block must stay as they are for as long as the model is used; it
/// needs no closing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_model_open(
    files: *const Files,
    memory: *mut c_void,
    size: usize,
    model: *mut *const Model,
) -> Status {
    // SAFETY: see the crate's documentation.
    let place = unsafe { borrow::place(model) };
    status(place.and_then(|place| {
        place.write(core::ptr::null());
        // SAFETY: see the crate's documentation.
        let opened = unsafe { open(files, Memory { data: memory, size }) };
        place.write(opened.map_err(|fault| fault.status())?);
        Ok(Status::Ok)
    }))
}

/// Does what vx_model_open does, and if that fails writes a line about what is wrong, and where, to text, cut to
/// text_size bytes with the zero behind it. Brings the code that formats messages into the program, which
/// vx_model_open does not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_model_explain(
    files: *const Files,
    memory: *mut c_void,
    size: usize,
    text: *mut c_char,
    text_size: usize,
) -> Status {
    // SAFETY: see the crate's documentation.
    let text = unsafe { borrow::text(text.cast(), text_size) };
    status(text.and_then(|text| {
        let mut line = Line::new(text);
        // SAFETY: see the crate's documentation.
        match unsafe { open(files, Memory { data: memory, size }) } {
            Ok(_) => Ok(Status::Ok),
            Err(fault) => {
                // A line takes everything.
                let _ = write!(line, "{fault}");
                Err(fault.status())
            }
        }
    }))
}

/// The bytes of a token's text, for alternatives: not always whole characters, none for control tokens. Writes up to
/// size of them and says in len how many there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_token_bytes(
    model: *const Model,
    id: u32,
    bytes: *mut u8,
    size: usize,
    len: *mut usize,
) -> Status {
    // SAFETY: see the crate's documentation.
    let (model, bytes, len) = unsafe { (Model::of(model), borrow::text(bytes, size), borrow::place(len)) };
    status((|| {
        let (model, bytes, len) = (model?, bytes?, len?);
        if id >= model.vocabulary().vocab_size {
            return Err(Status::BadArgument);
        }
        let (room, mut count) = (bytes.len(), 0usize);
        let mut places = bytes.iter_mut();
        for byte in model.piece(id) {
            if let Some(place) = places.next() {
                place.write(byte);
            }
            count = count.saturating_add(1);
        }
        len.write(count);
        if count > room {
            Err(Status::TooSmall)
        } else {
            Ok(Status::Ok)
        }
    })())
}
