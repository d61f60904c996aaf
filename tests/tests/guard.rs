//! Every reader on bytes that begin or end exactly at a page that cannot be touched, at even and odd addresses, and a
//! whole session whose weights and memory do. One byte read or written too far ends the program.
//!
//! The kernels by themselves are in `kernels/guarded.rs`. [`Utf8Joiner`](voxtral_core::format::utf8::Utf8Joiner)
//! takes its bytes one by one, so there is nothing that it could read too far.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;

use voxtral_core::format::json::{Event, Reader};
use voxtral_core::format::params::Params;
use voxtral_core::format::safetensors::{self as st, Entry, Header};
use voxtral_core::format::tekken::Vocabulary;
use voxtral_core::format::wav::Demuxer;
use voxtral_core::kernels::{Class, Kernels, Serial};
use voxtral_core::layout::{Layout, Memory};
use voxtral_core::session::{Session, Step};
use voxtral_tests::calls::spec;
use voxtral_tests::engine::Engine;
use voxtral_tests::fuzzing::{TARGETS, Target, expanded};
use voxtral_tests::guard::Guarded;
use voxtral_tests::random::audio;

/// The same bytes in four places.
fn placed(bytes: &[u8]) -> [Guarded; 4] {
    [
        Guarded::ending(bytes.len(), 0),
        Guarded::ending(bytes.len(), 1),
        Guarded::beginning(bytes.len(), 0),
        Guarded::beginning(bytes.len(), 1),
    ]
    .map(|mut place| {
        place.bytes().copy_from_slice(bytes);
        place
    })
}

/// Set in the process that is to be stopped.
const READ_TOO_FAR: &str = "VOXTRAL_READ_TOO_FAR";

/// What the other tests rely on.
#[test]
fn one_byte_too_many_is_stopped() {
    if std::env::var_os(READ_TOO_FAR).is_some() {
        let mut place = Guarded::ending(10, 0);
        let end = place.bytes().as_ptr_range().end;
        // SAFETY: none, and that is the point; the page there takes no access, so no value comes of it.
        println!("{}", unsafe { end.read_volatile() });
    } else {
        let test = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "one_byte_too_many_is_stopped"])
            .env(READ_TOO_FAR, "1")
            .output()
            .unwrap();
        assert!(!test.status.success() && !String::from_utf8_lossy(&test.stdout).contains("test result"));
    }
}

fn corpus(target: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let files = std::fs::read_dir(directory).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

/// Everything that the readers read of a file, for each of them.
const READERS: [(&str, Target); 5] = [
    ("safetensors", |bytes| {
        let Ok(count) = st::count(bytes) else { return };
        let mut entries = vec![Entry::default(); count];
        if st::parse(bytes, &mut entries).is_err() {
            return;
        }
        let header = Header::view(bytes, &entries);
        for tensor in header.iter().chain(header.iter_by_offset()) {
            let name = tensor.name().to_string();
            assert!(header.get(&name).is_some());
            if let Ok(count @ 0..1000) = usize::try_from(tensor.elements()) {
                let _ = tensor.read_f32(&mut vec![0.0; count]);
                let _ = tensor.read_bf16(&mut vec![0; count]);
            }
        }
        assert!(header.metadata().all(|(key, _)| key == key.to_string().as_str()));
    }),
    ("json", |bytes| {
        let mut reader = Reader::new(bytes);
        while let Ok(event) = reader.next() {
            match event {
                Event::Key(text) | Event::String(text) => drop(text.to_string()),
                Event::Number(number) => assert!(number.as_f64().is_finite()),
                Event::End => break,
                _ => {}
            }
        }
        let _ = Reader::new(bytes).skip_value();
    }),
    ("params", |bytes| {
        let _ = Params::parse(bytes);
    }),
    ("tekken", |bytes| {
        let Ok(vocabulary) = Vocabulary::parse(bytes) else {
            return;
        };
        if vocabulary.index_len() < 1000 {
            let mut offsets = vec![0; vocabulary.index_len()];
            let _ = vocabulary.index(bytes, &mut offsets);
            for id in 0..vocabulary.vocab_size {
                let _ = vocabulary.piece(bytes, &offsets, id).map(Iterator::count);
            }
        }
    }),
    ("wav", |bytes| {
        for mut demuxer in [Demuxer::new(), Demuxer::seekable()] {
            let mut at = 0;
            while let Some(rest @ [_, ..]) = bytes.get(at..) {
                let mut samples = Guarded::ending(4 * 4, 0);
                let Ok(progress) = demuxer.push(rest, samples.floats()) else {
                    break;
                };
                at = progress.seek.map_or(at + progress.consumed, |offset| offset as usize);
            }
            let _ = demuxer.finish();
        }
    }),
];

/// The first bytes of an input choose how a WAV is read, and a tekken file is shortened; here only the file counts.
fn file(target: &str, input: Vec<u8>) -> Vec<u8> {
    match target {
        "tekken" => expanded(&input),
        "wav" => input.get(3..).unwrap_or_default().to_vec(),
        _ => input,
    }
}

#[test]
fn whole_files() {
    for (name, read) in READERS {
        for path in corpus(name) {
            let bytes = file(name, std::fs::read(path).unwrap());
            placed(&bytes).iter_mut().for_each(|place| read(place.bytes()));
        }
    }
}

/// A file that is cut anywhere: the reader wants more than there is.
#[test]
fn cut_files() {
    for (name, read) in READERS {
        for path in corpus(name) {
            let bytes = file(name, std::fs::read(path).unwrap());
            let mut place = Guarded::ending(bytes.len(), 0);
            for len in (0..bytes.len()).step_by(1 + bytes.len() / 60) {
                // The end stays where the page is, so the shortened file is moved up to it.
                let start = bytes.len() - len;
                place.bytes()[start..].copy_from_slice(&bytes[..len]);
                read(&place.bytes()[start..]);
            }
        }
    }
}

/// The bodies of the fuzz targets, which also compare.
#[test]
fn stored_inputs() {
    for (name, target) in TARGETS {
        for path in corpus(name) {
            let input = std::fs::read(path).unwrap();
            placed(&input)[..2].iter_mut().for_each(|place| target(place.bytes()));
        }
    }
}

/// A whole utterance: weights at both kinds of address, state and scratch between pages.
#[test]
fn sessions() {
    let engine = Engine::of(&spec());
    let options = engine.options(2);
    let samples = audio(5, 9000);
    let expected = engine.run(&options, &samples).tokens;
    let layout = Layout::new(&engine.params, &options).unwrap();
    for weights in &mut placed(&engine.weights) {
        for kernels in [Kernels::scalar(Class::Fused), Kernels::detect()] {
            let model = engine.model_at(weights.bytes()).with_kernels(kernels);
            for at_end in [true, false] {
                let guarded = |len: usize| match at_end {
                    true => Guarded::ending(4 * len, 0),
                    false => Guarded::beginning(4 * len, 0),
                };
                let (mut state, mut scratch) = (guarded(layout.state_len()), guarded(layout.scratch_len()));
                let mut memory = Memory::carve(&layout, state.floats(), scratch.floats()).unwrap();
                let mut session = Session::new(&layout);
                let (mut tokens, mut fed) = (Vec::new(), 0);
                loop {
                    match session.step(&model, &mut memory, &Serial).unwrap() {
                        Step::Token(token) => tokens.push(token.id),
                        Step::Worked => {}
                        Step::NeedAudio if fed == samples.len() => session.finish(),
                        Step::NeedAudio => fed += session.feed(&mut memory, &samples[fed..]).unwrap(),
                        Step::Done => break,
                    }
                }
                assert_eq!(tokens, expected, "{kernels:?}");
            }
        }
    }
}
