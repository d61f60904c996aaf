//! How deep the stack has been. The start-up code fills its memory with a pattern (`paint-stack` of cortex-m-rt); what
//! has lost it was in use.

use core::ptr;

unsafe extern "C" {
    /// The word past the first word of the stack: it grows downwards.
    static _stack_start: u32;
    /// The last word that it may grow to: statics are below.
    static _stack_end: u32;
}

/// Bytes of the stack at its deepest.
pub fn used() -> usize {
    let (start, mut word) = (&raw const _stack_start, &raw const _stack_end);
    // SAFETY: all words between the two are RAM that belongs to the stack.
    while word < start && unsafe { ptr::read_volatile(word) } == cortex_m_rt::STACK_PAINT_VALUE {
        word = word.wrapping_add(1);
    }
    start as usize - word as usize
}

/// Bytes that there are for it: all RAM that no static takes.
pub fn size() -> usize {
    &raw const _stack_start as usize - &raw const _stack_end as usize
}
