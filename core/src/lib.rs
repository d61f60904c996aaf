//! Speech to text with Mistral's Voxtral Realtime model, without an operating system.
#![no_std]
#![deny(missing_docs)]
#![warn(unreachable_pub)]

pub mod audio;
pub mod format;
pub mod kernels;
pub mod layout;
pub mod model;
pub mod session;
