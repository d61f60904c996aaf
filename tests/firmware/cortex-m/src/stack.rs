//! How deep the stack has been. The start-up code fills its memory with a pattern (`paint-stack` of cortex-m-rt); what
//! has lost it was in use.

use core::ptr;

use app::Stack;

unsafe extern "C" {
    /// The word past the first word of the stack: it grows downwards.
    static _stack_start: u32;
    /// The last word that it may grow to: statics are below.
    static _stack_end: u32;
}

/// What has been seen of it; its size is all RAM that no static takes.
pub fn seen() -> Stack {
    let (start, end) = (&raw const _stack_start, &raw const _stack_end);
    let mut word = end;
    // SAFETY: all words between the two are RAM that belongs to the stack.
    while word < start && unsafe { ptr::read_volatile(word) } == cortex_m_rt::STACK_PAINT_VALUE {
        word = word.wrapping_add(1);
    }
    Stack {
        used: start as usize - word as usize,
        size: start as usize - end as usize,
    }
}
