//! How deep the stack has been. `start.s` fills its memory with a pattern; what has lost it was in use.

use core::ptr;

use app::Stack;

const PAINT: u64 = 0xCCCC_CCCC_CCCC_CCCC;

unsafe extern "C" {
    /// The word past the first word of the stack: it grows downwards.
    static stack_start: u64;
    /// The last word that it may grow to: statics are below.
    static stack_end: u64;
}

/// What has been seen of it; its size is all RAM that no static takes.
pub fn seen() -> Stack {
    let (start, end) = (&raw const stack_start, &raw const stack_end);
    let mut word = end;
    // SAFETY: all words between the two are RAM that belongs to the stack.
    while word < start && unsafe { ptr::read_volatile(word) } == PAINT {
        word = word.wrapping_add(1);
    }
    Stack {
        used: start as usize - word as usize,
        size: start as usize - end as usize,
    }
}
