//! Calls as a C program makes them, wrong ones above all: each is told by a status and leaves things as they were.

use std::ffi::{CStr, CString, c_void};
use std::fs;
use std::path::PathBuf;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use voxtral_ffi::*;

fn nano() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../host/nano")
}

/// A block at a multiple of [`ALIGNMENT`].
struct Block(Vec<u128>);

impl Block {
    fn new(size: usize) -> Self {
        Self(vec![0xA5A5_A5A5_A5A5_A5A5; size.div_ceil(16)])
    }

    fn memory(&mut self, size: usize) -> Memory {
        Memory {
            data: self.0.as_mut_ptr().cast(),
            size,
        }
    }
}

struct Loaded {
    files: Files,
    _bytes: [Vec<u8>; 3],
}

fn load() -> Loaded {
    let bytes =
        ["consolidated.safetensors", "params.json", "tekken.json"].map(|name| fs::read(nano().join(name)).unwrap());
    let [weights, params, tekken] = bytes.each_ref().map(|bytes| Bytes {
        data: bytes.as_ptr(),
        len: bytes.len(),
    });
    let files = Files {
        weights,
        params,
        tekken,
    };
    Loaded { files, _bytes: bytes }
}

struct Opened {
    model: *const Model,
    _block: Block,
    _loaded: Loaded,
}

fn open() -> Opened {
    let loaded = load();
    let mut size = 0;
    // SAFETY: the files live in `loaded`.
    let status = unsafe { vx_model_size(&loaded.files, &mut size) };
    assert_eq!(status, Status::Ok);
    let mut block = Block::new(size);
    let memory = block.memory(size);
    let mut model = null();
    // SAFETY: the block lives as long as the model.
    let status = unsafe { vx_model_open(&loaded.files, memory.data, size, &mut model) };
    assert_eq!(status, Status::Ok);
    Opened {
        model,
        _block: block,
        _loaded: loaded,
    }
}

struct Streaming {
    stream: *mut Stream,
    _blocks: [Block; 3],
}

fn stream(model: *const Model, options: &Options) -> Streaming {
    let mut sizes = Sizes {
        stream: 0,
        state: 0,
        scratch: 0,
    };
    // SAFETY: a model that is open.
    let status = unsafe { vx_stream_size(model, options, &mut sizes) };
    assert_eq!(status, Status::Ok);
    let wanted = [sizes.stream, sizes.state, sizes.scratch];
    let mut blocks = wanted.map(Block::new);
    let mut memory = blocks.iter_mut().zip(wanted).map(|(block, size)| block.memory(size));
    let [a, b, c] = [(); 3].map(|()| memory.next().unwrap());
    let mut stream = null_mut();
    // SAFETY: the blocks live as long as the stream.
    let status = unsafe { vx_stream_init(model, options, a, b, c, &mut stream) };
    assert_eq!(status, Status::Ok);
    Streaming {
        stream,
        _blocks: blocks,
    }
}

fn clip() -> Vec<i16> {
    let wav = fs::read(nano().join("../../tests/nano/clips/07-festival.wav")).unwrap();
    wav[44..]
        .chunks_exact(2)
        .map(|pair| i16::from_le_bytes([pair[0], pair[1]]))
        .collect()
}

/// Everything that is decided by now, and what it ended with. `size` is the text buffer's first size.
fn drain(stream: *mut Stream, size: usize, said: &mut String) -> Status {
    let mut buffer = vec![0u8; size];
    loop {
        let mut token = std::mem::MaybeUninit::uninit();
        // SAFETY: a stream that is open, and a buffer of that size.
        match unsafe { vx_stream_get(stream, token.as_mut_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) } {
            Status::Ok => {
                let text = CStr::from_bytes_until_nul(&buffer).unwrap().to_str().unwrap();
                // SAFETY: written, as the status says.
                assert_eq!(unsafe { token.assume_init() }.text_len, text.len());
                said.push_str(text);
            }
            // SAFETY: as before.
            Status::TooSmall => buffer.resize(unsafe { token.assume_init() }.text_len + 1, 0),
            other => return other,
        }
    }
}

fn hear(stream: *mut Stream, samples: &[i16], size: usize) -> String {
    let mut said = String::new();
    let mut rest = samples;
    while !rest.is_empty() {
        let mut taken = 0;
        let count = rest.len().min(1000);
        // SAFETY: a stream that is open.
        let status = unsafe { vx_stream_feed_s16(stream, rest.as_ptr(), count, &mut taken) };
        assert_eq!(status, Status::Ok);
        rest = &rest[taken..];
        assert_eq!(drain(stream, size, &mut said), Status::NeedAudio);
    }
    // SAFETY: as before.
    let status = unsafe { vx_stream_finish(stream) };
    assert_eq!(status, Status::Ok);
    assert_eq!(drain(stream, size, &mut said), Status::Done);
    said
}

#[test]
fn text_is_whole_in_any_buffer_and_after_a_reset() {
    let opened = open();
    let streaming = stream(opened.model, &Options::default());
    for size in [1024, 1, 3] {
        assert_eq!(hear(streaming.stream, &clip(), size), " eight five yes yes");
        // SAFETY: a stream that is open.
        let status = unsafe { vx_stream_reset(streaming.stream) };
        assert_eq!(status, Status::Ok);
    }
}

#[test]
fn alternatives_come_with_their_probabilities() {
    let opened = open();
    let options = Options {
        alternatives: 1,
        chunk: 4,
        ..Options::default()
    };
    let streaming = stream(opened.model, &options);
    let (samples, mut taken, mut at, mut texts) = (clip(), 0, 0, 0);
    while at < samples.len() {
        let rest = &samples[at..];
        // SAFETY: a stream that is open.
        let status = unsafe { vx_stream_feed_s16(streaming.stream, rest.as_ptr(), rest.len(), &mut taken) };
        assert_eq!(status, Status::Ok);
        at += taken;
        loop {
            let mut token = std::mem::MaybeUninit::uninit();
            // SAFETY: as before; no text is wanted.
            let status = unsafe { vx_stream_step(streaming.stream, token.as_mut_ptr(), null_mut(), 0) };
            if status == Status::Worked {
                continue;
            } else if status != Status::Ok {
                assert_eq!(status, Status::NeedAudio);
                break;
            }
            // SAFETY: written, as the status says.
            let token = unsafe { token.assume_init() };
            let [one, other] = token.alternatives;
            assert_eq!(token.alternative_count, 2);
            assert!(token.probability > 0.0 && token.probability <= 1.0);
            assert!(one.id != token.id && one.probability >= other.probability, "{token:?}");
            assert!(
                token.probability + one.probability + other.probability < 1.001,
                "{token:?}"
            );
            if token.control == 0 {
                texts += 1;
                let (mut bytes, mut len) = ([0; 64], 0);
                // SAFETY: a model that is open, and a buffer of that size.
                let status = unsafe { vx_token_bytes(opened.model, one.id, bytes.as_mut_ptr(), 64, &mut len) };
                assert_eq!(status, Status::Ok);
                assert!(len > 0);
                // SAFETY: as before.
                let status = unsafe { vx_token_bytes(opened.model, one.id, bytes.as_mut_ptr(), len, &mut len) };
                assert_eq!(status, Status::Ok);
            }
        }
    }
    assert!(texts >= 3);
}

#[test]
fn null_is_told() {
    let opened = open();
    let streaming = stream(opened.model, &Options::default());
    let (model, stream) = (opened.model, streaming.stream);
    let (mut size, sample, mut text) = (0usize, [0.0f32], [0u8; 8]);
    let bad = Status::BadArgument;
    let none = Memory {
        data: null_mut(),
        size: 1 << 20,
    };
    // SAFETY: what is not null is what it should be.
    unsafe {
        assert_eq!(vx_model_size(null(), &mut size), bad);
        assert_eq!(vx_model_size(&load().files, null_mut()), bad);
        assert_eq!(vx_model_open(null(), null_mut(), 0, null_mut()), bad);
        let mut made = null();
        assert_eq!(vx_model_open(&load().files, null_mut(), 1 << 20, &mut made), bad);
        let mut files = load();
        files.files.params.data = null();
        assert_eq!(vx_model_size(&files.files, &mut size), bad);
        let mut files = load();
        files.files.weights.len = 0;
        assert_eq!(vx_model_size(&files.files, &mut size), bad);
        assert_eq!(vx_stream_size(model, null(), null_mut()), bad);
        assert_eq!(vx_stream_size(null(), null(), null_mut()), bad);
        let mut made = null_mut();
        assert_eq!(vx_stream_init(model, null(), none, none, none, &mut made), bad);
        assert!(made.is_null());
        assert_eq!(vx_stream_feed(null_mut(), sample.as_ptr(), 1, &mut size), bad);
        assert_eq!(vx_stream_feed(stream, null(), 1, &mut size), bad);
        assert_eq!(vx_stream_feed(stream, sample.as_ptr(), 0, &mut size), bad);
        assert_eq!(vx_stream_feed(stream, sample.as_ptr(), usize::MAX, &mut size), bad);
        assert_eq!(vx_stream_feed(stream, sample.as_ptr(), 1, null_mut()), bad);
        assert_eq!(vx_stream_feed_s16(stream, null(), 1, &mut size), bad);
        assert_eq!(vx_stream_get(null_mut(), null_mut(), null_mut(), 0), bad);
        assert_eq!(vx_stream_get(stream, null_mut(), text.as_mut_ptr().cast(), 0), bad);
        assert_eq!(vx_token_bytes(model, u32::MAX, text.as_mut_ptr(), 8, &mut size), bad);
        assert_eq!(vx_token_bytes(model, 1000, text.as_mut_ptr(), 8, null_mut()), bad);
        for call in [vx_stream_flush, vx_stream_finish, vx_stream_reset, vx_stream_prime] {
            assert_eq!(call(null_mut()), bad);
        }
    }
    assert_eq!(hear(stream, &clip(), 64), " eight five yes yes", "nothing has changed");
}

#[test]
fn memory_that_does_not_do_is_told() {
    let loaded = load();
    let mut size = 0;
    // SAFETY: files and blocks live here; what is too small or not aligned is what is tested.
    unsafe {
        assert_eq!(vx_model_size(&loaded.files, &mut size), Status::Ok);
        let mut block = Block::new(size + 16);
        let memory = block.memory(size);
        let mut model = null();
        assert_eq!(
            vx_model_open(&loaded.files, memory.data, size - 1, &mut model),
            Status::TooSmall
        );
        let odd = memory.data.cast::<u8>().add(1).cast();
        assert_eq!(vx_model_open(&loaded.files, odd, size, &mut model), Status::Misaligned);
        assert!(model.is_null());
        // The mark is written last, so what failed is no handle.
        let handle = memory.data.cast::<Model>().cast_const();
        assert_eq!(vx_token_bytes(handle, 1, null_mut(), 0, &mut size), Status::BadHandle);

        let opened = open();
        let mut sizes = Sizes {
            stream: 0,
            state: 0,
            scratch: 0,
        };
        assert_eq!(vx_stream_size(opened.model, null(), &mut sizes), Status::Ok);
        let wanted = [sizes.stream, sizes.state, sizes.scratch];
        for short in 0..3 {
            let mut blocks = wanted.map(Block::new);
            let mut memory = [0, 1, 2].map(|index| blocks[index].memory(wanted[index]));
            memory[short].size -= 1;
            let [a, b, c] = memory;
            let mut made = null_mut();
            assert_eq!(
                vx_stream_init(opened.model, null(), a, b, c, &mut made),
                Status::TooSmall
            );
            memory[short].size += 1;
            memory[short].data = memory[short].data.cast::<u8>().add(2).cast();
            let [a, b, c] = memory;
            assert_eq!(
                vx_stream_init(opened.model, null(), a, b, c, &mut made),
                Status::Misaligned
            );
            assert!(made.is_null());
        }
    }
}

#[test]
fn what_is_no_handle_is_told() {
    let mut junk = Block::new(1 << 16);
    let data: *mut c_void = junk.memory(1 << 16).data;
    let opened = open();
    let mut sizes = Sizes {
        stream: 0,
        state: 0,
        scratch: 0,
    };
    // SAFETY: readable memory of sufficient size, which is no handle of that kind.
    unsafe {
        assert_eq!(vx_stream_size(data.cast(), null(), &mut sizes), Status::BadHandle);
        assert_eq!(vx_stream_finish(data.cast()), Status::BadHandle);
        assert_eq!(vx_stream_finish(opened.model.cast_mut().cast()), Status::BadHandle);
        assert_eq!(vx_close(opened.model.cast_mut()), Status::BadHandle, "not from vx_open");
        let streaming = stream(opened.model, &Options::default());
        assert_eq!(
            vx_stream_close(streaming.stream),
            Status::BadHandle,
            "not from vx_stream_open"
        );
        assert_eq!(hear(streaming.stream, &clip(), 64), " eight five yes yes");
    }
}

#[test]
fn impossible_options_are_told() {
    let opened = open();
    let good = Options::default();
    for options in [
        Options { delay_ms: 100, ..good },
        Options { delay_ms: 2320, ..good },
        Options { batch: 9, ..good },
        Options {
            window: 1 << 20,
            ..good
        },
        Options { cache: 3, ..good },
        Options { live: 7, ..good },
        Options {
            alternatives: u32::MAX,
            ..good
        },
    ] {
        let mut sizes = Sizes {
            stream: 0,
            state: 0,
            scratch: 0,
        };
        // SAFETY: a model that is open.
        let status = unsafe { vx_stream_size(opened.model, &options, &mut sizes) };
        assert_eq!(status, Status::BadOption, "{options:?}");
    }
}

#[test]
fn calls_out_of_order_are_told() {
    let opened = open();
    let streaming = stream(opened.model, &Options::default());
    let stream = streaming.stream;
    let (mut taken, samples) = (0, [0.5f32, f32::NAN]);
    let mut said = String::new();
    // SAFETY: a stream that is open.
    unsafe {
        assert_eq!(drain(stream, 64, &mut said), Status::NeedAudio, "before any audio");
        assert_eq!(
            vx_stream_feed(stream, samples.as_ptr(), 2, &mut taken),
            Status::BadSample
        );
        assert_eq!(taken, 1, "the bad one");
        assert_eq!(vx_stream_finish(stream), Status::Ok);
        assert_eq!(vx_stream_finish(stream), Status::Ok, "again");
        assert_eq!(vx_stream_flush(stream), Status::Ok);
        assert_eq!(
            vx_stream_feed(stream, samples.as_ptr(), 1, &mut taken),
            Status::Finished
        );
        assert_eq!(taken, 0);
        assert_eq!(drain(stream, 64, &mut said), Status::Done);
        assert_eq!(drain(stream, 64, &mut said), Status::Done, "again");
        assert_eq!(
            vx_stream_feed(stream, samples.as_ptr(), 1, &mut taken),
            Status::Finished
        );
        assert_eq!(vx_stream_reset(stream), Status::Ok);
        assert_eq!(vx_stream_prime(stream), Status::Ok);
    }
    assert_eq!(said, "");
    assert_eq!(hear(stream, &clip(), 64), " eight five yes yes");
}

/// A pointer that goes to another thread, as C programs do.
#[derive(Clone, Copy)]
struct Sent(*mut Stream);

// SAFETY: that it is told is what is tested.
unsafe impl Send for Sent {}

#[test]
fn one_stream_in_two_threads_is_told() {
    let opened = open();
    let streaming = stream(opened.model, &Options::default());
    let (sent, ended) = (Sent(streaming.stream), AtomicBool::new(false));
    let mut busy = 0;
    std::thread::scope(|scope| {
        let ended = &ended;
        scope.spawn(move || {
            let Sent(stream) = { sent };
            // Zeros take work, so that the other thread comes in between sooner or later.
            let mut taken = 0;
            while !ended.load(Ordering::Acquire) {
                // SAFETY: a stream that is open; the other thread's calls are refused or wait.
                unsafe {
                    vx_stream_feed(stream, [0.0; 1280].as_ptr(), 1280, &mut taken);
                    while vx_stream_get(stream, null_mut(), null_mut(), 0) == Status::Ok {}
                }
            }
        });
        let patience = Instant::now() + Duration::from_secs(60);
        while busy == 0 && Instant::now() < patience {
            // SAFETY: as before.
            match unsafe { vx_stream_prime(streaming.stream) } {
                Status::Busy => busy += 1,
                status => assert_eq!(status, Status::Ok),
            }
        }
        ended.store(true, Ordering::Release);
    });
    assert!(busy > 0, "two threads were never told");
    // SAFETY: nobody else is using it any more.
    let status = unsafe { vx_stream_reset(streaming.stream) };
    assert_eq!(status, Status::Ok);
    assert_eq!(hear(streaming.stream, &clip(), 64), " eight five yes yes");
}

#[test]
fn damaged_files_are_told_and_explained() {
    let explain = |files: &Files| {
        let mut block = Block::new(1 << 20);
        let memory = block.memory(1 << 20);
        let mut text = [0u8; 400];
        // SAFETY: files and blocks live here.
        let status = unsafe {
            let mut model = null();
            let status = vx_model_open(files, memory.data, memory.size, &mut model);
            let size = text.len();
            let explained = vx_model_explain(files, memory.data, memory.size, text.as_mut_ptr().cast(), size);
            assert_eq!(status, explained);
            assert!(model.is_null());
            status
        };
        let text = CStr::from_bytes_until_nul(&text).unwrap().to_str().unwrap().to_owned();
        (status, text)
    };
    let loaded = load();
    let mut cut = loaded.files;
    cut.weights.len /= 2;
    let (status, text) = explain(&cut);
    assert_eq!(status, Status::BadWeights);
    assert!(text.starts_with("consolidated.safetensors: "), "{text}");
    let mut other = loaded.files;
    other.params = other.tekken;
    let (status, text) = explain(&other);
    assert_eq!(status, Status::BadParams);
    assert!(text.starts_with("params.json: "), "{text}");
    let mut other = loaded.files;
    other.tekken.len -= 10;
    assert_eq!(explain(&other).0, Status::BadVocabulary);
}

#[test]
fn a_directory_is_opened_used_and_closed_in_order() {
    let name = CString::new(nano().to_str().unwrap()).unwrap();
    let (mut model, mut stream, mut why) = (null_mut(), null_mut(), [1u8; 200]);
    // SAFETY: strings, places and handles are what they should be, but for what is told.
    unsafe {
        assert_eq!(vx_open(null(), &mut model, null_mut(), 0), Status::BadArgument);
        let missing = c"/no/such/directory";
        assert_eq!(
            vx_open(missing.as_ptr(), &mut model, why.as_mut_ptr().cast(), 200),
            Status::NoFile
        );
        let told = CStr::from_bytes_until_nul(&why).unwrap().to_str().unwrap();
        assert!(told.contains("/no/such/directory"), "{told}");
        assert!(model.is_null());
        assert_eq!(vx_open(name.as_ptr(), &mut model, null_mut(), 0), Status::Ok);
        assert_eq!(vx_stream_open(model, null(), 0, &mut stream), Status::BadArgument);
        for threads in [1, 2] {
            assert_eq!(vx_stream_open(model, null(), threads, &mut stream), Status::Ok);
            assert_eq!(vx_close(model), Status::InUse);
            assert_eq!(hear(stream, &clip(), 64), " eight five yes yes");
            assert_eq!(vx_stream_close(stream), Status::Ok);
        }
        assert_eq!(vx_stream_close(null_mut()), Status::Ok);
        assert_eq!(vx_close(model), Status::Ok);
        assert_eq!(vx_close(null_mut()), Status::Ok);
    }
}

#[test]
fn an_image_is_opened_and_a_damaged_one_is_told() {
    use voxtral_core::format::image::{self, Part, PartKind};
    let loaded = load();
    let contents = loaded._bytes.each_ref();
    let kinds = [PartKind::Weights, PartKind::Params, PartKind::Tekken];
    let mut parts = [0, 1, 2].map(|index| Part {
        kind: kinds[index],
        offset: 0,
        len: contents[index].len() as u64,
        checksum: 0,
    });
    let mut image = vec![0; image::header_len(3)];
    let len = image::write_header(&mut parts, &mut image).unwrap();
    for (part, bytes) in parts.iter().zip(contents) {
        image.resize(part.offset as usize, 0xFF);
        image.extend(bytes);
    }
    assert_eq!(image.len() as u64, len);
    let (mut files, mut size) = (loaded.files, 0);
    files.weights.len = 0;
    // SAFETY: the image lives here.
    unsafe {
        assert_eq!(vx_image_files(image.as_ptr(), image.len(), &mut files), Status::Ok);
        assert_eq!(vx_model_size(&files, &mut size), Status::Ok);
        assert_eq!(
            vx_image_files(image.as_ptr(), image.len() - 1, &mut files),
            Status::BadImage
        );
        assert_eq!(vx_image_files(null(), image.len(), &mut files), Status::BadArgument);
        image[40] ^= 1;
        assert_eq!(
            vx_image_files(image.as_ptr(), image.len(), &mut files),
            Status::BadImage
        );
    }
}

#[test]
fn every_status_has_a_message() {
    let message = |status| {
        // SAFETY: it is constant and ended by a zero.
        unsafe { CStr::from_ptr(vx_message(status)) }.to_str().unwrap()
    };
    let known: Vec<_> = (-17..=3).map(message).collect();
    for (index, text) in known.iter().enumerate() {
        assert!(!text.is_empty() && !known[..index].contains(text), "{text}");
    }
    assert_eq!(message(-18), message(i32::MAX));
    assert!(!known.contains(&message(4)));
}
