//! The C surface of [`voxtral_core`]: `include/voxtral.h` is made of this crate.
//!
//! Nothing is computed here. A C program hands over places in memory; this checks what can be checked of them, makes
//! borrows of them that live for one call, and says by a [`Status`] how it went. Handles are blocks of the caller's
//! memory that begin with a mark, so that most of what is no handle is noticed.
//!
//! Built with the feature `std` it opens model directories and runs threads (the `voxtral` crate does); without, it
//! needs no operating system and no allocator, and on bare metal brings a panic handler, which halts.
//!
//! # Safety
//!
//! Every function takes pointers from C, and is `unsafe` for one reason: a pointer that is not null must point to what
//! its type says, as long as said beside it, for the time of the call, and memory handed to a handle for as long as that
//! is used. So it is not said again for each.
#![cfg_attr(not(feature = "std"), no_std)]
#![deny(missing_docs)]
#![warn(unreachable_pub)]
#![allow(clippy::missing_safety_doc)]

mod borrow;
#[cfg(feature = "std")]
mod hosted;
mod model;
mod nearest;
mod status;
mod stream;

pub use borrow::{ALIGNMENT, Bytes, Memory};
#[cfg(feature = "std")]
pub use hosted::*;
pub use model::*;
pub use nearest::{ALTERNATIVES, Candidate};
pub use status::*;
pub use stream::*;

/// No code that is reached from input panics; a machine without an operating system that does so all the same stops.
#[cfg(all(not(feature = "std"), target_os = "none"))]
#[panic_handler]
fn halt(_: &core::panic::PanicInfo) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
