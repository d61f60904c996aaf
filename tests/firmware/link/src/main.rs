//! Links core for a microcontroller: no std, no operating system, no allocator.
//!
//! The image is inspected (`ci/link-cortexm.sh`), not run: there is no start-up code. What goes in comes through
//! `black_box`, so that nothing of core is computed away before it gets here.
#![no_std]
#![no_main]

use core::error::Error;
use core::fmt::Write;
use core::hint::black_box;

use voxtral_core::format::params::Params;
use voxtral_core::format::safetensors::{self, Entry};
use voxtral_core::format::tekken::Vocabulary;
use voxtral_core::format::utf8::Utf8Joiner;
use voxtral_core::format::wav::Demuxer;
use voxtral_core::kernels::Serial;
use voxtral_core::layout::{Layout, Memory, Options};
use voxtral_core::model::{Binding, Model, Slot};
use voxtral_core::session::{Session, Step};

/// Never reached: it only keeps what it names.
#[unsafe(no_mangle)]
extern "C" fn entry(buffers: &mut Buffers) -> ! {
    if let Err(error) = transcribe(buffers, black_box(&[]), black_box(&[]), black_box(&[]), black_box(&[])) {
        let _ = write!(buffers.text, "{error}");
    }
    loop {}
}

/// What a caller of core brings: sizes are its own.
struct Buffers {
    entries: [Entry; 96],
    slots: [Slot; 96],
    offsets: [u32; 512],
    state: [f32; 1 << 16],
    scratch: [f32; 1 << 15],
    samples: [f32; 1280],
    text: Uart,
}

/// Where text goes.
struct Uart;

impl Write for Uart {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        black_box(text);
        Ok(())
    }
}

fn transcribe<'a>(
    buffers: &'a mut Buffers,
    weights: &'a [u8],
    params: &[u8],
    tekken: &[u8],
    mut wav: &[u8],
) -> Result<(), impl Error + use<>> {
    let mut run = || -> Result<(), Failure> {
        let header = safetensors::parse(weights, &mut buffers.entries)?;
        let params = Params::parse(params)?;
        let vocabulary = Vocabulary::parse(tekken)?;
        let binding = Binding::new(&header, &params, &mut buffers.slots)?;
        vocabulary.index(tekken, &mut buffers.offsets)?;
        let layout = Layout::new(
            &params,
            &Options {
                chunk: 1,
                batch: 1,
                ..Options::from(&vocabulary)
            },
        )?;
        let mut session = Session::new(&layout);
        let mut memory = Memory::carve(&layout, &mut buffers.state, &mut buffers.scratch)?;
        let model = Model::new(weights, &buffers.slots, &binding);
        let mut demuxer = Demuxer::new();
        let mut joiner = Utf8Joiner::new();
        loop {
            let progress = demuxer.push(wav, &mut buffers.samples)?;
            wav = wav.get(progress.consumed..).unwrap_or_default();
            if progress.written == 0 {
                session.finish();
            }
            let mut samples = buffers.samples.get(..progress.written).unwrap_or_default();
            loop {
                let taken = if samples.is_empty() {
                    0
                } else {
                    session.feed(&mut memory, samples)?
                };
                samples = samples.get(taken..).unwrap_or_default();
                match session.step(&model, &mut memory, &Serial)? {
                    Step::Token(token) => {
                        for byte in vocabulary.piece(tekken, &buffers.offsets, token.id)? {
                            for character in joiner.push(byte) {
                                let _ = buffers.text.write_char(character);
                            }
                        }
                    }
                    Step::Worked => {}
                    Step::NeedAudio if samples.is_empty() => break,
                    Step::NeedAudio => {}
                    Step::Done => return Ok(()),
                }
            }
        }
    };
    run()
}

/// Any error of core, with its message.
#[derive(Debug)]
enum Failure {
    Safetensors(safetensors::Error),
    Params(voxtral_core::format::params::Error),
    Tekken(voxtral_core::format::tekken::Error),
    Wav(voxtral_core::format::wav::WavError),
    Bind(voxtral_core::model::BindError),
    Layout(voxtral_core::layout::LayoutError),
    Session(voxtral_core::session::SessionError),
}

macro_rules! failures {
    ($($variant:ident: $error:ty),* $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*

        impl core::fmt::Display for Failure {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self {
                    $(Self::$variant(error) => error.fmt(f),)*
                }
            }
        }
    };
}

failures! {
    Safetensors: safetensors::Error,
    Params: voxtral_core::format::params::Error,
    Tekken: voxtral_core::format::tekken::Error,
    Wav: voxtral_core::format::wav::WavError,
    Bind: voxtral_core::model::BindError,
    Layout: voxtral_core::layout::LayoutError,
    Session: voxtral_core::session::SessionError,
}

impl Error for Failure {}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
