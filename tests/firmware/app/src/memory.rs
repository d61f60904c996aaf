//! The memory of the application, and how much of it there is. The small model decides the sizes: for another one
//! change them until nothing is refused, each refusal says both numbers.

use core::mem::MaybeUninit;

use voxtral_core::format::safetensors::Entry;
use voxtral_core::model::Slot;

/// Tensors of the small model: entries of its index, and slots of its binding.
pub const TENSORS: usize = 96;
/// Length of the small model's index of token bytes, in values of u32.
pub const OFFSETS: usize = 300;
/// Length of the state of the small model with chunks of [`CHUNK`] positions, in values of f32.
pub const STATE: usize = 144_720;
/// Length of its scratch, in values of f32.
pub const SCRATCH: usize = 6_880;
/// Positions of 80 ms in one pass. One needs the least memory; the text is the same with any number.
pub const CHUNK: usize = 1;

/// All memory that changes, beside the stack, lent for a transcription. One that is too small is an error that says how
/// large it has to be.
pub struct Buffers<'a> {
    /// Index of the tensors.
    pub entries: &'a mut [Entry],
    /// Which tensor has which role.
    pub slots: &'a mut [Slot],
    /// Where the bytes of each token are.
    pub offsets: &'a mut [u32],
    /// What a session keeps between calls.
    pub state: &'a mut [f32],
    /// What one pass needs; of no interest after it.
    pub scratch: &'a mut [f32],
}

/// The same memory as one piece, for a `static`: all zeros, so it takes no flash.
pub struct Ram {
    entries: MaybeUninit<[Entry; TENSORS]>,
    slots: MaybeUninit<[Slot; TENSORS]>,
    offsets: [u32; OFFSETS],
    state: [f32; STATE],
    scratch: [f32; SCRATCH],
}

impl Ram {
    /// Memory that nothing has used yet.
    pub const fn new() -> Self {
        Self {
            entries: MaybeUninit::uninit(),
            slots: MaybeUninit::uninit(),
            offsets: [0; OFFSETS],
            state: [0.0; STATE],
            scratch: [0.0; SCRATCH],
        }
    }

    /// Lends it.
    pub fn buffers(&mut self) -> Buffers<'_> {
        Buffers {
            entries: self.entries.write([Entry::default(); TENSORS]),
            slots: self.slots.write([Slot::default(); TENSORS]),
            offsets: &mut self.offsets,
            state: &mut self.state,
            scratch: &mut self.scratch,
        }
    }
}

impl Default for Ram {
    fn default() -> Self {
        Self::new()
    }
}
