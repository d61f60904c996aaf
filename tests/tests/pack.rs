//! Quantised models through `voxtral pack`: who reads the image hears what the program hears of the directory.

use std::fs;
use std::path::Path;

use voxtral_core::format::image::{Image, PartKind};
use voxtral_core::format::utf8::Utf8Joiner;
use voxtral_core::layout::{Layout, Memory, Options};
use voxtral_core::session::Session;
use voxtral_tests::engine::{Engine, Plan, Run};
use voxtral_tests::goldens::{self, Clip};
use voxtral_tests::program::{MODEL_FILES, arg, run};

/// With words, with noise, and without a word.
const CLIPS: [usize; 3] = [2, 5, 10];

/// The text of a run, and the hash of its logits, as the program tells them.
fn heard(engine: &Engine, run: &Run) -> (String, String) {
    let mut offsets = vec![0; engine.vocabulary.index_len()];
    engine.vocabulary.index(&engine.tekken, &mut offsets).unwrap();
    let mut joiner = Utf8Joiner::new();
    let mut text = String::new();
    for &id in &run.tokens {
        for byte in engine.vocabulary.piece(&engine.tekken, &offsets, id).unwrap() {
            text.extend(joiner.push(byte));
        }
    }
    (text.trim().to_owned(), format!("{:016x}", run.hash))
}

/// The same by the program, of a directory.
fn told(directory: &Path, clip: &Clip) -> (String, String) {
    let file = goldens::clips_dir().join(&clip.file);
    let ran = run(["--debug", "-d", arg(directory), arg(&file)]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let hash = ran.stderr.lines().find_map(|line| line.split_once("logit hash "));
    (ran.stdout.trim().to_owned(), hash.expect("a hash").1.to_owned())
}

/// A session in memory of its own, which goes on from a start if there is one.
fn listen(engine: &Engine, options: &Options, start: Option<&[u8]>, samples: &[f32]) -> Run {
    let layout = Layout::new(&engine.params, options).unwrap();
    let mut state = vec![f32::NAN; layout.state_len()];
    let mut scratch = vec![f32::NAN; layout.scratch_len()];
    let mut session = Session::new(&layout);
    if let Some(start) = start {
        let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
        session.restore_silence(&engine.model(), &mut memory, start).unwrap();
    }
    Plan::default()
        .run_in(engine, &layout, &mut session, &mut state, &mut scratch, samples)
        .unwrap()
}

fn through_an_image(recipe: &str) {
    let work = tempfile::tempdir().unwrap();
    let (directory, out) = (work.path().join("model"), work.path().join("flash.bin"));
    let nano = goldens::nano_dir();
    let ran = run(["quantize", arg(&nano), arg(&directory), "--recipe", recipe]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let clips = goldens::clips();
    let expected = CLIPS.map(|index| told(&directory, &clips[index]));
    assert!(expected[0].0 == "one" && expected[2].0.is_empty(), "{expected:?}");
    let plain = told(&nano, &clips[CLIPS[0]]);
    assert_ne!(
        plain.1, expected[0].1,
        "{recipe}: the model that was packed is not quantised"
    );

    for prime in [false, true] {
        let mut args = vec!["pack", arg(&directory), arg(&out)];
        args.extend(prime.then_some("--prime"));
        let ran = run(args);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let checked = run(["inspect", "--check", arg(&out)]);
        let whole = format!("a whole packed model, {} parts", 3 + usize::from(prime));
        assert!(checked.stdout.contains(&whole), "{checked:?}");
        let bytes = fs::read(&out).unwrap();
        let image = Image::open(&bytes).unwrap();
        let shown = run(["inspect", arg(&out)]);
        for part in image.parts() {
            assert!(shown.stdout.contains(&format!("{:016x}", part.checksum)), "{shown:?}");
        }
        let files = MODEL_FILES.map(|name| fs::read(directory.join(name)).unwrap());
        assert_eq!(
            [image.weights(), image.params(), image.tekken()],
            files.each_ref().map(|file| &file[..])
        );
        let parts = image.parts().filter(|part| part.kind == PartKind::Start).count();
        assert_eq!(parts, usize::from(prime));

        let engine = Engine::new(image.weights().to_vec(), image.params(), image.tekken().to_vec());
        // As the program has them, and as a board does.
        for options in [
            engine.options(6),
            Options {
                chunk: 1,
                batch: 1,
                ..engine.options(6)
            },
        ] {
            for (index, expected) in CLIPS.into_iter().zip(&expected) {
                let run = listen(&engine, &options, image.starts().next(), &clips[index].samples);
                assert_eq!(
                    &heard(&engine, &run),
                    expected,
                    "{recipe}, {}, {options:?}",
                    clips[index].file
                );
            }
        }
    }
}

#[test]
fn weights_in_8_bits_are_heard_from_an_image() {
    through_an_image("q8");
}

#[test]
fn mixed_weights_are_heard_from_an_image() {
    through_an_image("mixed");
}

#[test]
fn weights_in_4_bits_are_heard_from_an_image() {
    through_an_image("q4");
}
