//! Models packed into one image: what is written is read back, what is damaged is told, and never more is read.

use std::fs;

use proptest::prelude::*;
use voxtral_core::format::image::{self, ALIGNMENT, Image, ImageError, MAX_PARTS, Part, PartKind};
use voxtral_tests::fuzzing;
use voxtral_tests::guard::Guarded;
use voxtral_tests::program::{MODEL_FILES, arg, model, run};

/// An image of these parts.
fn pack(parts: &[(PartKind, Vec<u8>)]) -> Vec<u8> {
    let mut entries: Vec<_> = parts
        .iter()
        .map(|(kind, bytes)| Part {
            kind: *kind,
            offset: 0,
            len: bytes.len() as u64,
            checksum: image::checksum(bytes),
        })
        .collect();
    let mut image = vec![0; image::header_len(parts.len())];
    let len = image::write_header(&mut entries, &mut image).unwrap();
    for (entry, (_, bytes)) in entries.iter().zip(parts) {
        image.resize(entry.offset as usize, 0xFF);
        image.extend(bytes);
    }
    assert_eq!(image.len() as u64, len);
    image
}

fn three() -> [(PartKind, Vec<u8>); 3] {
    [
        (PartKind::Params, b"{}".to_vec()),
        (PartKind::Tekken, b"[1, 2]".to_vec()),
        (PartKind::Weights, vec![7; 100]),
    ]
}

/// These bytes, with a page behind them that must not be touched.
fn guarded(bytes: &[u8]) -> Guarded {
    let mut guarded = Guarded::ending(bytes.len(), 0);
    guarded.bytes().copy_from_slice(bytes);
    guarded
}

fn contents() -> impl Strategy<Value = Vec<(PartKind, Vec<u8>)>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    let more = prop_oneof![Just(PartKind::Start), (5u32..).prop_map(PartKind::Other)];
    let more = prop::collection::vec((more, bytes()), 0..MAX_PARTS - 2);
    (bytes(), bytes(), bytes(), more).prop_flat_map(|(weights, params, tekken, mut all)| {
        all.extend([
            (PartKind::Weights, weights),
            (PartKind::Params, params),
            (PartKind::Tekken, tekken),
        ]);
        Just(all).prop_shuffle()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parts_are_read_as_they_were_written(parts in contents(), behind in prop::collection::vec(any::<u8>(), 0..100)) {
        let packed = pack(&parts);
        let flash = [packed.clone(), behind].concat();
        let image = Image::open(&flash).unwrap();
        prop_assert_eq!(image.len(), packed.len());
        image.verify().unwrap();
        let read: Vec<_> = image.parts().map(|part| (part.kind, image.bytes(&part).to_vec())).collect();
        prop_assert_eq!(&read, &parts);
        prop_assert!(image.parts().all(|part| part.offset % ALIGNMENT == 0));
        let of = |kind| parts.iter().filter(move |part| part.0 == kind).map(|part| &part.1[..]);
        prop_assert_eq!(Some(image.weights()), of(PartKind::Weights).next());
        prop_assert_eq!(Some(image.params()), of(PartKind::Params).next());
        prop_assert_eq!(Some(image.tekken()), of(PartKind::Tekken).next());
        prop_assert!(image.starts().eq(of(PartKind::Start)));
    }

    #[test]
    fn every_bit_counts(parts in contents(), at in any::<prop::sample::Index>(), bit in 0..8) {
        let mut packed = pack(&parts);
        let at = at.index(packed.len());
        let header = image::header_len(parts.len());
        let inside = Image::open(&packed).unwrap().parts().any(|part| {
            (part.offset..part.offset + part.len).contains(&(at as u64))
        });
        packed[at] ^= 1u8 << bit;
        match Image::open(&packed) {
            Ok(image) => {
                prop_assert!(at >= header, "byte {} of the header", at);
                prop_assert_eq!(image.verify().is_err(), inside);
            }
            Err(error) => prop_assert!(at < header, "{}", error),
        }
    }

    #[test]
    fn cut_images_are_refused_and_nothing_behind_is_read(parts in contents(), at in any::<prop::sample::Index>()) {
        let packed = pack(&parts);
        let len = at.index(packed.len());
        let mut cut = guarded(&packed[..len]);
        prop_assert!(Image::open(cut.bytes()).is_err());
        Image::open(guarded(&packed).bytes()).unwrap().verify().unwrap();
    }

    #[test]
    fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzzing::image(&bytes);
    }
}

/// The error for an image whose header has a valid checksum.
fn refused(change: impl FnOnce(&mut Vec<u8>)) -> ImageError {
    let mut image = pack(&three());
    change(&mut image);
    fuzzing::seal(&mut image);
    Image::open(&image).unwrap_err()
}

#[test]
fn headers_that_lie_are_refused() {
    assert_eq!(refused(|image| image[0] = b'v'), ImageError::NoImage);
    assert_eq!(
        refused(|image| image[8] = 2),
        ImageError::Version { expected: 1, found: 2 }
    );
    assert_eq!(refused(|image| image[12] = 0), ImageError::Parts { found: 0 });
    assert_eq!(refused(|image| image[12] = 17), ImageError::Parts { found: 17 });
    let (offset, len) = (128, 2);
    assert_eq!(
        refused(|image| image[40] = 129),
        ImageError::Place {
            index: 0,
            offset: 129,
            len
        }
    );
    assert_eq!(
        refused(|image| image[40] = 64),
        ImageError::Place {
            index: 0,
            offset: 64,
            len
        }
    );
    let len = u64::MAX;
    assert_eq!(
        refused(|image| image[48..56].fill(0xFF)),
        ImageError::Place { index: 0, offset, len }
    );
    let (offset, len) = (192, 6);
    assert_eq!(
        refused(|image| image[48] = 65),
        ImageError::Place { index: 1, offset, len }
    );
    let kind = PartKind::Tekken;
    assert_eq!(refused(|image| image[32] = 3), ImageError::Duplicate { kind });
    assert_eq!(refused(|image| image[64] = 9), ImageError::Missing { kind });
    let long = refused(|image| image[16..24].fill(0xFF));
    assert!(
        matches!(long, ImageError::Truncated { expected: u64::MAX, .. }),
        "{long:?}"
    );
}

#[test]
fn what_cannot_be_written_is_told() {
    let part = Part {
        kind: PartKind::Start,
        offset: 0,
        len: u64::MAX - 100,
        checksum: 0,
    };
    let write = |parts: &mut [Part], len: usize| image::write_header(parts, &mut vec![0; len]).unwrap_err();
    assert_eq!(write(&mut [], 32), ImageError::Parts { found: 0 });
    assert_eq!(write(&mut [part; 17], 32 * 18), ImageError::Parts { found: 17 });
    assert_eq!(
        write(&mut [part], 63),
        ImageError::Storage {
            expected: 64,
            found: 63
        }
    );
    assert!(matches!(
        write(&mut [part; 2], 96),
        ImageError::Place { index: 0, .. } | ImageError::Place { index: 1, .. }
    ));
}

#[test]
fn the_program_packs_and_inspects() {
    let directory = model();
    let dir = directory.path();
    let out = dir.join("flash.bin");
    let packed = run(["pack", arg(dir), arg(&out)]);
    assert_eq!(packed.code, Some(0), "{packed:?}");
    let bytes = fs::read(&out).unwrap();
    let image = Image::open(&bytes).unwrap();
    image.verify().unwrap();
    let files = MODEL_FILES.map(|name| fs::read(dir.join(name)).unwrap());
    assert_eq!(
        [image.weights(), image.params(), image.tekken()],
        files.each_ref().map(|file| &file[..])
    );
    assert_eq!(image.starts().count(), 0);

    let shown = run(["inspect", arg(&out)]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    for word in ["weights", "params.json", "tekken.json"] {
        assert!(shown.stdout.contains(word), "{shown:?}");
    }
    let checked = run(["inspect", "--check", arg(&out)]);
    assert!(checked.stdout.contains("a whole packed model, 3 parts"), "{checked:?}");
    assert_eq!(run(["inspect", "--summary", arg(&out)]).code, Some(2));
    run(["pack", arg(dir), arg(&dir.join("params.json"))]).assert_refused(&["params.json"]);
    // An image takes the place of another one, and of nothing else.
    let again = run(["pack", arg(dir), arg(&out)]);
    assert!(again.stderr.contains("in place of the image"), "{again:?}");
    let recording = dir.join("recording.wav");
    fs::write(&recording, "RIFF").unwrap();
    run(["pack", arg(dir), arg(&recording)]).assert_refused(&["recording.wav", "already"]);
    assert_eq!(fs::read(&recording).unwrap(), b"RIFF");

    // A bit of the weights, and one of the header.
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(&out, &damaged).unwrap();
    run(["inspect", "--check", arg(&out)]).assert_refused(&["flash.bin", "weights", "damaged"]);
    let json = run(["inspect", "--check", "--json", arg(&out)]);
    let value: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((json.code, &value["ok"]), (Some(1), &false.into()));
    damaged[20] ^= 1;
    fs::write(&out, &damaged).unwrap();
    run(["inspect", arg(&out)]).assert_refused(&["flash.bin", "header", "damaged"]);
}

#[test]
fn the_start_goes_along() {
    let directory = model();
    let dir = directory.path();
    let out = dir.join("flash.bin");
    let packed = run(["pack", "--prime", arg(dir), arg(&out)]);
    assert_eq!(packed.code, Some(0), "{packed:?}");
    let primed = run(["prime", "-d", arg(dir)]);
    assert_eq!(primed.code, Some(0), "{primed:?}");
    let mut files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let start = files.find(|path| arg(path).contains("start-480ms")).unwrap();
    let bytes = fs::read(&out).unwrap();
    let starts: Vec<_> = Image::open(&bytes).unwrap().starts().collect();
    assert_eq!(starts, [&fs::read(start).unwrap()[..]]);
}
