//! QEMU's "virt" board: the UART, a clock, and the end.

use core::arch::asm;
use core::fmt;

use app::{Board, Stack};

use crate::stack;

/// Data register of the PL011.
const UART: *mut u32 = 0x0900_0000 as *mut u32;

/// Where text goes.
pub struct Uart;

impl fmt::Write for Uart {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: the board has the register here, mapped as a device. The emulated one is never full.
            unsafe { UART.write_volatile(u32::from(byte)) }
        }
        Ok(())
    }
}

impl Board for Uart {
    const NAME: &'static str = "virt, 64-bit Arm";

    /// Nanoseconds of the generic timer: the emulator is told that every instruction takes one (`-icount shift=0`).
    fn instructions(&self) -> Option<u64> {
        let (ticks, hertz): (u64, u64);
        // SAFETY: reads two registers that every AArch64 has.
        unsafe { asm!("mrs {}, cntvct_el0", "mrs {}, cntfrq_el0", out(reg) ticks, out(reg) hertz) }
        Some(ticks * 1000 / (hertz / 1_000_000).max(1))
    }

    fn stack(&self) -> Option<Stack> {
        Some(stack::seen())
    }
}

/// Ends the emulator, by semihosting.
pub fn exit(success: bool) -> ! {
    const SYS_EXIT: u64 = 0x18;
    const APPLICATION_EXIT: u64 = 0x20026;
    let block = [APPLICATION_EXIT, u64::from(!success)];
    // SAFETY: the emulator reads the block, and ends.
    unsafe { asm!("hlt #0xF000", in("x0") SYS_EXIT, in("x1") block.as_ptr()) }
    loop {
        core::hint::spin_loop();
    }
}
