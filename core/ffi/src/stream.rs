//! Streams: samples in, tokens and their text out.

use core::cell::UnsafeCell;
use core::ffi::c_char;
use core::slice;
use core::sync::atomic::{AtomicBool, Ordering};

use voxtral_core::format::utf8::Utf8Joiner;
#[cfg(not(feature = "std"))]
use voxtral_core::kernels::Serial;
use voxtral_core::layout::{self, CacheType, Layout, LayoutError};
use voxtral_core::session::{Session, SessionError, Step};

use crate::borrow::{self, ALIGNMENT, Line, Memory};
use crate::model::Model;
use crate::nearest::{ALTERNATIVES, Candidate, nearest};
use crate::status::{Status, status};

/// What the caller chooses. All zeros are what serves most; so is a null pointer in place of the struct.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How far the text lags behind the audio: 80, 160, ... 1200 or 2400. 0: the model's own.
    pub delay_ms: u32,
    /// Most positions of 80 ms in one pass: fewer answer sooner and need less memory. 0: 25.
    pub chunk: u32,
    /// Most positions that are decoded at once where audio waits, 1 to 8. 0: 8.
    pub batch: u32,
    /// Positions that the decoder sees, and that its cache has room for. 0: the model's own.
    pub window: u32,
    /// How the caches are kept. 0: as float; 1: as bfloat16, half of the memory; 2: as 8 bits, a little more than a quarter.
    pub cache: u32,
    /// 1: live audio, which goes on behind an end-of-text token. 0: that token ends the stream.
    pub live: u32,
    /// 1: tokens come with probabilities and alternatives. 0: without, which needs less memory.
    pub alternatives: u32,
}

/// What a stream needs, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The stream itself; at a multiple of VX_ALIGNMENT.
    pub stream: usize,
    /// What it keeps between calls, most of it caches; aligned as a float.
    pub state: usize,
    /// What one call needs and the next need not find: streams that are never used at the same time may share it.
    pub scratch: usize,
}

/// A token that was decided.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token {
    /// Its id; VX_NO_TOKEN for what was left of a character at the end.
    pub id: u32,
    /// 1 for a control token, which has no text.
    pub control: u32,
    /// The position it was decided at, of 80 ms each, those before the audio included.
    pub position: u64,
    /// About the sample of the audio where the word ended that the token belongs to.
    pub sample: u64,
    /// Bytes of the text, without the zero behind it.
    pub text_len: usize,
    /// Its probability; 0 unless asked for by the options.
    pub probability: f32,
    /// How many of the alternatives there are.
    pub alternative_count: u32,
    /// What it might have been instead, the likeliest first. vx_token_bytes gives their text.
    pub alternatives: [Candidate; ALTERNATIVES],
}

/// The id of what is no token.
pub const NO_TOKEN: u32 = u32::MAX;

/// A stream. One thread at a time uses it.
pub struct Stream {
    mark: u64,
    busy: AtomicBool,
    inner: UnsafeCell<Inner>,
}

/// What a stream begins with: "VXSTREAM".
const MARK: u64 = u64::from_le_bytes(*b"VXSTREAM");

/// What changes, while the busy flag is held.
pub(crate) struct Inner {
    pub(crate) model: *const Model,
    layout: Layout,
    session: Session,
    state: *mut f32,
    scratch: *mut f32,
    joiner: Utf8Joiner,
    /// A token that was decided and is not given out yet.
    pending: Option<Token>,
    ended: bool,
    #[cfg(feature = "std")]
    pub(crate) owned: Option<crate::hosted::Owned>,
}

const _: () = assert!(align_of::<Stream>() <= ALIGNMENT);

/// The busy flag, held.
pub(crate) struct Held<'a>(&'a Stream);

impl Held<'_> {
    pub(crate) fn inner(&mut self) -> &mut Inner {
        // SAFETY: whoever holds the flag is alone with it.
        unsafe { &mut *self.0.inner.get() }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Release);
    }
}

impl Stream {
    pub(crate) fn new(inner: Inner) -> Self {
        Self {
            mark: MARK,
            busy: AtomicBool::new(false),
            inner: UnsafeCell::new(inner),
        }
    }

    /// The stream behind a handle, if nobody else is using it.
    ///
    /// # Safety
    /// A pointer that is not null points to readable memory, which is a stream's for `'a` if it begins as one does.
    pub(crate) unsafe fn hold<'a>(handle: *const Self) -> Result<Held<'a>, Status> {
        // SAFETY: the caller's promise.
        let stream = unsafe { borrow::shared(handle) }?;
        if stream.mark != MARK {
            return Err(Status::BadHandle);
        }
        if stream.busy.swap(true, Ordering::Acquire) {
            return Err(Status::Busy);
        }
        Ok(Held(stream))
    }

    /// From now on the handle is none.
    #[cfg(feature = "std")]
    pub(crate) fn unmark(&mut self) {
        self.mark = 0;
    }
}

/// The layout for the options.
///
/// # Safety
/// `options` is null or points to some.
pub(crate) unsafe fn lay_out(model: &Model, options: *const Options) -> Result<Layout, Status> {
    let options = if options.is_null() {
        Options::default()
    } else {
        // SAFETY: the caller's promise.
        *unsafe { borrow::shared(options) }?
    };
    if [options.live, options.alternatives].iter().any(|&flag| flag > 1) {
        return Err(Status::BadOption);
    }
    let cache = match options.cache {
        0 => CacheType::F32,
        1 => CacheType::Bf16,
        2 => CacheType::Q8,
        _ => return Err(Status::BadOption),
    };
    let or = |value: u32, default: usize| if value == 0 { default } else { value as usize };
    let own = layout::Options::from(model.vocabulary());
    let mut wanted = layout::Options {
        chunk: or(options.chunk, own.chunk),
        batch: or(options.batch, own.batch),
        decoder_window: (options.window != 0).then_some(options.window as usize),
        cache,
        logits: options.alternatives != 0,
        stop_at_end_of_text: options.live == 0,
        ..own
    };
    if options.delay_ms != 0 {
        wanted = wanted
            .with_delay_ms(options.delay_ms as usize)
            .map_err(|_| Status::BadOption)?;
    }
    Layout::new(model.view().params(), &wanted).map_err(|error| match error {
        LayoutError::TooLarge { .. } => Status::NoMemory,
        _ => Status::BadOption,
    })
}

impl Inner {
    /// # Safety
    /// The model and so many values behind each pointer as the layout says live as long as the stream; the state is its
    /// own, and the scratch during calls.
    pub(crate) unsafe fn new(model: *const Model, layout: &Layout, state: *mut f32, scratch: *mut f32) -> Self {
        Self {
            model,
            layout: *layout,
            session: Session::new(layout),
            state,
            scratch,
            joiner: Utf8Joiner::new(),
            pending: None,
            ended: false,
            #[cfg(feature = "std")]
            owned: None,
        }
    }

    fn model(&self) -> &'static Model {
        // SAFETY: promised to `new`.
        unsafe { &*self.model }
    }

    fn memory<'a>(&self) -> Result<layout::Memory<'a>, Status> {
        // SAFETY: promised to `new`, which stood for the lengths as well; callers make one at a time.
        let (state, scratch) = unsafe {
            (
                slice::from_raw_parts_mut(self.state, self.layout.state_len()),
                slice::from_raw_parts_mut(self.scratch, self.layout.scratch_len()),
            )
        };
        layout::Memory::carve(&self.layout, state, scratch).map_err(|_| Status::TooSmall)
    }

    fn feed(&mut self, samples: &[f32], taken: &mut usize) -> Result<(), Status> {
        match self.session.feed(&mut self.memory()?, samples) {
            Ok(count) => {
                *taken = count;
                Ok(())
            }
            Err(SessionError::BadSample { index, .. }) => {
                *taken = index;
                Err(Status::BadSample)
            }
            Err(SessionError::Finished) => Err(Status::Finished),
            Err(_) => Err(Status::Damaged),
        }
    }

    /// One unit of work, unless a token waits.
    fn advance(&mut self) -> Result<Status, Status> {
        if self.pending.is_some() {
            return Ok(Status::Ok);
        }
        let mut memory = self.memory()?;
        let model = self.model();
        #[cfg(feature = "std")]
        let executor = crate::hosted::executor(self.owned.as_ref());
        #[cfg(not(feature = "std"))]
        let executor = &Serial;
        let decided = match self.session.step(&model.view(), &mut memory, executor) {
            Ok(Step::Token(decided)) => decided,
            Ok(Step::Worked) => return Ok(Status::Worked),
            Ok(Step::NeedAudio) => return Ok(Status::NeedAudio),
            Ok(Step::Done) if self.ended || self.joiner.held() == 0 => return Ok(Status::Done),
            Ok(Step::Done) => {
                self.ended = true;
                self.pending = Some(Token {
                    id: NO_TOKEN,
                    control: 0,
                    position: self.session.positions_decoded(),
                    sample: self.session.audio_sample(self.session.positions_decoded()),
                    text_len: 0,
                    probability: 0.0,
                    alternative_count: 0,
                    alternatives: Default::default(),
                });
                return Ok(Status::Ok);
            }
            Err(_) => return Err(Status::Damaged),
        };
        let n_special = model.vocabulary().n_special;
        let (probability, alternatives) = match self.session.logits(&memory) {
            Some(logits) => nearest(logits, decided.id, n_special),
            None => Default::default(),
        };
        self.pending = Some(Token {
            id: decided.id,
            control: u32::from(decided.id < n_special),
            position: decided.position,
            sample: self.session.audio_sample(decided.position),
            text_len: 0,
            probability,
            alternative_count: alternatives
                .iter()
                .map(|other| u32::from(other.probability > 0.0))
                .sum(),
            alternatives,
        });
        Ok(Status::Ok)
    }

    /// The token that waits, and the characters that it makes whole. Without a buffer nobody wants the text.
    fn give(&mut self, line: Option<Line>) -> Result<Token, (Status, Token)> {
        let Some(mut token) = self.pending else {
            return Err((Status::NeedAudio, Token::default()));
        };
        let mut joiner = self.joiner;
        let wanted = line.is_some();
        let mut line = line.unwrap_or_else(|| Line::new(&mut []));
        if token.id == NO_TOKEN {
            joiner.finish().into_iter().for_each(|character| line.push(character));
        } else {
            for byte in self.model().piece(token.id) {
                joiner.push(byte).for_each(|character| line.push(character));
            }
        }
        token.text_len = line.len;
        if wanted && !line.is_whole() {
            return Err((Status::TooSmall, token));
        }
        self.joiner = joiner;
        self.pending = None;
        Ok(token)
    }

    fn reset(&mut self) {
        self.session.reset();
        self.joiner = Utf8Joiner::new();
        self.pending = None;
        self.ended = false;
    }
}

impl Default for Token {
    fn default() -> Self {
        Self {
            id: NO_TOKEN,
            control: 0,
            position: 0,
            sample: 0,
            text_len: 0,
            probability: 0.0,
            alternative_count: 0,
            alternatives: Default::default(),
        }
    }
}

/// How many bytes a stream with these options needs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_stream_size(model: *const Model, options: *const Options, sizes: *mut Sizes) -> Status {
    // SAFETY: see the crate's documentation.
    let (model, sizes) = unsafe { (Model::of(model), borrow::place(sizes)) };
    status((|| {
        let (model, sizes) = (model?, sizes?);
        // SAFETY: see the crate's documentation.
        let layout = unsafe { lay_out(model, options) }?;
        sizes.write(Sizes {
            stream: size_of::<Stream>(),
            state: size_of::<f32>().saturating_mul(layout.state_len()),
            scratch: size_of::<f32>().saturating_mul(layout.scratch_len()),
        });
        Ok(Status::Ok)
    })())
}

/// Makes a stream in three blocks of memory, each at least as large as vx_stream_size said for these options. They must
/// stay in their places for as long as the stream is used, and so must the model; it needs no closing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_stream_init(
    model: *const Model,
    options: *const Options,
    memory: Memory,
    state: Memory,
    scratch: Memory,
    stream: *mut *mut Stream,
) -> Status {
    // SAFETY: see the crate's documentation.
    let place = unsafe { borrow::place(stream) };
    status((|| {
        let place = place?;
        place.write(core::ptr::null_mut());
        // SAFETY: see the crate's documentation.
        let layout = unsafe { lay_out(Model::of(model)?, options) }?;
        memory.check(size_of::<Stream>(), ALIGNMENT)?;
        let bytes = |values: usize| size_of::<f32>().saturating_mul(values);
        state.check(bytes(layout.state_len()), align_of::<f32>())?;
        scratch.check(bytes(layout.scratch_len()), align_of::<f32>())?;
        // SAFETY: the sizes were just checked, the rest is in the crate's documentation.
        let inner = unsafe { Inner::new(model, &layout, state.data.cast(), scratch.data.cast()) };
        let made = memory.data.cast::<Stream>();
        // SAFETY: large enough and aligned; such a stream has nothing to drop.
        unsafe { made.write(Stream::new(inner)) };
        place.write(made);
        Ok(Status::Ok)
    })())
}

/// Takes as many samples from -1 to 1 as there is room for, and says in taken how many: none if vx_stream_get has to
/// work first. For VX_STATUS_BAD_SAMPLE it says which one is bad, and none was taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_stream_feed(
    stream: *mut Stream,
    samples: *const f32,
    count: usize,
    taken: *mut usize,
) -> Status {
    // SAFETY: see the crate's documentation.
    let (held, samples, place) = unsafe {
        (
            Stream::hold(stream),
            borrow::slice(samples, count),
            borrow::place(taken),
        )
    };
    status((|| {
        let place = place?.write(0);
        held?.inner().feed(samples?, place)?;
        Ok(Status::Ok)
    })())
}

/// As vx_stream_feed, for samples of 16 bits, which no value of is bad.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_stream_feed_s16(
    stream: *mut Stream,
    samples: *const i16,
    count: usize,
    taken: *mut usize,
) -> Status {
    // SAFETY: see the crate's documentation.
    let (held, samples, place) = unsafe {
        (
            Stream::hold(stream),
            borrow::slice(samples, count),
            borrow::place(taken),
        )
    };
    status((|| {
        let (place, mut held, samples) = (place?.write(0), held?, samples?);
        for part in samples.chunks(160) {
            let mut floats = [0.0; 160];
            for (float, &sample) in floats.iter_mut().zip(part) {
                *float = f32::from(sample) / 32768.0;
            }
            let mut took = 0;
            let part = floats.get(..part.len()).unwrap_or_default();
            held.inner().feed(part, &mut took)?;
            *place = place.saturating_add(took);
            if took < part.len() {
                break;
            }
        }
        Ok(Status::Ok)
    })())
}

/// Works until a token is decided and gives it out (VX_STATUS_OK), or until there is nothing to do
/// (VX_STATUS_NEED_AUDIO, VX_STATUS_DONE). Call it until it says one of these, after every feed.
///
/// text receives the characters that the token made whole, UTF-8 with a zero behind, of which many tokens have none. If
/// text_size is too small (VX_STATUS_TOO_SMALL) token->text_len says how long it is, and the same token is given again.
/// Either pointer may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_stream_get(
    stream: *mut Stream,
    token: *mut Token,
    text: *mut c_char,
    text_size: usize,
) -> Status {
    // SAFETY: as this function.
    unsafe { get(stream, token, text, text_size, usize::MAX) }
}

/// As vx_stream_get, but does one bounded unit of work at most, and says VX_STATUS_WORKED if no token came of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_stream_step(
    stream: *mut Stream,
    token: *mut Token,
    text: *mut c_char,
    text_size: usize,
) -> Status {
    // SAFETY: as this function.
    unsafe { get(stream, token, text, text_size, 1) }
}

unsafe fn get(stream: *mut Stream, token: *mut Token, text: *mut c_char, text_size: usize, units: usize) -> Status {
    // SAFETY: see the crate's documentation.
    let (held, buffer) = unsafe { (Stream::hold(stream), borrow::text(text.cast(), text_size)) };
    status((|| {
        let (mut held, buffer) = (held?, buffer?);
        let place = if token.is_null() {
            None
        } else {
            // SAFETY: see the crate's documentation.
            Some(unsafe { borrow::place(token) }?)
        };
        let line = (!text.is_null()).then(|| Line::new(buffer));
        let inner = held.inner();
        let mut done = Status::Worked;
        for _ in 0..units {
            done = inner.advance()?;
            if done != Status::Worked {
                break;
            }
        }
        let (done, given) = match done {
            Status::Ok => match inner.give(line) {
                Ok(given) => (Status::Ok, given),
                Err((status, given)) => (status, given),
            },
            other => (other, Token::default()),
        };
        if let Some(place) = place {
            place.write(given);
        }
        Ok(done)
    })())
}

/// Does what cannot fail with a stream, if it could be held.
fn tell(held: Result<Held<'_>, Status>, what: impl FnOnce(&mut Inner)) -> Status {
    status(held.map(|mut held| {
        what(held.inner());
        Status::Ok
    }))
}

/// Brings out the words that wait for the delay, as at a pause, and lets the stream go on: vx_stream_get gives them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_stream_flush(stream: *mut Stream) -> Status {
    // SAFETY: see the crate's documentation.
    tell(unsafe { Stream::hold(stream) }, |inner| inner.session.flush())
}

/// Says that no more samples come: vx_stream_get gives what is left, then VX_STATUS_DONE. Again does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_stream_finish(stream: *mut Stream) -> Status {
    // SAFETY: see the crate's documentation.
    tell(unsafe { Stream::hold(stream) }, |inner| inner.session.finish())
}

/// Back to the start, for the next audio, at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_stream_reset(stream: *mut Stream) -> Status {
    // SAFETY: see the crate's documentation.
    tell(unsafe { Stream::hold(stream) }, |inner| inner.reset())
}

/// Before any audio: lets the following calls of vx_stream_get do the work that every stream begins with, so that the
/// first word comes sooner. It changes no result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vx_stream_prime(stream: *mut Stream) -> Status {
    // SAFETY: see the crate's documentation.
    tell(unsafe { Stream::hold(stream) }, |inner| inner.session.prime())
}
