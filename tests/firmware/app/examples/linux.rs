//! The same application on a machine with files: `cargo run --release --example linux -- KERNELS IMAGE CLIP.wav…`
//!
//! The image is a packed model, as `voxtral pack` makes it. The kernels are `baseline`, as the images of the boards have
//! them, or scalar ones by how multiply-accumulate rounds: `separate`, as on the microcontrollers, or `fused`, as on
//! 64-bit Arm. So it prints what the images print.

use std::error::Error;
use std::fmt;
use std::fs;
use std::process::ExitCode;

use app::{Board, Ram, Stack};
use voxtral_core::kernels::{Class, Kernels};

struct Linux;

impl fmt::Write for Linux {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        print!("{text}");
        Ok(())
    }
}

impl Board for Linux {
    const NAME: &'static str = "Linux";

    fn instructions(&self) -> Option<u64> {
        None
    }

    fn stack(&self) -> Option<Stack> {
        None
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: linux baseline|separate|fused IMAGE CLIP.wav…";
    let kernels = match arguments.next().as_deref() {
        Some("baseline") => Kernels::baseline(),
        Some("separate") => Kernels::scalar(Class::Separate),
        Some("fused") => Kernels::scalar(Class::Fused),
        _ => return Err(usage.into()),
    };
    let flash = fs::read(arguments.next().ok_or(usage)?)?;
    let paths: Vec<String> = arguments.collect();
    let files = paths.iter().map(fs::read).collect::<Result<Vec<_>, _>>()?;
    let names = paths.iter().map(|path| path.rsplit('/').next().unwrap_or_default());
    let clips: Vec<_> = names.zip(files.iter().map(Vec::as_slice)).collect();
    let heard = app::run(&mut Linux, &flash, &clips, kernels, &mut Box::new(Ram::new()));
    Ok(ExitCode::from(u8::from(!heard)))
}
