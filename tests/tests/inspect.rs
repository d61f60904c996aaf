//! `voxtral inspect`, and what is said of files that are something else than they should be.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;
use voxtral_core::format::params::Params;
use voxtral_core::format::safetensors::{self as st, Entry};
use voxtral_core::model::{BindError, Binding, Role, Slot};
use voxtral_tests::generator::safetensors::{Dtype, Tensor, file, raw_file};
use voxtral_tests::generator::{Spec, Weights};
use voxtral_tests::goldens;
use voxtral_tests::program::{self, Ran, run, voxtral};

const WEIGHTS: &str = "consolidated.safetensors";

fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn inspect(path: &Path, options: &[&str]) -> Ran {
    run(["inspect", arg(path)].iter().chain(options))
}

fn inspect_json(path: &Path, options: &[&str]) -> Value {
    let ran = inspect(path, &[options, &["--json"]].concat());
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// A directory with one file.
fn directory_with(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, bytes).unwrap();
    (directory, path)
}

/// The published layout with holes instead of weights, `len` bytes long.
fn sparse(directory: &Path, len: u64) -> PathBuf {
    let path = directory.join(WEIGHTS);
    let (header, _) = Spec::real().header(Dtype::Bf16);
    let mut file = File::create(&path).unwrap();
    file.write_all(&header).unwrap();
    file.set_len(len).unwrap();
    path
}

fn tensor(name: &str, dtype: &str, shape: &[usize], bytes: &[u8]) -> Tensor {
    Tensor {
        name: name.into(),
        dtype: dtype.into(),
        shape: shape.into(),
        bytes: bytes.into(),
    }
}

#[test]
fn the_table_tells_name_dtype_shape_elements_bytes_and_offset() {
    let tensors = [
        tensor("b.weight", "BF16", &[2, 3], &[0; 12]),
        tensor("a", "F32", &[], &[0; 4]),
        tensor("c", "F4", &[4], &[0; 2]),
        tensor("none", "U8", &[0, 7], &[]),
    ];
    let (_directory, path) = directory_with("x", &file(&tensors));
    let start = fs::metadata(&path).unwrap().len() - 18;
    let ran = inspect(&path, &[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let rows: Vec<Vec<&str>> = ran
        .stdout
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    let offset = |by: u64| (start + by).to_string();
    assert_eq!(
        rows,
        [
            ["name", "dtype", "shape", "elements", "bytes", "offset"],
            ["b.weight", "BF16", "[2, 3]", "6", "12", &offset(0)],
            ["a", "F32", "[]", "1", "4", &offset(12)],
            ["c", "F4", "[4]", "4", "2", &offset(16)],
            ["none", "U8", "[0, 7]", "0", "0", &offset(18)],
        ]
    );
    let widths: Vec<usize> = ran.stdout.lines().map(|line| line.chars().count()).collect();
    assert!(
        widths.windows(2).all(|pair| pair[0] == pair[1]),
        "columns: {}",
        ran.stdout
    );

    let ran = inspect(&path, &["--prefix", "no"]);
    assert_eq!(ran.stdout.lines().count(), 2);
    assert_eq!(
        inspect_json(&path, &["--prefix", "b."])["files"][0]["tensors"][0]["name"],
        "b.weight"
    );
}

/// The same tensors as the reference implementation finds.
#[test]
fn json_is_what_the_reference_reads() {
    let path = goldens::nano_dir().join(WEIGHTS);
    let bytes = fs::read(&path).unwrap();
    let reference = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let value = inspect_json(&path, &[]);
    let facts = &value["files"][0];
    assert_eq!(facts["bytes"], bytes.len());
    assert_eq!(facts["tensor_count"], reference.len());
    let header = facts["header_bytes"].as_u64().unwrap() as usize;
    assert_eq!(header as u64, u64::from_le_bytes(bytes[..8].try_into().unwrap()));
    let tensors = facts["tensors"].as_array().unwrap();
    assert_eq!(tensors.len(), reference.len());
    for tensor in tensors {
        let expected = reference.tensor(tensor["name"].as_str().unwrap()).unwrap();
        let offset = expected.data().as_ptr() as usize - bytes.as_ptr() as usize;
        assert_eq!(tensor["offset"], offset);
        assert_eq!(tensor["bytes"], expected.data().len());
        assert_eq!(tensor["elements"], expected.shape().iter().product::<usize>());
        assert_eq!(tensor["shape"], Value::from(expected.shape()));
        assert_eq!(tensor["dtype"], expected.dtype().to_string());
    }
    let keys: Vec<&String> = tensors[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["bytes", "dtype", "elements", "name", "offset", "shape"]);
}

#[test]
fn the_summary_of_the_published_layout_is_exact() {
    let directory = tempfile::tempdir().unwrap();
    let path = sparse(directory.path(), 8_859_462_744);
    let value = inspect_json(&path, &["--summary"]);
    assert_eq!(value["files"][0]["bytes"], 8_859_462_744u64);
    assert_eq!(value["files"][0]["header_bytes"], 104_016);
    assert_eq!(
        (&value["tensors"], &value["elements"]),
        (&711.into(), &4_429_679_360u64.into())
    );
    assert_eq!(value["bytes"], 8_859_358_720u64);
    let groups: Vec<(&str, u64, u64)> = value["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| {
            let number = |key: &str| group[key].as_u64().unwrap();
            (group["prefix"].as_str().unwrap(), number("tensors"), number("bytes"))
        })
        .collect();
    let module = |name: &str| format!("mm_streams_embeddings.embedding_module.{name}");
    assert_eq!(
        groups,
        [
            ("layers", 286, 6_062_923_776),
            (&module("audio_language_projection"), 2, 50_331_648),
            (&module("tok_embeddings"), 1, 805_306_368),
            (&module("whisper_encoder.conv_layers"), 4, 10_818_560),
            (&module("whisper_encoder.transformer.layers"), 416, 1_929_969_664),
            (&module("whisper_encoder.transformer.norm"), 1, 2560),
            ("norm", 1, 6144),
        ]
    );
    let text = inspect(directory.path(), &["--summary"]).stdout;
    for word in ["8859462744 bytes", "8.25 GiB", "104016", "711", "4429679360", "BF16"] {
        assert!(text.contains(word), "{word} is not in {text}");
    }
}

#[test]
fn metadata_is_shown_and_kept_whole_in_json() {
    let long = "é".repeat(500);
    let header = format!(r#"{{"__metadata__":{{"format":"pt","x":"{long}","\u001b":"a\nb"}}}}"#);
    let (_directory, path) = directory_with("x", &raw_file(&header, &[]));
    let text = inspect(&path, &["--summary"]).stdout;
    assert!(
        text.contains(r#"format: "pt""#) && text.contains("(and 400 characters more)"),
        "{text}"
    );
    assert!(text.contains(r#""\u{1b}": "a\nb""#), "{text}");
    let metadata = &inspect_json(&path, &[])["files"][0]["metadata"];
    assert_eq!(metadata["x"], long);
    assert_eq!(metadata["\u{1b}"], "a\nb");
}

/// S11: names are any text. None steers a terminal, none is cut, none looks like another.
#[test]
fn s11_names_are_printed_safely() {
    let long = "n".repeat(10_000);
    let names = [
        "",
        " ",
        "\0",
        "a b",
        "\"\"",
        "a\\u{1b}",
        "a\u{1b}",
        "\u{1b}]0;title\u{7}",
        "\u{9b}31m",
        "x\ny",
        "\u{202e}gnp",
        "zero\u{200b}width",
        "größe.重み",
        &long,
    ];
    let tensors: Vec<Tensor> = names.iter().map(|name| tensor(name, "U8", &[1], &[0])).collect();
    let (_directory, path) = directory_with("x", &file(&tensors));
    let stdout = inspect(&path, &[]).stdout;
    assert_eq!(stdout.lines().count(), 1 + names.len());
    let unsafe_char = |c: char| c.is_control() && c != '\n' || "\u{202e}\u{200b}".contains(c);
    assert!(!stdout.contains(unsafe_char), "{stdout}");
    let printed: std::collections::HashSet<&str> = stdout
        .lines()
        .map(|line| line.split("  U8").next().unwrap().trim_end())
        .collect();
    assert_eq!(printed.len(), 1 + names.len(), "each has its own look");
    for name in [
        "\"\"",
        "\" \"",
        r#""\u{0}""#,
        r#""a\\u{1b}""#,
        r#""a\u{1b}""#,
        "größe.重み",
        &long,
    ] {
        assert!(printed.contains(name), "{name} is not in {stdout}");
    }
    // In JSON they are what they are.
    let value = inspect_json(&path, &[]);
    let listed = value["files"][0]["tensors"].as_array().unwrap().iter();
    assert_eq!(
        listed
            .map(|tensor| tensor["name"].as_str().unwrap())
            .collect::<Vec<_>>(),
        names
    );
    // One of them can be asked for.
    assert_eq!(inspect(&path, &["--stats", "größe"]).code, Some(1));
}

/// The first fault, where, and what to do; status 1.
#[test]
fn check_tells_the_first_fault_with_its_byte() {
    let good = file(&[tensor("a", "F32", &[2], &[0; 8]), tensor("b", "U8", &[3], &[0; 3])]);
    let (_directory, path) = directory_with("x", &good);
    let ran = inspect(&path, &["--check"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(
        ran.stdout.contains("2 tensors") && ran.stdout.contains(&good.len().to_string()),
        "{ran:?}"
    );
    assert_eq!(inspect_json(&path, &["--check"])["ok"], true);

    let find = |bytes: &[u8], text: &str| {
        bytes
            .windows(text.len())
            .position(|part| part == text.as_bytes())
            .unwrap()
    };
    let entry =
        |dtype: &str, end: usize| format!(r#"{{"name":{{"dtype":"{dtype}","shape":[4],"data_offsets":[0,{end}]}}}}"#);
    let unknown = raw_file(&entry("F33", 16), &[0; 16]);
    let size = raw_file(&entry("F32", 15), &[0; 15]);
    let overlap = raw_file(
        r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"bb":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}"#,
        &[0; 5],
    );
    let json = raw_file("{\"a\":}", &[]);
    let long = [&good[..], b"more"].concat();
    let cases: [(&[u8], usize, &[&str]); 6] = [
        (&good[..good.len() - 1], good.len() - 1, &["header wants", "curl"]),
        (&long, good.len(), &["trailing", "download"]),
        (
            &unknown,
            find(&unknown, "\"F33"),
            &["`name`", "unknown dtype", "`F33`", "safetensors library"],
        ),
        (&size, find(&size, "name"), &["16 bytes", "15"]),
        (&overlap, find(&overlap, "bb"), &["overlap", "`bb`"]),
        (&json, find(&json, "}"), &["expected a value", "damaged"]),
    ];
    for (bytes, offset, words) in cases {
        fs::write(&path, bytes).unwrap();
        let place = format!("fault at byte {offset}:");
        inspect(&path, &["--check"]).assert_refused(&[words, &[&place, arg(&path)]].concat());
        let value = inspect_json(&path, &["--check"]);
        assert_eq!(
            (&value["ok"], &value["offset"]),
            (&false.into(), &offset.into()),
            "{value}"
        );
        assert!(
            value["hint"].is_string() && value["fault"].as_str().unwrap().contains(words[0]),
            "{value}"
        );
        // Other views of a file with a fault are refused alike.
        inspect(&path, &[]).assert_refused(words);
    }
}

#[test]
fn stats_are_those_of_the_values() {
    let values: Vec<f64> = (0..3000).map(|i| f64::from(i % 101) / 8.0 - 5.0).collect();
    let mean = values.iter().sum::<f64>() / 3000.0;
    let rms = (values.iter().map(|x| x * x).sum::<f64>() / 3000.0).sqrt();
    let mut bytes: [Vec<u8>; 3] = Default::default();
    for &value in &values {
        // Every one of them is exact in all three.
        let single = value as f32;
        bytes[0].extend(&single.to_le_bytes()[2..]);
        bytes[1].extend(half::f16::from_f32(single).to_le_bytes());
        bytes[2].extend(single.to_le_bytes());
    }
    let mut tensors: Vec<Tensor> = ["BF16", "F16", "F32"]
        .iter()
        .zip(&bytes)
        .map(|(dtype, bytes)| tensor(dtype, dtype, &[30, 100], bytes))
        .collect();
    tensors.push(tensor("no numbers", "I64", &[1], &[0; 8]));
    tensors.push(tensor("none", "F32", &[0], &[]));
    let (_directory, path) = directory_with("x", &file(&tensors));
    for dtype in ["BF16", "F16", "F32"] {
        let value = inspect_json(&path, &["--stats", dtype]);
        assert_eq!((&value["min"], &value["max"]), (&(-5.0).into(), &7.5.into()));
        assert!((value["mean"].as_f64().unwrap() - mean).abs() < 1e-12);
        assert!((value["rms"].as_f64().unwrap() - rms).abs() < 1e-12);
        assert_eq!(
            (&value["elements"], &value["nan"], &value["zero"]),
            (&3000.into(), &0.into(), &30.into())
        );
        let histogram = value["histogram"].as_array().unwrap();
        assert_eq!(histogram.iter().map(|count| count.as_u64().unwrap()).sum::<u64>(), 3000);
        let text = inspect(&path, &["--stats", dtype]).stdout;
        assert!(text.contains("[30, 100]") && text.contains("####"), "{text}");
    }
    assert_eq!(inspect_json(&path, &["--stats", "none"])["mean"], Value::Null);
    inspect(&path, &["--stats", "no numbers"]).assert_refused(&["`no numbers`", "I64"]);
    inspect(&path, &["--stats", "F64"]).assert_refused(&["\"F64\"", "no tensor"]);
}

/// Everything that is wrong with a model, at once.
#[test]
fn model_lists_all_that_is_missing_extra_or_of_the_wrong_kind() {
    let directory = tempfile::tempdir().unwrap();
    let spec = Spec::variant('A');
    fs::write(directory.path().join("params.json"), spec.params_json()).unwrap();
    let path = directory.path().join(WEIGHTS);
    let mut tensors = spec.tensors(Dtype::Bf16);
    fs::write(&path, file(&tensors)).unwrap();
    for target in [directory.path(), &path] {
        let ran = inspect(target, &["--model"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        assert!(
            ran.stdout.contains(&format!("all {} tensors", tensors.len())),
            "{ran:?}"
        );
    }

    let index = |name: &str, tensors: &[Tensor]| tensors.iter().position(|tensor| tensor.name == name).unwrap();
    tensors.remove(index("norm.weight", &tensors));
    tensors.remove(index("layers.1.attention.wq.weight", &tensors));
    tensors
        .iter_mut()
        .find(|tensor| tensor.name == "layers.0.feed_forward.w1.weight")
        .unwrap()
        .shape
        .reverse();
    let both = tensors
        .iter_mut()
        .find(|tensor| tensor.name == "layers.0.attention.wo.weight")
        .unwrap();
    (both.dtype, both.shape) = ("I16".into(), vec![both.bytes.len() / 2]);
    tensors.push(tensor("output.weight", "BF16", &[1], &[0; 2]));
    tensors.push(tensor("layers.2.ffn_norm.weight", "BF16", &[1], &[0; 2]));
    tensors.push(tensor("mine\u{7}", "U8", &[1], &[0]));
    fs::write(&path, file(&tensors)).unwrap();
    let ran = inspect(&path, &["--model"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("7 things") && ran.stderr.lines().count() == 1,
        "{ran:?}"
    );
    let mut lines: Vec<&str> = ran.stdout.lines().collect();
    lines.sort_unstable();
    let starts = [
        "tensor \"mine\\u{7}\" is not part of the model and is ignored",
        "tensor layers.0.attention.wo.weight has dtype I16",
        "tensor layers.0.attention.wo.weight has shape [12288], params.json makes it [96, 128]",
        "tensor layers.0.feed_forward.w1.weight has shape [96, 192], params.json makes it [192, 96]",
        "tensor layers.1.attention.wq.weight is missing",
        "tensor layers.2.ffn_norm.weight is in the file, but",
        "tensor norm.weight is missing",
        "tensor output.weight is in the file, but",
    ];
    assert_eq!(lines.len(), starts.len(), "{ran:?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line} is not {start}");
    }
    let value = inspect_json(&path, &["--model"]);
    assert_eq!(
        (value["faults"].as_array().unwrap().len(), &value["ok"]),
        (7, &false.into())
    );
    assert_eq!(value["ignored"], serde_json::json!(["mine\u{7}"]));

    fs::remove_file(directory.path().join("params.json")).unwrap();
    inspect(&path, &["--model"]).assert_refused(&["params.json", "No such file"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// What [`Binding::new`] says is the first of the faults, and without faults it is content.
    #[test]
    fn faults_begin_with_what_binding_says(changes in proptest::collection::vec((0..7u8, any::<proptest::sample::Index>()), 0..4)) {
        let spec = Spec::variant('E');
        let params = Params::parse(&spec.params_json()).unwrap();
        let mut tensors = spec.tensors(Dtype::Bf16);
        for (change, index) in changes {
            let at = index.index(tensors.len());
            let extra = match change {
                0 => { tensors.remove(at); continue }
                1 => { tensors[at].shape.push(1); continue }
                2 => { tensors[at].dtype = "I16".into(); continue }
                3 => "output.weight",
                4 => "layers.1.ffn_norm.weight",
                5 => "model.layers.0.self_attn.q_proj.weight",
                _ => "anything.else",
            };
            if tensors.iter().all(|tensor| tensor.name != extra) {
                tensors.push(tensor(extra, "BF16", &[1], &[0; 2]));
            }
        }
        let bytes = file(&tensors);
        let mut entries = vec![Entry::default(); tensors.len()];
        let header = st::parse(&bytes, &mut entries).unwrap();
        let mut faults = vec![];
        Binding::faults(&header, &params, |fault| faults.push(fault));
        let mut slots = vec![Slot::default(); Binding::slots(&params)];
        let bound = Binding::new(&header, &params, &mut slots).err();
        prop_assert_eq!(bound, faults.first().copied());
        let missing = faults.iter().filter(|fault| matches!(fault, BindError::Missing { .. })).count();
        let there = Role::all(&params).filter(|role| header.get(&role.to_string()).is_some()).count();
        prop_assert_eq!(missing + there, Role::all(&params).count());
    }
}

#[test]
fn sharded_checkpoints_are_listed_and_held_to_their_index() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let shard = |number: u32| format!("model-{number:05}-of-00002.safetensors");
    let index = path("model.safetensors.index.json");
    fs::write(path(&shard(1)), file(&[tensor("a.x", "U8", &[2], &[0; 2])])).unwrap();

    inspect(directory.path(), &[]).assert_refused(&[&shard(2), "is missing"]);
    fs::write(path(&shard(2)), file(&[tensor("b.x", "F16", &[1], &[0; 2])])).unwrap();
    let map = |a: &str, b: &str| format!(r#"{{"metadata":{{}},"weight_map":{{"a.x":"{a}","b.x":"{b}"}}}}"#);
    for with_index in [false, true] {
        if with_index {
            fs::write(&index, map(&shard(1), &shard(2))).unwrap();
        }
        let ran = inspect(directory.path(), &[]);
        let names: Vec<&str> = ran
            .stdout
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert_eq!(names.len(), 5, "{ran:?}");
        assert!(
            names[1].ends_with(&(shard(1) + ":")) && names[3].ends_with(&(shard(2) + ":")),
            "{ran:?}"
        );
        assert_eq!((names[2], names[4]), ("a.x", "b.x"));
        assert_eq!(inspect(directory.path(), &["--check"]).code, Some(0));
    }
    let value = inspect_json(&index, &["--summary"]);
    assert_eq!(
        (value["files"].as_array().unwrap().len(), &value["tensors"]),
        (2, &2.into())
    );
    assert_eq!(inspect_json(&index, &["--stats", "b.x"])["elements"], 1);
    inspect(directory.path(), &["--model"]).assert_refused(&["2 files", "consolidated.safetensors"]);

    for (json, words) in [
        (map(&shard(2), &shard(2)), &["\"a.x\"", "no file"][..]),
        (map(&shard(1), &shard(1)), &["\"b.x\"", "no file"]),
        (map("../etc/passwd", &shard(2)), &["../etc/passwd", "a file's name"]),
        (map("/etc/passwd", &shard(2)), &["/etc/passwd", "a file's name"]),
        (
            map("other.safetensors", &shard(2)),
            &["other.safetensors", "No such file"],
        ),
        (map(&shard(2), &shard(1)), &["is in"]),
        (r#"{"metadata":{}}"#.into(), &["weight_map"]),
        ("<html>".into(), &["HTML", "model.safetensors.index.json"]),
    ] {
        fs::write(&index, json).unwrap();
        inspect(&index, &["--check"]).assert_refused(words);
    }
    fs::write(&index, map(&shard(1), &shard(2))).unwrap();
    fs::write(
        path(&shard(2)),
        file(&[tensor("a.x", "U8", &[1], &[0]), tensor("b.x", "U8", &[1], &[0])]),
    )
    .unwrap();
    inspect(&index, &["--check"]).assert_refused(&["\"a.x\"", "both", &shard(1), &shard(2)]);
    fs::write(
        path(&shard(2)),
        file(&[tensor("c", "U8", &[1], &[0]), tensor("b.x", "U8", &[1], &[0])]),
    )
    .unwrap();
    inspect(&index, &["--check"]).assert_refused(&["lacks tensor \"c\""]);

    let empty = tempfile::tempdir().unwrap();
    inspect(empty.path(), &[]).assert_refused(&["no safetensors file"]);
    inspect(&empty.path().join("x"), &[]).assert_refused(&["No such file"]);
}

/// Item 5: files that are something else, by themselves and as a model's weights.
#[test]
fn item_5_files_of_other_kinds_are_recognised() {
    let cases: [(&[u8], &[&str]); 25] = [
        (b"", &["an empty file", "curl"]),
        (&[0; 10_000], &["a file of zeros", "stopped", "curl"]),
        (b"<!DOCTYPE html>\n<html><head><title>404", &["an HTML page", "curl"]),
        (b"\n  <!doctype HTML PUBLIC>", &["an HTML page"]),
        (b"\xEF\xBB\xBF<html lang=en>", &["an HTML page"]),
        (b"<?xml version=\"1.0\"?><html xmlns=\"\">", &["an HTML page"]),
        (
            b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>",
            &["an XML message", "curl"],
        ),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:263f\nsize 8859462744\n",
            &["Git LFS pointer", "git lfs pull"],
        ),
        (
            b"\x1F\x8B\x08\x00\x00\x00\x00\x00\x00\x03 and more",
            &["gzip", "gunzip"],
        ),
        (b"\xFD7zXZ\x00\x00\x04 and more", &["xz", "unxz"]),
        (b"\x28\xB5\x2F\xFD\x04\x00 and more", &["zstd", "unzstd"]),
        (b"BZh91AY&SY and more", &["bzip2", "bunzip2"]),
        (b"GGUF\x03\0\0\0\x10\0\0\0\0\0\0\0", &["GGUF", "original safetensors"]),
        (b"lmgg\x01\0\0\0 and more", &["GGML"]),
        (
            b"PK\x03\x04\0\0\x08\x08\0\0\0\0\0\0\x10\0\x12\0archive/data.pklFB\x12",
            &["PyTorch", "safetensors"],
        ),
        (
            b"PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0\0\0readme.txt",
            &["a ZIP archive", "unzip"],
        ),
        (
            b"\x80\x02\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19.",
            &["PyTorch"],
        ),
        (b"\x80\x04\x95\x10\0\0\0\0\0\0\0}", &["PyTorch"]),
        (b"\x89HDF\r\n\x1A\n and more", &["HDF5"]),
        (b"\x93NUMPY\x01\0v\0", &["NumPy"]),
        (b"\x08\x07\x12\x07pytorch\x1A\x052.1.0", &["ONNX"]),
        (b"\x1C\0\0\0TFL3\0\0\0\0", &["TensorFlow Lite"]),
        (b"{\"error\":\"Repository not found\"}", &["a JSON document", "curl"]),
        (
            b"Access to this model is restricted.\nLog in.",
            &["“Access to this model is restricted.”", "curl"],
        ),
        (b"\x07\0\0\0\0\0\0\0<!--x-->", &["does not begin", "curl"]),
    ];
    let model = tempfile::tempdir().unwrap();
    for file in ["params.json", "tekken.json"] {
        fs::copy(goldens::nano_dir().join(file), model.path().join(file)).unwrap();
    }
    let weights = model.path().join(WEIGHTS);
    let clip = goldens::clips_dir().join(&goldens::clips()[0].file);
    let mut tar = vec![0; 1024];
    tar[..5].copy_from_slice(b"model");
    tar[257..262].copy_from_slice(b"ustar");
    for (bytes, words) in cases.into_iter().chain([(&tar[..], &["a tar archive", "tar -xf"][..])]) {
        fs::write(&weights, bytes).unwrap();
        let words = [words, &[WEIGHTS]].concat();
        inspect(model.path(), &["--check"]).assert_refused(&words);
        run(["-d", arg(model.path()), arg(&clip)]).assert_refused(&words);
        let value = inspect_json(&weights, &["--check"]);
        assert!(value["offset"].is_u64() && value["hint"].is_string(), "{value}");
    }
    // A file of another name is not fetched with this model's address.
    let other = model.path().join("other.safetensors");
    fs::write(&other, "<html>").unwrap();
    assert!(!inspect(&other, &[]).stderr.contains("curl"));
}

/// Item 5: a download that stopped after 3 GB, and the command that goes on with it.
#[test]
fn item_5_a_download_cut_at_3_gb_is_told_how_to_go_on() {
    let directory = tempfile::tempdir().unwrap();
    sparse(directory.path(), 3_000_000_000);
    let words = [
        "3000000000",
        "8859462744",
        "download was cut",
        "curl --fail -L -C -",
        WEIGHTS,
    ];
    inspect(directory.path(), &["--check"]).assert_refused(&[&words[..], &["fault at byte 3000000000"]].concat());
    for file in ["params.json", "tekken.json"] {
        fs::copy(goldens::nano_dir().join(file), directory.path().join(file)).unwrap();
    }
    let clip = goldens::clips_dir().join(&goldens::clips()[0].file);
    run(["-d", arg(directory.path()), arg(&clip)]).assert_refused(&words);
    // Cut within the header.
    fs::OpenOptions::new()
        .write(true)
        .open(directory.path().join(WEIGHTS))
        .unwrap()
        .set_len(5000)
        .unwrap();
    inspect(directory.path(), &[]).assert_refused(&["5000", "104024", "curl --fail -L -C -"]);
}

/// Item 5: the small files of a model, too.
#[test]
fn item_5_json_files_of_other_kinds_are_recognised() {
    let clip = goldens::clips_dir().join(&goldens::clips()[0].file);
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:8434\nsize 14910348\n";
    for name in ["params.json", "tekken.json"] {
        let model = tempfile::tempdir().unwrap();
        for file in [WEIGHTS, "params.json", "tekken.json"] {
            fs::copy(goldens::nano_dir().join(file), model.path().join(file)).unwrap();
        }
        for (text, words) in [
            (pointer, ["Git LFS pointer", "git lfs pull"]),
            ("<html>", ["HTML", "curl"]),
        ] {
            fs::write(model.path().join(name), text).unwrap();
            run(["-d", arg(model.path()), arg(&clip)]).assert_refused(&[&words[..], &[name]].concat());
        }
        // JSON that is merely wrong keeps its own words.
        fs::write(model.path().join(name), "{\"a\": 1}").unwrap();
        run(["-d", arg(model.path()), arg(&clip)]).assert_refused(&[name, "is missing"]);
    }
}

/// The shortest of some runs.
fn fastest(runs: usize, mut run: impl FnMut()) -> Duration {
    let time = |_| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..runs).map(time).min().unwrap()
}

/// Item 3, anonymous memory: the summary of the full-size file in 8 MB of data, stack aside. The limit counts
/// addresses, so it is stricter than what is resident.
#[cfg(target_os = "linux")]
#[test]
fn item_3_the_summary_of_the_full_size_takes_less_than_8_mb() {
    let directory = tempfile::tempdir().unwrap();
    let path = sparse(directory.path(), 8_859_462_744);
    let limited = |kib: usize, mode: &str| {
        let shell = format!("ulimit -d {kib}; exec \"$0\" inspect \"$1\" {mode}");
        let output = Command::new("sh")
            .args(["-c", &shell, arg(program::path()), arg(&path)])
            .output();
        Ran::from(output.unwrap())
    };
    for mode in ["--summary", "--check", "", "--json", "--stats norm.weight"] {
        let ran = limited(8 << 10, mode);
        assert_eq!(ran.code, Some(0), "{mode}: {}", ran.stderr);
    }
    // The limit bites.
    assert_ne!(limited(64, "--summary").code, Some(0));
}

/// Item 3, time: the summary in 3 times a bare process start and 2 ms, the engine ready for audio in 40 ms. The bench
/// `ready` has the whole of it.
#[cfg(target_os = "linux")]
#[test]
fn item_3_the_full_size_is_ready_in_milliseconds() {
    if cfg!(debug_assertions) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    Spec::real()
        .write(directory.path(), Dtype::Bf16, Weights::Sparse)
        .unwrap();
    let spawn = |command: &mut Command| {
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
        assert!(status.success());
    };
    // One after the other, so that other work on the machine meets both.
    program::path();
    let (mut bare, mut summary) = (Duration::MAX, Duration::MAX);
    for _ in 0..40 {
        bare = bare.min(fastest(1, || spawn(&mut Command::new("true"))));
        summary = summary.min(fastest(1, || {
            spawn(voxtral().args(["inspect", "--summary"]).arg(directory.path()))
        }));
    }
    assert!(
        summary <= 3 * bare + Duration::from_millis(2),
        "{summary:?}, bare {bare:?}"
    );

    // Of the engine the time that it computes, since nothing of it waits.
    let computing = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let ready = (0..10).map(|_| {
        let start = computing();
        let model = voxtral::Model::open(directory.path()).unwrap();
        let options = voxtral_core::layout::Options::from(model.vocabulary());
        let pool = voxtral::Pool::new(2);
        voxtral::Transcriber::new(&model, &options, &pool).unwrap();
        computing() - start
    });
    let ready = ready.min().unwrap();
    println!("process start {bare:?}, summary {summary:?}, ready for audio {ready:?}");
    assert!(ready + bare < Duration::from_millis(40), "{ready:?}");
}

/// Item 4: headers of 100 MB, read in memory for the entries alone.
#[cfg(target_os = "linux")]
#[test]
fn item_4_the_largest_headers_are_read_in_time_and_memory_for_their_entries() {
    const MOST: usize = 100_000_000;
    if cfg!(debug_assertions) {
        return;
    }
    let entry = |name: &str| format!(r#""{name}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#);
    let many = |prefix: &str, name: &dyn Fn(usize) -> String| {
        let mut header = String::with_capacity(MOST);
        header.push('{');
        let mut count = 0;
        loop {
            let next = entry(&format!("{prefix}{}", name(count)));
            if header.len() + next.len() + 2 > MOST {
                break;
            }
            if count > 0 {
                header.push(',');
            }
            header.push_str(&next);
            count += 1;
        }
        header.push('}');
        (header, count)
    };
    // Turned round, so that they come in no order: a step that has no common divisor with the count.
    let scattered = |i: usize| format!("{:x}", (i * 1_000_003) & 0x1F_FFFF);
    let prefix = "p".repeat(10_000);
    let cases = [
        ("as many as fit", many("", &scattered)),
        ("a long prefix in common", many(&prefix, &scattered)),
        ("one name", (format!("{{{}}}", entry(&"n".repeat(MOST - 60))), 1)),
    ];
    for (what, (mut header, count)) in cases {
        assert!(header.len() <= MOST);
        header.extend(std::iter::repeat_n(' ', MOST - header.len()));
        let (_directory, path) = directory_with("x", &raw_file(&header, &[]));
        // What the program takes anyway, and the entries.
        let kib = (8 << 10) + count * size_of::<Entry>() / 1024;
        let shell = format!("ulimit -d {kib}; exec \"$0\" inspect \"$1\" --check --json");
        let start = Instant::now();
        let ran = Ran::from(
            Command::new("sh")
                .args(["-c", &shell, arg(program::path()), arg(&path)])
                .output()
                .unwrap(),
        );
        let took = start.elapsed();
        println!("{what}: {count} tensors, {took:.2?}");
        assert_eq!(ran.code, Some(0), "{what}: {}", ran.stderr);
        let value: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(value["files"][0]["tensors"], count, "{what}");
        // On a busy machine, too; the square of these counts would take hours.
        assert!(took < Duration::from_secs(100), "{what}: {took:?}");

        // One byte more is one too many, told before any of it is read.
        header.push(' ');
        fs::write(&path, raw_file(&header, &[])).unwrap();
        inspect(&path, &["--check"]).assert_refused(&["100000001", "100000000 allowed"]);
    }
}

/// M5: whoever reads the list may stop reading.
#[cfg(unix)]
#[test]
fn m5_a_closed_pipe_ends_the_list_quietly() {
    let directory = tempfile::tempdir().unwrap();
    let path = sparse(directory.path(), 8_859_462_744);
    let mut child = voxtral()
        .args(["inspect", "--json", arg(&path)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::with_capacity(16, child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(141), &b""[..]));
}

#[test]
fn what_is_shown_is_one_thing() {
    let path = goldens::nano_dir();
    for options in [
        &["--summary", "--check"][..],
        &["--model", "--stats", "x"],
        &["--check", "--prefix", "x"],
    ] {
        assert_eq!(inspect(&path, options).code, Some(2), "{options:?}");
    }
}

/// `--check` of a model directory looks at all three files, and whether they are of one model.
#[test]
fn check_of_a_directory_is_of_the_whole_model() {
    let directory = program::model();
    let path = program::arg(directory.path());
    let ran = run(["inspect", "--check", path]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for (file, contents, words) in [
        ("params.json", &b"Entry not found"[..], &["params.json", "curl"][..]),
        ("tekken.json", b"<html>", &["tekken.json", "curl"]),
    ] {
        let directory = program::model();
        fs::write(directory.path().join(file), contents).unwrap();
        let ran = run(["inspect", "--check", program::arg(directory.path())]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(words.iter().all(|word| ran.stderr.contains(word)), "{ran:?}");
        fs::remove_file(directory.path().join(file)).unwrap();
        let ran = run(["inspect", "--check", program::arg(directory.path())]);
        assert!(ran.code == Some(1) && ran.stderr.contains("is missing"), "{ran:?}");
    }
    // An index of the vocabulary is what transcription needs, and nothing else looks at.
    let tekken = directory.path().join("tekken.json");
    let damaged = fs::read_to_string(&tekken).unwrap().replacen("\"AQ==\"", "\"AQ=!\"", 1);
    fs::write(&tekken, damaged).unwrap();
    let ran = run(["inspect", "--check", path]);
    assert!(ran.code == Some(1) && ran.stderr.contains("tekken.json"), "{ran:?}");
}

/// A checkpoint of the Hugging Face layout in place of the model is told at once, whatever else is missing.
#[test]
fn s19_directories_of_the_hugging_face_layout_are_told_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("config.json"), "{}").unwrap();
    fs::write(path.join("model.safetensors"), "").unwrap();
    let (clip, _) = program::clip(0);
    let ran = run(["-d", program::arg(path), program::arg(&clip)]);
    ran.assert_refused(&["Hugging Face", "consolidated.safetensors", "curl"]);
}
