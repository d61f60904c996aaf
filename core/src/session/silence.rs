//! The start of every utterance, computed once: what the silence of the left pad makes of the state.
//!
//! Positions whose mel windows lie in the left pad as a whole hear no audio, so what encoder and decoder compute there
//! depends only on the model and the options. [`Session::prime`] computes them, [`Session::save_silence`] writes what
//! they left in the state as bytes that may be kept, in memory, a file or flash, and [`Session::restore_silence`]
//! starts an utterance behind them, with the bits that computing them would have given.
//!
//! Bytes, little-endian: `VXSILENT`, the version (u32), positions (u32), a fingerprint of model, options and rounding
//! (u64), the number of bytes that follow (u64), their hash (u64), and these bytes.

use core::fmt;
use core::mem;
use core::ops::Range;

use super::{CENTRE, LOOK_AHEAD, Session};
use crate::kernels::{CacheType, Class, Heads, bytes_mut};
use crate::layout::{Layout, Memory, SAMPLES_PER_POSITION, State};
use crate::model::{Model, decoder, encoder};

const MAGIC: &[u8; 8] = b"VXSILENT";
const VERSION: u32 = 1;
const HEADER: usize = 40;
/// Samples of a position.
const SAMPLES: u64 = SAMPLES_PER_POSITION as u64;

/// Why a saved silence is not gone on from. The session is as it was, and computes the silence itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SilenceError {
    /// The bytes do not begin as a saved silence does.
    NoSilence,
    /// Another version of the format.
    Version {
        /// That of this code.
        expected: u32,
        /// That of the bytes.
        found: u32,
    },
    /// Saved for another model, other options or kernels of another class.
    Other,
    /// More bytes, or fewer, than this layout wants.
    Length {
        /// Bytes that are wanted.
        expected: usize,
        /// Bytes that were given.
        found: usize,
    },
    /// The words are not those that were saved.
    Damaged,
    /// The session is not where its silence ends, or, to restore, not at its start.
    Place,
    /// The memory was carved by another layout.
    OtherMemory,
}

impl fmt::Display for SilenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSilence => f.write_str("this is no saved start of an utterance"),
            Self::Version { expected, found } => write!(f, "version {found} of a saved start, {expected} is known"),
            Self::Other => f.write_str("the saved start is that of another model, delay, cache or kind of processor"),
            Self::Length { expected, found } => {
                write!(f, "the saved start has {found} bytes, {expected} are expected")
            }
            Self::Damaged => f.write_str("the saved start is damaged"),
            Self::Place => f.write_str("the session is not at the end of its silence, or not at its start"),
            Self::OtherMemory => f.write_str("the memory was carved for another layout than the session's"),
        }
    }
}

impl core::error::Error for SilenceError {}

/// FNV-1a, a step per word of 8 bytes, of which the last may be short.
#[derive(Clone, Copy)]
struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
    fn of(bytes: &[u8]) -> u64 {
        let mut hash = Self::new();
        for bytes in bytes.chunks(8) {
            let mut word = [0; 8];
            for (word, byte) in word.iter_mut().zip(bytes) {
                *word = *byte;
            }
            hash.add(u64::from_le_bytes(word));
        }
        hash.0
    }
    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01B3);
    }
}

/// Positions of the prompt that no audio reaches: those before the last of which the mel windows look beyond the pad.
pub(super) fn positions(layout: &Layout) -> u64 {
    let pad = layout.options().left_pad_tokens as u64;
    let heard = pad
        .saturating_mul(SAMPLES_PER_POSITION as u64)
        .saturating_sub(LOOK_AHEAD);
    // The last position of the prompt decides a token.
    (heard / SAMPLES).min(pad.saturating_add(layout.options().delay_tokens as u64))
}

/// Bytes that a saved silence has.
pub(super) fn len(layout: &Layout) -> usize {
    body(layout).saturating_add(HEADER)
}

/// The rings of keys and values of one stack of layers, and what of them is seen behind the silence.
struct Rings {
    heads: Heads,
    capacity: usize,
    cache: CacheType,
    /// Slots of the positions that are still seen, in the order of positions: two runs where the ring has wrapped.
    runs: [Range<usize>; 2],
}

impl Rings {
    /// Of encoder and decoder.
    fn both(layout: &Layout) -> [Self; 2] {
        let params = layout.params();
        let positions = usize::try_from(positions(layout)).unwrap_or(usize::MAX);
        let frames = positions.saturating_mul(params.downsample_factor);
        let cache = layout.options().cache;
        let rings = |heads, capacity: usize, window: usize, written: usize| Self {
            heads,
            capacity,
            cache,
            runs: runs(capacity, written, written.min(window.saturating_sub(1))),
        };
        let (e, d) = (&params.encoder, &params.decoder);
        [
            rings(encoder::heads(e), layout.encoder_capacity(), e.sliding_window, frames),
            rings(
                decoder::heads(d),
                layout.decoder_capacity(),
                layout.decoder_window(),
                positions,
            ),
        ]
    }

    /// Calls `f` with what is seen of every head of every layer.
    fn each(&self, region: &mut [f32], f: &mut dyn FnMut(&mut [u8])) {
        let rows = self.heads.n_kv_heads.saturating_mul(self.capacity);
        let half = self.cache.floats(rows, self.heads.head_dim).unwrap_or(usize::MAX);
        for half in region.chunks_exact_mut(half.max(1)) {
            self.cache.each_slots(self.heads, self.capacity, &self.runs, half, f);
        }
    }

    /// Bytes of all that.
    fn bytes(&self, n_layers: usize) -> usize {
        let slots = self.runs.iter().fold(0, |sum, run| run.len().saturating_add(sum));
        let half = self.cache.slots_bytes(self.heads, slots);
        half.saturating_mul(2).saturating_mul(n_layers)
    }
}

/// Slots of the last `seen` of `written` positions in a ring.
fn runs(capacity: usize, written: usize, seen: usize) -> [Range<usize>; 2] {
    let end = written.checked_rem(capacity).unwrap_or(0);
    match end.checked_sub(seen) {
        Some(start) => [start..end, 0..0],
        None => [capacity.saturating_sub(seen.saturating_sub(end))..capacity, 0..end],
    }
}

/// Bytes of the state that a saved silence has.
fn body(layout: &Layout) -> usize {
    let params = layout.params();
    let [encoder, decoder] = Rings::both(layout);
    let conditioning = params.decoder.n_layers.saturating_mul(params.decoder.dim);
    layout
        .carried_len()
        .saturating_add(conditioning)
        .saturating_mul(4)
        .saturating_add(encoder.bytes(params.encoder.n_layers))
        .saturating_add(decoder.bytes(params.decoder.n_layers))
}

/// Calls `f` with each piece of the state that the silence left something in, always in the same order.
fn each_piece(layout: &Layout, state: &mut State<&mut [f32]>, f: &mut dyn FnMut(&mut [u8])) {
    let [encoder, decoder] = Rings::both(layout);
    f(bytes_mut(state.stem.mel));
    f(bytes_mut(state.stem.conv0));
    f(bytes_mut(state.ada));
    encoder.each(state.encoder_cache, f);
    decoder.each(state.decoder_cache, f);
}

/// Tells what a silence was saved for from everything else.
fn fingerprint(layout: &Layout, model: &Model) -> u64 {
    let options = layout.options();
    let mut hash = Hash::new();
    hash.add(model.fingerprint());
    hash.add(match model.kernels().class() {
        Class::Fused => 0,
        Class::Separate => 1,
    });
    hash.add(match options.cache {
        CacheType::F32 => 0,
        CacheType::Bf16 => 1,
        CacheType::Q8 => 2,
    });
    for number in [options.delay_tokens, options.left_pad_tokens, layout.decoder_window()] {
        hash.add(number as u64);
    }
    hash.add(options.bos.into());
    hash.add(options.streaming_pad.into());
    hash.0
}

fn header(layout: &Layout, model: &Model) -> [u8; HEADER - 8] {
    let mut bytes = [0; HEADER - 8];
    let fields = MAGIC
        .iter()
        .copied()
        .chain(VERSION.to_le_bytes())
        .chain(u32::try_from(positions(layout)).unwrap_or(u32::MAX).to_le_bytes())
        .chain(fingerprint(layout, model).to_le_bytes())
        .chain((body(layout) as u64).to_le_bytes());
    for (byte, field) in bytes.iter_mut().zip(fields) {
        *byte = field;
    }
    bytes
}

/// Writes the silence that the state holds.
pub(super) fn save(
    session: &Session,
    model: &Model,
    memory: &mut Memory,
    bytes: &mut [u8],
) -> Result<(), SilenceError> {
    let layout = &session.layout;
    if memory.layout != *layout {
        return Err(SilenceError::OtherMemory);
    }
    let end = positions(layout);
    let silent = session.fed == 0 && session.schedule.origin() == 0 && session.end.is_none();
    if !silent || session.decoded != end || session.encoded != end || session.model != Some(model.fingerprint()) {
        return Err(SilenceError::Place);
    }
    let (expected, found) = (len(layout), bytes.len());
    if expected != found {
        return Err(SilenceError::Length { expected, found });
    }
    let (head, body) = bytes.split_at_mut_checked(HEADER).unwrap_or_default();
    let mut rest = &mut *body;
    each_piece(layout, &mut memory.state, &mut |piece| {
        let (to, behind) = mem::take(&mut rest)
            .split_at_mut_checked(piece.len())
            .unwrap_or_default();
        if to.len() == piece.len() {
            to.copy_from_slice(piece);
        }
        rest = behind;
    });
    let fields = header(layout, model).into_iter().chain(Hash::of(body).to_le_bytes());
    for (byte, field) in head.iter_mut().zip(fields) {
        *byte = field;
    }
    Ok(())
}

/// Checks saved bytes, and puts them into the state of a session at its start.
pub(super) fn restore(
    session: &mut Session,
    model: &Model,
    memory: &mut Memory,
    bytes: &[u8],
) -> Result<(), SilenceError> {
    let layout = session.layout;
    if memory.layout != layout {
        return Err(SilenceError::OtherMemory);
    }
    let begun = session.fed > 0 || session.encoded > 0 || session.started || session.end.is_some();
    if begun || session.schedule.origin() > 0 || layout.params() != model.params() {
        return Err(SilenceError::Place);
    }
    check(&layout, model, bytes)?;

    let mut rest = bytes.get(HEADER..).unwrap_or_default();
    each_piece(&layout, &mut memory.state, &mut |piece| {
        let (from, behind) = rest.split_at_checked(piece.len()).unwrap_or_default();
        if from.len() == piece.len() {
            piece.copy_from_slice(from);
        }
        rest = behind;
    });
    session.model = Some(model.fingerprint());
    session.started = true;
    // Half a mel window before the next position, and of the left pad what is left behind that.
    session.buffered = 0;
    session.buffer(&mut memory.state, CENTRE, |room| room.fill(0.0));
    let end = positions(&layout);
    let left = session.schedule.left_pad().saturating_sub(end);
    session.silence = left.saturating_mul(SAMPLES);
    (session.encoded, session.decoded, session.queued_from) = (end, end, end);
    Ok(())
}

/// Whether the bytes are a silence of this layout and model, as they were saved.
pub(super) fn check(layout: &Layout, model: &Model, bytes: &[u8]) -> Result<(), SilenceError> {
    let (head, body) = bytes.split_at_checked(HEADER).ok_or(SilenceError::NoSilence)?;
    if !head.starts_with(MAGIC) {
        return Err(SilenceError::NoSilence);
    }
    let found = word(head.get(8..12).unwrap_or_default());
    if found != VERSION {
        return Err(SilenceError::Version {
            expected: VERSION,
            found,
        });
    }
    let (ours, hash) = (header(layout, model), head.get(HEADER - 8..).unwrap_or_default());
    if !head.starts_with(&ours) {
        return Err(SilenceError::Other);
    }
    let (expected, found) = (len(layout), bytes.len());
    if expected != found {
        return Err(SilenceError::Length { expected, found });
    }
    if Hash::of(body).to_le_bytes() == *hash {
        Ok(())
    } else {
        Err(SilenceError::Damaged)
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn slots_of_the_last_positions() {
        assert_eq!(runs(10, 7, 7), [0..7, 0..0]);
        assert_eq!(runs(10, 7, 3), [4..7, 0..0]);
        assert_eq!(runs(10, 10, 4), [6..10, 0..0]);
        assert_eq!(runs(10, 12, 2), [0..2, 0..0]);
        assert_eq!(runs(10, 12, 5), [7..10, 0..2]);
        assert_eq!(runs(10, 0, 0), [0..0, 0..0]);
    }
}
