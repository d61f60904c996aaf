//! The same application on a machine with files: `cargo run --release --example linux -- CLASS MODEL_DIR CLIP.wav…`
//!
//! The class is how multiply-accumulate rounds: `separate`, as on the microcontrollers, or `fused`, as on 64-bit Arm.
//! So it prints what the images print.

use app::{Buffers, Files};
use voxtral_core::kernels::{Class, Kernels};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: linux separate|fused MODEL_DIR CLIP.wav…";
    let class = match arguments.next().as_deref() {
        Some("separate") => Class::Separate,
        Some("fused") => Class::Fused,
        _ => return Err(usage.into()),
    };
    let directory = arguments.next().ok_or(usage)?;
    let read = |name: &str| std::fs::read(format!("{directory}/{name}"));
    let (weights, params, tekken) = (
        read("consolidated.safetensors")?,
        read("params.json")?,
        read("tekken.json")?,
    );
    let files = Files {
        weights: &weights,
        params: &params,
        tekken: &tekken,
    };
    let mut buffers = Buffers {
        entries: &mut [Default::default(); app::TENSORS],
        slots: &mut [Default::default(); app::TENSORS],
        offsets: &mut [0; app::OFFSETS],
        state: &mut vec![0.0; app::STATE],
        scratch: &mut vec![0.0; app::SCRATCH],
    };
    for clip in arguments {
        let mut text = String::new();
        let report = app::transcribe(
            files,
            &std::fs::read(&clip)?,
            Kernels::scalar(class),
            &mut buffers,
            &mut text,
        )?;
        let name = clip.rsplit('/').next().unwrap_or_default();
        println!("{name}:{text} [logits {:016x}]", report.logits);
        eprintln!("{report:?}");
    }
    Ok(())
}
