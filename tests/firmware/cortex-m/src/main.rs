//! Speech to text on a Cortex-M: the model is read in place from memory-mapped flash, all else is in static buffers.
//!
//! Output and exit go through the debugger (semihosting), which the emulator answers. What a product changes: where
//! the flash is, where samples come from, where text goes.
#![no_std]
#![no_main]

mod clock;
mod stack;

use core::fmt;
use core::ops::Range;

use app::{Board, Ram, Stack};
use clock::Clock;
use cortex_m_rt::{ExceptionFrame, entry, exception};
use cortex_m_semihosting::{debug, hio, hprintln};
use voxtral_core::kernels::Kernels;

// BOARD and MEGAHERTZ, its clock.
include!(concat!(env!("OUT_DIR"), "/board.rs"));
// FLASH, FLASH_LEN and the ranges of CLIPS in it, behind the packed model.
include!(concat!(env!("OUT_DIR"), "/flash.rs"));

#[entry]
fn main() -> ! {
    // `entry` makes this a reference that exists once.
    static mut RAM: Ram = Ram::new();

    let Ok(out) = hio::hstdout() else { exit(false) };
    let mut board = Emulated {
        out,
        clock: clock::start(),
    };
    // SAFETY: the board maps this much memory here, and nothing writes to it.
    let flash = unsafe { core::slice::from_raw_parts(FLASH as *const u8, FLASH_LEN) };
    let clips = CLIPS.map(|(name, range)| (name, &flash[range]));
    exit(app::run(&mut board, flash, &clips, Kernels::baseline(), RAM))
}

/// The board as the emulator and a debugger have it.
struct Emulated {
    out: hio::HostStream,
    clock: Clock,
}

impl fmt::Write for Emulated {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_str(text)
    }
}

impl Board for Emulated {
    const NAME: &'static str = BOARD;

    /// The emulator is told that every instruction takes a nanosecond (`-icount shift=0`).
    fn instructions(&self) -> Option<u64> {
        Some(self.clock.ticks() * 1000 / MEGAHERTZ)
    }

    fn stack(&self) -> Option<Stack> {
        Some(stack::seen())
    }
}

/// Ends the emulator.
fn exit(success: bool) -> ! {
    debug::exit(if success {
        debug::EXIT_SUCCESS
    } else {
        debug::EXIT_FAILURE
    });
    loop {
        cortex_m::asm::wfi();
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    hprintln!("{}", info);
    exit(false)
}

// SAFETY: nothing is done in it but to print and to end.
#[exception]
unsafe fn HardFault(frame: &ExceptionFrame) -> ! {
    hprintln!("hard fault: {:?}", frame);
    exit(false)
}
