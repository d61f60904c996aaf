//! For the build scripts of the images: puts a packed model, as `voxtral pack` makes it, and the recordings one after the
//! other into one file for the board's flash. Where the recordings lie is compiled into the image; where the parts of the
//! model lie, its header says.

use std::env;
use std::fs;
use std::path::Path;

use voxtral_core::format::image::{self, Part, PartKind};

const MODEL: [(PartKind, &str); 3] = [
    (PartKind::Params, "params.json"),
    (PartKind::Tekken, "tekken.json"),
    (PartKind::Weights, "consolidated.safetensors"),
];
/// Those of `tests/nano/clips/logits.json`.
const CLIPS: [&str; 3] = ["01-espeak-noisy.wav", "02-espeak.wav", "05-flite-noisy.wav"];

/// Recordings begin at multiples of this.
const ALIGNMENT: usize = 16;

/// Writes `flash.rs` into the directory, and the contents of the flash into the file that `FLASH_IMAGE` names. The model
/// is the one in the directory that `FLASH_MODEL` names, or the small one. The source defines FLASH, the `address`,
/// where the packed model is; FLASH_LEN, at most `room`; and the ranges of CLIPS.
pub fn fill(address: usize, room: usize, out: &Path) {
    println!("cargo:rerun-if-changed=../flash.rs");
    let mut image = packed();
    let mut add = |path: String| {
        let bytes = read(&path);
        image.resize(image.len().next_multiple_of(ALIGNMENT), 0xFF);
        let start = image.len();
        image.extend(bytes);
        format!("{start:#x}..{:#x}", image.len())
    };
    let clips = CLIPS
        .map(|name| format!("    ({name:?}, {}),\n", add(format!("../../nano/clips/{name}"))))
        .concat();
    assert!(image.len() <= room, "{} bytes do not fit into the flash", image.len());
    let source = format!(
        "const FLASH: usize = {address:#x};\nconst FLASH_LEN: usize = {:#x};\n\
         const CLIPS: [(&str, Range<usize>); {}] = [\n{clips}];\n",
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

fn read(path: &str) -> Vec<u8> {
    println!("cargo:rerun-if-changed={path}");
    fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The model in one image.
fn packed() -> Vec<u8> {
    println!("cargo:rerun-if-env-changed=FLASH_MODEL");
    let directory = env::var("FLASH_MODEL").unwrap_or_else(|_| "../../../host/nano".into());
    let files = MODEL.map(|(_, name)| read(&format!("{directory}/{name}")));
    let mut parts = [0, 1, 2].map(|index| Part {
        kind: MODEL[index].0,
        offset: 0,
        len: files[index].len() as u64,
        checksum: image::checksum(&files[index]),
    });
    let mut image = vec![0; image::header_len(parts.len())];
    image::write_header(&mut parts, &mut image).unwrap();
    for (part, bytes) in parts.iter().zip(&files) {
        image.resize(part.offset as usize, 0xFF);
        image.extend(bytes);
    }
    image
}
