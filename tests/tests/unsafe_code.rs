//! The table in `UNSAFE.md` lists every use of `unsafe`, and what reaches it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The ways in which a row can say that its code is reached, and where they are kept.
const WAYS: [(&str, &str); 8] = [
    ("bench", "tests/benches/kernels.rs"),
    ("guard", "tests/tests/guard.rs"),
    ("asan", "ci/asan.sh"),
    ("valgrind", "ci/valgrind.sh"),
    ("itself", "tests/tests/allocations.rs"),
    ("linked", "ci/link-cortexm.sh"),
    ("booted", "ci/firmware.sh"),
    ("C", "ci/c.sh"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Uses of the word in code: comments and the names of lints do not count.
fn uses(code: &str) -> usize {
    code.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .filter(|word| *word == concat!("un", "safe"))
        .count()
}

fn count_below(directory: &Path, found: &mut BTreeMap<String, usize>) {
    for item in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = item.path();
        if item.file_type().unwrap().is_dir() {
            if item.file_name() != "target" {
                count_below(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let count = uses(&fs::read_to_string(&path).unwrap());
            if count > 0 {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
                found.insert(name, count);
            }
        }
    }
}

#[test]
fn every_use_is_in_the_table() {
    let mut found = BTreeMap::new();
    for part in ["core", "host", "tests"] {
        count_below(&root().join(part), &mut found);
    }
    let mut listed = BTreeMap::new();
    let table = fs::read_to_string(root().join("tests/UNSAFE.md")).unwrap();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let ["", file, count, purpose, reason, reached, ""] = cells[..] else {
            panic!("not a row of five cells: {row}");
        };
        assert!(!purpose.is_empty() && !reason.is_empty(), "{row}");
        *listed.entry(file.trim_matches('`').to_owned()).or_insert(0) += count.parse::<usize>().expect(row);
        let way = reached.split([',', ' ']).next().unwrap();
        assert!(
            WAYS.iter().any(|known| known.0 == way),
            "reached by nothing that is known: {row}"
        );
    }
    assert_eq!(found, listed, "the code (left) and tests/UNSAFE.md (right)");
    for (_, file) in WAYS {
        assert!(root().join(file).is_file(), "{file}");
    }
}
