//! Hands the linker script over.

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    println!("cargo:rustc-link-arg-bins=-T{here}/link.ld");
    println!("cargo:rerun-if-changed=link.ld");
}
