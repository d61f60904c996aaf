//! A count of ticks of the processor's clock: SysTick, with its overflows counted.

use core::sync::atomic::{AtomicU32, Ordering};

use cortex_m::Peripherals;
use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::exception;

/// SysTick counts down from here, 24 bits.
const RELOAD: u32 = 0x00FF_FFFF;

static OVERFLOWS: AtomicU32 = AtomicU32::new(0);

/// A clock that runs.
#[derive(Clone, Copy)]
pub struct Clock(());

/// Starts the clock of the board. May be called once.
pub fn start() -> Clock {
    if let Some(mut peripherals) = Peripherals::take() {
        peripherals.SYST.set_clock_source(SystClkSource::Core);
        peripherals.SYST.set_reload(RELOAD);
        peripherals.SYST.clear_current();
        peripherals.SYST.enable_interrupt();
        peripherals.SYST.enable_counter();
    }
    Clock(())
}

impl Clock {
    /// Ticks since the start.
    pub fn ticks(self) -> u64 {
        loop {
            let before = OVERFLOWS.load(Ordering::Relaxed);
            let left = SYST::get_current();
            if before == OVERFLOWS.load(Ordering::Relaxed) {
                return (u64::from(before) << 24) + u64::from(RELOAD - left);
            }
        }
    }
}

#[exception]
fn SysTick() {
    OVERFLOWS.store(OVERFLOWS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
