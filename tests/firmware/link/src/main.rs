//! Links core for a microcontroller: no std, no operating system, no allocator.
//!
//! The image is inspected (`ci/link-cortexm.sh`), not run: there is no start-up code. Every call goes through
//! `black_box`, so that nothing of core is computed away before it gets here.
#![no_std]
#![no_main]

use core::hint::black_box;
use voxtral_core::audio::{LogMel, MEL_BINS, WINDOW};
use voxtral_core::kernels::{Kernels, Matrix, Ops, Serial, Storage};

/// Never reached: it only keeps what it names.
#[unsafe(no_mangle)]
extern "C" fn entry() -> ! {
    mel();
    kernels();
    loop {}
}

fn mel() {
    let mut frame = [0.0; MEL_BINS];
    LogMel::new(black_box(1.5)).frame(black_box(&[0.0; WINDOW]), &mut frame);
    black_box(&frame);
}

fn kernels() {
    let ops = Ops::new(black_box(Kernels::baseline()), &Serial);
    let (x, mut y) = ([0.0; 8], [0.0; 2]);
    for storage in [Storage::Bf16, Storage::F16, Storage::F32] {
        if let Some(w) = Matrix::new(black_box(&[0; 32]), black_box(2), black_box(8), black_box(storage)) {
            ops.linear(&w, None, black_box(&x), &mut y);
        }
    }
    black_box(ops.argmax(black_box(&y)));
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
