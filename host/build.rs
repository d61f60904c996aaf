//! Tells the program what it is built for and with, for `--version`.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = env::var("TARGET").expect("cargo says the target");
    println!("cargo:rustc-env=VOXTRAL_TARGET={target}");
    let mut features: Vec<String> = env::vars()
        .filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase().replace('_', "-")))
        .filter(|feature| feature != "default")
        .collect();
    features.sort();
    println!("cargo:rustc-env=VOXTRAL_FEATURES={}", features.join(" "));
}
