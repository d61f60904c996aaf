//! Speech to text on bare 64-bit Arm: code is executed and the model read in place from flash, all else is in static
//! buffers. Text goes to the UART.
#![no_std]
#![no_main]

mod board;
mod stack;

use core::arch::global_asm;
use core::fmt::Write;
use core::mem::MaybeUninit;
use core::ops::Range;

use app::{Buffers, Files};
use board::{Uart, exit, nanoseconds};
use voxtral_core::format::safetensors::Entry;
use voxtral_core::kernels::Kernels;
use voxtral_core::model::Slot;

// FLASH, FLASH_LEN and the ranges of CLIPS in it, behind the packed model.
include!(concat!(env!("OUT_DIR"), "/flash.rs"));

global_asm!(include_str!("start.s"));

/// All memory that changes, beside the stack.
struct Memory {
    entries: MaybeUninit<[Entry; app::TENSORS]>,
    slots: MaybeUninit<[Slot; app::TENSORS]>,
    offsets: [u32; app::OFFSETS],
    state: [f32; app::STATE],
    scratch: [f32; app::SCRATCH],
}

static mut MEMORY: Memory = Memory {
    entries: MaybeUninit::uninit(),
    slots: MaybeUninit::uninit(),
    offsets: [0; app::OFFSETS],
    state: [0.0; app::STATE],
    scratch: [0.0; app::SCRATCH],
};

/// Called once, by `start.s`.
// SAFETY: no other function has the name.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    // SAFETY: the only use of it, in a function that runs once.
    let memory = unsafe { &mut *(&raw mut MEMORY) };
    // SAFETY: the board maps this much flash here, and nothing writes to it.
    let flash = unsafe { core::slice::from_raw_parts(FLASH as *const u8, FLASH_LEN) };
    let files = match Files::packed(flash) {
        Ok(files) => files,
        Err(failure) => {
            let _ = writeln!(Uart, "{failure}");
            exit(false)
        }
    };
    let mut buffers = Buffers {
        entries: memory.entries.write([Entry::default(); app::TENSORS]),
        slots: memory.slots.write([Slot::default(); app::TENSORS]),
        offsets: &mut memory.offsets,
        state: &mut memory.state,
        scratch: &mut memory.scratch,
    };
    for (name, range) in CLIPS {
        let _ = write!(Uart, "{name}:");
        let begun = nanoseconds();
        match app::transcribe(files, &flash[range], Kernels::baseline(), &mut buffers, &mut Uart) {
            Ok(report) => {
                // The emulator is told that every instruction takes a nanosecond (`-icount shift=0`).
                let instructions = nanoseconds() - begun;
                let _ = writeln!(Uart, " [logits {:016x}]", report.logits);
                let _ = writeln!(
                    Uart,
                    "virt, 64-bit Arm: state {} B, scratch {} B, stack {} B of {} B; {} million instructions for {} ms",
                    report.state,
                    report.scratch,
                    stack::used(),
                    stack::size(),
                    instructions / 1_000_000,
                    report.samples / 16,
                );
            }
            Err(failure) => {
                let _ = writeln!(Uart, "\n{failure}");
                exit(false)
            }
        }
    }
    exit(true)
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
