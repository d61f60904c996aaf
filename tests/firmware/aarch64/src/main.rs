//! Speech to text on bare 64-bit Arm: code is executed and the model read in place from flash, all else is in static
//! buffers. Text goes to the UART.
#![no_std]
#![no_main]

mod board;
mod stack;

use core::arch::global_asm;
use core::fmt::Write;
use core::ops::Range;

use app::Ram;
use board::{Uart, exit};
use voxtral_core::kernels::Kernels;

// FLASH, FLASH_LEN and the ranges of CLIPS in it, behind the packed model.
include!(concat!(env!("OUT_DIR"), "/flash.rs"));

global_asm!(include_str!("start.s"));

static mut RAM: Ram = Ram::new();

/// Called once, by `start.s`.
// SAFETY: no other function has the name.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    // SAFETY: the only use of it, in a function that runs once.
    let ram = unsafe { &mut *(&raw mut RAM) };
    // SAFETY: the board maps this much flash here, and nothing writes to it.
    let flash = unsafe { core::slice::from_raw_parts(FLASH as *const u8, FLASH_LEN) };
    let clips = CLIPS.map(|(name, range)| (name, &flash[range]));
    exit(app::run(&mut Uart, flash, &clips, Kernels::baseline(), ram))
}

/// An exception of the processor, with its syndrome, where it was, and the address that was asked for.
// SAFETY: no other function has the name.
#[unsafe(no_mangle)]
extern "C" fn unexpected(syndrome: u64, at: u64, address: u64) -> ! {
    let _ = writeln!(Uart, "\nexception {syndrome:#x} at {at:#x}, address {address:#x}");
    exit(false)
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    let _ = writeln!(Uart, "\n{info}");
    exit(false)
}
