//! Chooses the board by the target, and puts the model and the recordings one after the other into one file for the
//! board's flash. Where each of them lies is compiled into the image: there is no format for a packed model yet.
//!
//! `FLASH_IMAGE` is the file to write.

use std::env;
use std::fs;
use std::path::PathBuf;

const MODEL: [&str; 3] = ["consolidated.safetensors", "params.json", "tekken.json"];
const CLIPS: [&str; 3] = ["02-espeak.wav", "05-flite-noisy.wav", "01-espeak-noisy.wav"];

/// Parts begin at multiples of this.
const ALIGNMENT: usize = 16;

fn main() {
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let (board, megahertz, memory, flash, flash_len) = match env::var("TARGET").unwrap().as_str() {
        // Read-only QSPI flash.
        "thumbv8m.main-none-eabihf" => ("mps3-an547, Cortex-M55", 32, "memory-m55.x", 0x2800_0000, 8 << 20),
        // PSRAM, in the place of external flash.
        "thumbv7em-none-eabihf" => ("mps2-an500, Cortex-M7", 25, "memory-m7.x", 0x6000_0000, 16 << 20),
        other => panic!("no board for {other}"),
    };
    fs::copy(memory, out.join("memory.x")).unwrap();
    println!("cargo:rustc-link-search={}", out.display());
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    println!("cargo:rerun-if-changed={memory}");

    let mut image = Vec::<u8>::new();
    let mut add = |path: String| {
        println!("cargo:rerun-if-changed={path}");
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        image.resize(image.len().next_multiple_of(ALIGNMENT), 0xFF);
        let start = image.len();
        image.extend(bytes);
        format!("{start:#x}..{:#x}", image.len())
    };
    let [weights, params, tekken] = MODEL.map(|name| add(format!("../../../host/nano/{name}")));
    let clips: String = CLIPS
        .map(|name| format!("    ({name:?}, {}),\n", add(format!("../../nano/clips/{name}"))))
        .concat();
    assert!(
        image.len() <= flash_len,
        "{} bytes do not fit into the flash",
        image.len()
    );
    let source = format!(
        "const BOARD: &str = {board:?};\nconst MEGAHERTZ: u64 = {megahertz};\nconst FLASH: usize = {flash:#x};\nconst FLASH_LEN: usize = {:#x};\n\
         const WEIGHTS: Range<usize> = {weights};\nconst PARAMS: Range<usize> = {params};\n\
         const TEKKEN: Range<usize> = {tekken};\nconst CLIPS: [(&str, Range<usize>); {}] = [\n{clips}];\n",
        image.len(),
        CLIPS.len(),
    );
    fs::write(out.join("flash.rs"), source).unwrap();

    println!("cargo:rerun-if-env-changed=FLASH_IMAGE");
    if let Ok(path) = env::var("FLASH_IMAGE") {
        println!("cargo:rerun-if-changed={path}");
        fs::write(&path, image).unwrap();
    }
}
