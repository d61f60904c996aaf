//! `include/voxtral.h` is what cbindgen makes of the sources.
//!
//! After a change to them: `cargo test --release -p voxtral-ffi --test header -- --ignored` writes it anew.

use std::fs;
use std::path::Path;

fn made() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    // In the order in which a reader wants them.
    for source in ["status", "borrow", "nearest", "model", "stream", "hosted"] {
        builder = builder.with_src(root.join(format!("src/{source}.rs")));
    }
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

fn path() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include/voxtral.h")
}

#[test]
fn the_header_is_that_of_the_sources() {
    let stored = fs::read_to_string(path()).unwrap();
    assert!(stored == made(), "include/voxtral.h is stale: see the top of this test");
    for source in ["status", "model", "stream", "hosted"] {
        let source =
            fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/{source}.rs"))).unwrap();
        for name in source
            .split("extern \"C\" fn ")
            .skip(1)
            .map(|rest| rest.split('(').next().unwrap())
        {
            assert!(stored.contains(&format!("{name}(")), "{name} is not in the header");
        }
    }
}

#[test]
#[ignore = "writes the header"]
fn write_the_header() {
    fs::create_dir_all(path().parent().unwrap()).unwrap();
    fs::write(path(), made()).unwrap();
}
