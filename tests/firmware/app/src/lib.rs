//! The part of a speech-to-text firmware that is the same on every board: bytes of a model and of a recording go in,
//! text comes out. It knows no board, no operating system and no allocator; the images beside it bring the memory and
//! a place to write to.
#![no_std]

mod board;
mod failure;
mod memory;

use core::fmt::Write;

use voxtral_core::format::{
    image::Image, params::Params, safetensors, tekken::Vocabulary, utf8::Utf8Joiner, wav::Demuxer,
};
use voxtral_core::kernels::{Kernels, Serial};
use voxtral_core::layout::{Layout, Memory, Options};
use voxtral_core::model::{Binding, LogitHash, Model};
use voxtral_core::session::{Session, Step};

pub use board::{Board, Stack, run};
pub use failure::Failure;
pub use memory::{Buffers, CHUNK, OFFSETS, Ram, SCRATCH, STATE, TENSORS};

/// The three files of a model, read where they lie.
#[derive(Clone, Copy)]
pub struct Files<'a> {
    /// `consolidated.safetensors`.
    pub weights: &'a [u8],
    /// `params.json`.
    pub params: &'a [u8],
    /// `tekken.json`.
    pub tekken: &'a [u8],
}

impl<'a> Files<'a> {
    /// The files in a packed model (`voxtral pack`), behind which flash may go on.
    ///
    /// # Errors
    /// [`Failure::Image`]. Only the header is looked at: to find damage in the rest is for whoever programs the flash.
    pub fn packed(flash: &'a [u8]) -> Result<Self, Failure> {
        let image = Image::open(flash)?;
        Ok(Self {
            weights: image.weights(),
            params: image.params(),
            tekken: image.tekken(),
        })
    }
}

/// What a transcription took.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Bytes of state that were used.
    pub state: usize,
    /// Bytes of scratch that were used.
    pub scratch: usize,
    /// Samples of the recording.
    pub samples: u64,
    /// How many tokens were decided, those without text included.
    pub tokens: u64,
    /// A hash of their ids in order (FNV-1a, one step per id): equal on all machines.
    pub token_hash: u64,
    /// The hash of all logits: equal on all machines whose multiply-accumulate rounds alike.
    pub logit_hash: u64,
}

/// Transcribes a WAV file of 16 kHz and writes the text to `out`, piece by piece as it is decided.
///
/// # Errors
/// Whatever is wrong with the model, the recording or the size of a buffer; each prints as one plain line.
pub fn transcribe(
    files: Files,
    mut wav: &[u8],
    kernels: Kernels,
    buffers: &mut Buffers,
    out: &mut impl Write,
) -> Result<Report, Failure> {
    // The model: indexed and checked, not loaded.
    let header = safetensors::parse(files.weights, buffers.entries)?;
    let params = Params::parse(files.params)?;
    let vocabulary = Vocabulary::parse(files.tekken)?;
    vocabulary.index(files.tekken, buffers.offsets)?;
    let binding = Binding::new(&header, &params, buffers.slots)?;
    let model = Model::new(files.weights, buffers.slots, &binding).with_kernels(kernels);

    // The memory: how much is needed is known before anything runs.
    let options = Options {
        chunk: CHUNK,
        // Wider passes save reading weights, which costs nothing here, and would need logits for each position.
        batch: 1,
        ..Options::from(&vocabulary)
    };
    let layout = Layout::new(&params, &options)?;
    let mut memory = Memory::carve(&layout, buffers.state, buffers.scratch)?;
    let mut session = Session::new(&layout);

    // The recording: 10 ms at a time, as a microphone's DMA buffer would bring it.
    let mut demuxer = Demuxer::new();
    let (mut samples, mut fresh) = ([0.0; 160], 0..0);
    let mut joiner = Utf8Joiner::new();
    let (mut tokens, mut token_hash, mut logits) = (0, 0xCBF2_9CE4_8422_2325, LogitHash::default());
    loop {
        match session.step_probed(&model, &mut memory, &Serial, &mut logits)? {
            Step::Token(token) => {
                tokens += 1;
                token_hash = (token_hash ^ u64::from(token.id)).wrapping_mul(0x0100_0000_01B3);
                for byte in vocabulary.piece(files.tekken, buffers.offsets, token.id)? {
                    for character in joiner.push(byte) {
                        out.write_char(character)?;
                    }
                }
            }
            Step::Worked => {}
            Step::NeedAudio if fresh.is_empty() => {
                let piece = demuxer.push(wav, &mut samples)?;
                wav = wav.get(piece.consumed..).unwrap_or_default();
                fresh = 0..piece.written;
                if fresh.is_empty() {
                    let rate = demuxer.finish()?.format.sample_rate;
                    if rate != 16_000 {
                        return Err(Failure::Rate(rate));
                    }
                    session.finish();
                }
            }
            Step::NeedAudio => {
                let piece = samples.get(fresh.clone()).unwrap_or_default();
                fresh.start += session.feed(&mut memory, piece)?;
            }
            Step::Done => break,
        }
    }
    Ok(Report {
        state: 4 * layout.state_len(),
        scratch: 4 * layout.scratch_len(),
        samples: session.samples_fed(),
        tokens,
        token_hash,
        logit_hash: logits.value(),
    })
}
