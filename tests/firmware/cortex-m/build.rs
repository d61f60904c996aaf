//! Chooses the board by the target, and fills its flash.

use std::env;
use std::fs;
use std::path::PathBuf;

#[path = "../flash.rs"]
mod flash;

fn main() {
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let (board, megahertz, memory, address, room) = match env::var("TARGET").unwrap().as_str() {
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
    let source = format!("const BOARD: &str = {board:?};\nconst MEGAHERTZ: u64 = {megahertz};\n");
    fs::write(out.join("board.rs"), source).unwrap();
    flash::fill(address, room, &out);
}
