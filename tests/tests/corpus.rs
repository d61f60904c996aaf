//! Every input of the stored corpora through its fuzz target, without a fuzzer.

use std::path::Path;

use voxtral_tests::fuzzing::TARGETS;

#[test]
fn stored_inputs() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let mut known = Vec::new();
    for (name, target) in TARGETS {
        let mut files: Vec<_> = std::fs::read_dir(corpus.join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"))
            .map(|file| file.unwrap().path())
            .collect();
        files.sort();
        assert!(files.len() > 5, "{name} has a corpus");
        for file in files {
            let data = std::fs::read(&file).unwrap();
            if let Err(panic) = std::panic::catch_unwind(|| target(&data)) {
                eprintln!("by {}", file.display());
                std::panic::resume_unwind(panic);
            }
        }
        known.push(name.to_owned());
    }
    let mut stored: Vec<_> = std::fs::read_dir(&corpus)
        .unwrap()
        .map(|directory| directory.unwrap().file_name().into_string().unwrap())
        .collect();
    stored.sort();
    known.sort();
    assert_eq!(stored, known, "a corpus for each target, and no other");
}
