//! For the build scripts of the images: puts the model and the recordings one after the other into one file for the
//! board's flash. Where each of them lies is compiled into the image: there is no format for a packed model yet.

use std::env;
use std::fs;
use std::path::Path;

const MODEL: [&str; 3] = ["consolidated.safetensors", "params.json", "tekken.json"];
const CLIPS: [&str; 3] = ["02-espeak.wav", "05-flite-noisy.wav", "01-espeak-noisy.wav"];

/// Parts begin at multiples of this.
const ALIGNMENT: usize = 16;

/// Writes `flash.rs` into the directory, and the contents of the flash into the file that `FLASH_IMAGE` names. The
/// source defines FLASH, the `address`; FLASH_LEN, at most `room`; and the ranges of WEIGHTS, PARAMS, TEKKEN and CLIPS.
pub fn fill(address: usize, room: usize, out: &Path) {
    println!("cargo:rerun-if-changed=../flash.rs");
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
    let clips = CLIPS
        .map(|name| format!("    ({name:?}, {}),\n", add(format!("../../nano/clips/{name}"))))
        .concat();
    assert!(image.len() <= room, "{} bytes do not fit into the flash", image.len());
    let source = format!(
        "const FLASH: usize = {address:#x};\nconst FLASH_LEN: usize = {:#x};\n\
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
