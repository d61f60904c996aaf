//! Everything in core that reads bytes, or keeps the books of a session, without any way to panic.
//!
//! The panic handler calls a function that does not exist. So the image links only if the optimiser removed every
//! path to a panic, whatever the input: `ci/link-cortexm.sh` builds it, nothing runs it. What goes in comes through
//! `black_box`, so that nothing is computed away, and what comes out goes the same way.
//!
//! Messages are left out: the formatting of numbers in Rust's own core library has checks that stay.
#![no_std]
#![no_main]

use core::hint::black_box;

use voxtral_core::audio::{LogMel, MEL_BINS, WINDOW};
use voxtral_core::format::image::Image;
use voxtral_core::format::json::{Event, Reader};
use voxtral_core::format::params::Params;
use voxtral_core::format::safetensors::{self, Entry, Header};
use voxtral_core::format::tekken::{IndexProgress, Vocabulary};
use voxtral_core::format::utf8::Utf8Joiner;
use voxtral_core::format::wav::Demuxer;
use voxtral_core::layout::{Layout, Memory, Options};
use voxtral_core::session::Session;

unsafe extern "C" {
    /// Not defined anywhere: that the linker asks for it means that something can panic.
    fn a_panic_path_is_left() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: there is no such function; this is never linked.
    unsafe { a_panic_path_is_left() }
}

/// What a caller of core brings: sizes are its own.
struct Buffers {
    entries: [Entry; 96],
    offsets: [u32; 512],
    state: [f32; 1 << 16],
    scratch: [f32; 1 << 15],
    samples: [f32; 1280],
}

/// Never reached: it only keeps what it names.
#[unsafe(no_mangle)]
extern "C" fn entry(buffers: &mut Buffers) -> ! {
    loop {
        let bytes: &[u8] = black_box(&[]);
        black_box(weights(bytes, &mut buffers.entries));
        black_box(image(bytes));
        black_box(json(bytes));
        black_box(vocabulary(bytes, &mut buffers.offsets));
        black_box(wav(bytes, &mut buffers.samples));
        black_box(mel(&buffers.samples));
        black_box(books(bytes, black_box(&[]), buffers));
    }
}

fn weights(bytes: &[u8], entries: &mut [Entry]) -> Option<f32> {
    black_box(safetensors::count(bytes).ok()?);
    let count = safetensors::parse_prefix(bytes, black_box(0), entries).ok()?.len();
    black_box(count);
    let count = safetensors::parse(bytes, entries).ok()?.len();
    let header = Header::view(bytes, entries.get(..count)?);
    for tensor in header.iter().chain(header.iter_by_offset()) {
        black_box((tensor.range(), tensor.elements(), tensor.bytes().is_ok()));
        black_box((tensor.shape().count(), tensor.name() == "x"));
    }
    for (key, value) in header.metadata() {
        black_box((key.bytes().count(), value.chars().count()));
    }
    let tensor = header.get(core::str::from_utf8(bytes).ok()?)?;
    let (mut values, mut bits) = ([0.0; 8], [0; 8]);
    black_box((
        tensor.read_f32(&mut values).is_ok(),
        tensor.read_bf16(&mut bits).is_ok(),
    ));
    black_box(bits);
    values.first().copied()
}

#[inline(never)]
fn image(bytes: &[u8]) -> Option<usize> {
    let image = Image::open(bytes).ok()?;
    black_box((image.verify().is_ok(), image.starts().count()));
    for part in image.parts() {
        black_box(image.bytes(&part));
    }
    Some(
        image
            .weights()
            .len()
            .max(image.params().len())
            .max(image.tekken().len()),
    )
}

fn json(bytes: &[u8]) -> Option<f64> {
    let mut reader = Reader::new(bytes);
    let mut last = None;
    loop {
        match reader.next().ok()? {
            Event::Number(number) => last = Some(number.as_f64()),
            Event::Key(key) if key == "skip" => reader.skip_value().ok()?,
            Event::BeginArray => reader.skip_container().ok()?,
            Event::End => return last,
            _ => {}
        }
    }
}

fn vocabulary(bytes: &[u8], offsets: &mut [u32]) -> Option<usize> {
    let vocabulary = Vocabulary::parse(bytes).ok()?;
    let mut progress = IndexProgress::default();
    while !vocabulary.index_step(bytes, offsets, &mut progress, 100).ok()? {}
    let (mut joiner, mut written) = (Utf8Joiner::new(), 0usize);
    for byte in vocabulary.piece(bytes, offsets, black_box(7)).ok()? {
        written = written.wrapping_add(joiner.push(byte).map(char::len_utf8).fold(0, usize::wrapping_add));
    }
    black_box((joiner.held(), joiner.finish()));
    Some(written)
}

fn wav(bytes: &[u8], samples: &mut [f32]) -> Option<u64> {
    let mut demuxer = if black_box(true) {
        Demuxer::new()
    } else {
        Demuxer::seekable()
    };
    let progress = demuxer.push(bytes, samples).ok()?;
    let rest = bytes.get(progress.consumed..)?;
    let progress = demuxer.push(rest, samples.get_mut(progress.written..)?).ok()?;
    black_box((progress, demuxer.format().is_some()));
    demuxer.finish().ok().map(|summary| summary.frames)
}

fn mel(samples: &[f32]) -> Option<[f32; MEL_BINS]> {
    let mut frame = [0.0; MEL_BINS];
    LogMel::new(1.5).frame(samples.first_chunk::<WINDOW>()?, &mut frame);
    Some(frame)
}

/// What surrounds the passes: sizes, the carving of memory, and samples in. The passes compute, and their checks on
/// the sizes that they are called with may panic, as slices do; no input reaches those.
fn books(params: &[u8], tekken: &[u8], buffers: &mut Buffers) -> Option<u64> {
    let params = Params::parse(params).ok()?;
    let options = Options::from(&Vocabulary::parse(tekken).ok()?);
    let options = options.with_delay_ms(black_box(480)).ok()?;
    let layout = Layout::new(&params, &options).ok()?;
    layout.items(|item| {
        black_box(item);
    });
    black_box(layout.touched(black_box(100), black_box(true), black_box(4096)));
    let mut memory = Memory::carve(&layout, &mut buffers.state, &mut buffers.scratch).ok()?;
    let mut session = Session::new(&layout);
    black_box(session.feed(&mut memory, &buffers.samples).ok()?);
    session.finish();
    let positions = session.positions_in_all();
    session.reset();
    positions
}
