//! Speech to text with Mistral's Voxtral Realtime, a streaming model, as a library that needs no operating system.
//!
//! The whole inference is here: bytes of a model and samples go in, tokens and the bytes of their text come out. The
//! crate is `no_std` and does not use `alloc`. It reads the weights where they lie (a mapped file, a flash window, a
//! `static`), works in memory that the caller hands in and says how much that is before anything runs. It opens no
//! file, starts no thread and keeps no global state; the `voxtral` crate is a thin shell around it that does.
//!
//! # The way of the data
//!
//! ```text
//! consolidated.safetensors ─► Header ─► Binding (role ─► place, dtype; checked once) ─► Model (a view) ─┐
//! params.json ──────────────► Params ─► Layout (bytes of everything) ─► Memory { state, scratch } ──────┤
//! tekken.json ──────────────► Vocabulary (special ids, delay, left pad; id ─► bytes) ───────────────────┤
//!                                                                                                       ▼
//! samples ─► mel frames ─► convolution stem ─► encoder ─► 4 frames as 1 ─► adapter ─► decoder ─► token ─► text
//!            └────────────────────────────────── Session ───────────────────────────────────┘
//! ```
//!
//! Audio is 16 kHz mono. A mel frame comes every 10 ms, an encoder frame every 20 ms, and a position of the decoder,
//! with one token each, every 80 ms. The decoder's input at a position is the sum of the audio there and the
//! embedding of the token before, so text keeps pace with the audio, a chosen delay behind it (480 ms by default);
//! where nothing new is said the token is a padding one. Streaming is the only mode: a file is a stream that ends.
//!
//! # The rooms
//!
//! Each uses only those above it; [`model`] besides takes the views that [`layout`] carves for it.
//!
//! | | |
//! |---|---|
//! | [`format`] | Bytes to meaning: a JSON reader, the [safetensors](format::safetensors) header, [`params.json`](format::params), [`tekken.json`](format::tekken), all of them in one [image](format::image) for flash, [UTF-8](format::utf8) joined from pieces, [WAV](format::wav) by push. Validates once, computes nothing. |
//! | [`kernels`] | The few operations that cost time, over [matrices](kernels::Matrix) of BF16, F16 or F32 at any alignment. A scalar version defines every bit; one folder per instruction set keeps to it. [`Executor`](kernels::Executor) is how threads come in. |
//! | [`audio`] | Samples to log-mel frames, one window at a time. |
//! | [`model`] | Tensors bound to [roles](model::Role), and the passes over them: stem, encoder, adapter, decoder. Reads like the paper's equations. |
//! | [`layout`] | How much memory everything needs, item by item, and how the caller's is carved. One function does both, so the two cannot disagree. |
//! | [`session`] | The schedule: padding, prompt, delay, chunks, the end. [`feed`](session::Session::feed) it samples, and each [`step`](session::Session::step) is one bounded unit of work. |
//!
//! # What holds everywhere
//!
//! * **Plain data, views per call.** Entries, slots, binding, layout and session hold offsets, not references, so one
//!   struct can own the file, the tables, the memory and the session. [`Model`](model::Model) and
//!   [`Memory`](layout::Memory) are views, made when they are wanted. A session refuses any but its own.
//! * **Two regions of memory.** The state must survive between calls: a copy of it and of the session is a snapshot.
//!   The scratch need not, and can be shared by sessions that do not step at once. Neither needs to be initialised.
//! * **Bounded for ever.** Caches are rings, counters have 64 bits, and rotary angles are exact at any position, so
//!   audio may go on without end in the same memory and with the same work per second.
//! * **The same bits.** Every sum has one order. Whatever the cut of the audio, the chunk, the number of threads and
//!   the instruction set of one [class](kernels::Class), the logits are equal bit by bit;
//!   [`LogitHash`](model::LogitHash) shows it.
//! * **Wide passes, the same result.** A decoder pass reads all its weights, for one position or for
//!   [several](layout::Options::batch): tokens between are guessed, and the pass counts as far as it proves them right.
//! * **The start is always the same.** What the silence before the first sample leaves behind can be computed while
//!   nobody speaks, [saved](session::Session::save_silence), and gone on from.
//! * **Nothing from outside panics.** What is wrong with a file, an option or a sample is a small typed error that
//!   says what, where, what was expected and what was found, on one line. A call that is refused has changed nothing;
//!   only weights found to be damaged in the middle of a pass leave a session that wants a reset.
//! * **Nothing is read that is not needed.** Binding reads the header and one norm. Weights are paged in by use.
//!
//! # Example
//!
//! A complete program: a small model (digits and a few words) and a recording are linked into it, the memory is two
//! arrays. Without `std` and `alloc` there is nothing in it that could allocate.
//!
//! ```
//! #![no_std]
//! # extern crate std; // for the start of a program, and so that a failed assertion can be printed
//! use voxtral_core::format::{params::Params, safetensors, tekken::Vocabulary, utf8::Utf8Joiner, wav::Demuxer};
//! use voxtral_core::kernels::Serial;
//! use voxtral_core::layout::{Layout, Memory, Options};
//! use voxtral_core::model::{Binding, Model, Slot};
//! use voxtral_core::session::{Session, Step};
//!
//! macro_rules! file {
//!     ($path:literal) => { include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../", $path)) };
//! }
//! static WEIGHTS: &[u8] = file!("host/nano/consolidated.safetensors");
//! static PARAMS: &[u8] = file!("host/nano/params.json");
//! static TEKKEN: &[u8] = file!("host/nano/tekken.json");
//! static CLIP: &[u8] = file!("tests/nano/clips/07-festival.wav");
//!
//! fn main() {
//!     // Read the files once. Tables are the caller's; `count`, `slots` and `index_len` tell how long they must be.
//!     let mut entries = [safetensors::Entry::default(); 100];
//!     let header = safetensors::parse(WEIGHTS, &mut entries).unwrap();
//!     let params = Params::parse(PARAMS).unwrap();
//!     let vocabulary = Vocabulary::parse(TEKKEN).unwrap();
//!     let mut offsets = [0; 300];
//!     vocabulary.index(TEKKEN, &mut offsets).unwrap();
//!     let mut slots = [Slot::default(); 100];
//!     let binding = Binding::new(&header, &params, &mut slots).unwrap();
//!     let model = Model::new(WEIGHTS, &slots, &binding);
//!
//!     // How much memory? Short chunks need less, and answer sooner: here after 4 positions, 320 ms.
//!     let options = Options { chunk: 4, ..Options::from(&vocabulary) };
//!     let layout = Layout::new(&params, &options).unwrap();
//!     assert!(4 * (layout.state_len() + layout.scratch_len()) < 800_000, "bytes in all");
//!     let (mut state, mut scratch) = ([0.0; 170_000], [0.0; 30_000]);
//!     let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
//!     let mut session = Session::new(&layout);
//!
//!     // The recording comes in pieces of 10 ms, as from a microphone.
//!     let (mut demuxer, mut file) = (Demuxer::new(), CLIP);
//!     let (mut samples, mut fresh) = ([0.0; 160], 0..0);
//!     let (mut joiner, mut text) = (Utf8Joiner::new(), heapless::String::<100>::new());
//!     loop {
//!         match session.step(&model, &mut memory, &Serial).unwrap() {
//!             Step::Token(token) => {
//!                 for byte in vocabulary.piece(TEKKEN, &offsets, token.id).unwrap() {
//!                     joiner.push(byte).for_each(|whole| text.push(whole).unwrap());
//!                 }
//!             }
//!             Step::Worked => {}
//!             Step::NeedAudio if fresh.is_empty() && file.is_empty() => session.finish(),
//!             Step::NeedAudio => {
//!                 if fresh.is_empty() {
//!                     let piece = demuxer.push(file, &mut samples).unwrap();
//!                     file = &file[piece.consumed..];
//!                     fresh = 0..piece.written;
//!                 }
//!                 fresh.start += session.feed(&mut memory, &samples[fresh.clone()]).unwrap();
//!             }
//!             Step::Done => break,
//!         }
//!     }
//!     assert_eq!(demuxer.finish().unwrap().format.sample_rate, 16_000);
//!     assert_eq!(text, " eight five yes yes"); // a word brings the space before it
//! }
//! ```
#![no_std]
#![deny(missing_docs)]
#![warn(unreachable_pub)]

// Weights are little-endian, and kernels read them as they lie.
#[cfg(target_endian = "big")]
compile_error!("voxtral-core is for little-endian targets only");

pub mod audio;
pub mod format;
pub mod kernels;
pub mod layout;
pub mod model;
pub mod session;
