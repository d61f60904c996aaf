//! Hands the linker script over, and fills the flash.

use std::env;
use std::path::PathBuf;

#[path = "../flash.rs"]
mod flash;

fn main() {
    let here = env::var("CARGO_MANIFEST_DIR").unwrap();
    println!("cargo:rustc-link-arg-bins=-T{here}/link.ld");
    println!("cargo:rerun-if-changed=link.ld");
    // The second of the two flash devices.
    flash::fill(0x0400_0000, 64 << 20, &PathBuf::from(env::var("OUT_DIR").unwrap()));
}
