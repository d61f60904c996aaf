//! Speech to text on a Cortex-M: the model is read in place from memory-mapped flash, all else is in static buffers.
//!
//! Output and exit go through the debugger (semihosting), which the emulator answers. What a product changes: where
//! the flash is, where samples come from, where text goes.
#![no_std]
#![no_main]

mod clock;
mod stack;

use core::fmt::Write;
use core::mem::MaybeUninit;
use core::ops::Range;

use app::{Buffers, Files};
use cortex_m_rt::{ExceptionFrame, entry, exception};
use cortex_m_semihosting::{debug, hio, hprintln};
use voxtral_core::format::safetensors::Entry;
use voxtral_core::kernels::Kernels;
use voxtral_core::model::Slot;

// BOARD and MEGAHERTZ, its clock.
include!(concat!(env!("OUT_DIR"), "/board.rs"));
// FLASH, FLASH_LEN and the ranges of CLIPS in it, behind the packed model.
include!(concat!(env!("OUT_DIR"), "/flash.rs"));

#[entry]
fn main() -> ! {
    // `entry` makes each of these a reference that exists once.
    static mut ENTRIES: MaybeUninit<[Entry; app::TENSORS]> = MaybeUninit::uninit();
    static mut SLOTS: MaybeUninit<[Slot; app::TENSORS]> = MaybeUninit::uninit();
    static mut OFFSETS: [u32; app::OFFSETS] = [0; app::OFFSETS];
    static mut STATE: [f32; app::STATE] = [0.0; app::STATE];
    static mut SCRATCH: [f32; app::SCRATCH] = [0.0; app::SCRATCH];

    let clock = clock::start();
    // SAFETY: the board maps this much memory here, and nothing writes to it.
    let flash = unsafe { core::slice::from_raw_parts(FLASH as *const u8, FLASH_LEN) };
    let mut buffers = Buffers {
        entries: ENTRIES.write([Entry::default(); app::TENSORS]),
        slots: SLOTS.write([Slot::default(); app::TENSORS]),
        offsets: OFFSETS,
        state: STATE,
        scratch: SCRATCH,
    };
    let Ok(mut out) = hio::hstdout() else { exit(false) };
    let files = match Files::packed(flash) {
        Ok(files) => files,
        Err(failure) => {
            let _ = writeln!(out, "{failure}");
            exit(false)
        }
    };
    for (name, range) in CLIPS {
        let _ = write!(out, "{name}:");
        let begun = clock.ticks();
        match app::transcribe(files, &flash[range], Kernels::baseline(), &mut buffers, &mut out) {
            Ok(report) => {
                // The emulator is told that every instruction takes a nanosecond (`-icount shift=0`).
                let instructions = (clock.ticks() - begun) * 1000 / MEGAHERTZ;
                let _ = writeln!(out, " [logits {:016x}]", report.logits);
                let _ = writeln!(
                    out,
                    "{BOARD}: state {} B, scratch {} B, stack {} B of {} B; {} million instructions for {} ms",
                    report.state,
                    report.scratch,
                    stack::used(),
                    stack::size(),
                    instructions / 1_000_000,
                    report.samples / 16,
                );
            }
            Err(failure) => {
                let _ = writeln!(out, "\n{failure}");
                exit(false)
            }
        }
    }
    exit(true)
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
