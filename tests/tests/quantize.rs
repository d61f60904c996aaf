//! `voxtral quantize` and `voxtral compare`: what is written, what it says of itself, and what it costs.
//!
//! Word errors and tables are printed with `--nocapture`.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use safetensors::SafeTensors;
use serde_json::Value;
use tempfile::TempDir;
use voxtral::{Decided, Error, Listener, Model, Pool, Transcriber};
use voxtral_core::layout::Options;
use voxtral_core::model::{NoProbe, Probe, Stage};
use voxtral_tests::generator::safetensors::Dtype;
use voxtral_tests::goldens::{self, Case};
use voxtral_tests::program::{MODEL_FILES, arg, clip, model, run, voxtral};

const RECIPES: [&str; 3] = ["q8", "mixed", "q4"];
/// A tensor of the small model, 256 rows of 96.
const W1: &str = "mm_streams_embeddings.embedding_module.whisper_encoder.transformer.layers.1.feed_forward.w1.weight";

/// The small model by each recipe, written once, and what was printed.
fn quantised(recipe: &str) -> &'static (TempDir, String) {
    static ALL: [OnceLock<(TempDir, String)>; 3] = [const { OnceLock::new() }; 3];
    let index = RECIPES.iter().position(|known| *known == recipe).expect("a recipe");
    ALL[index].get_or_init(|| {
        let out = tempfile::tempdir().expect("a temporary directory");
        // A directory that is there and empty is as good as none.
        let ran = run([
            "quantize",
            arg(&goldens::nano_dir()),
            arg(out.path()),
            "--recipe",
            recipe,
        ]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        (out, ran.stdout)
    })
}

fn directory(recipe: &str) -> &'static Path {
    quantised(recipe).0.path()
}

/// All clips, as paths.
fn clips() -> Vec<PathBuf> {
    let clips = goldens::clips();
    clips.iter().map(|clip| goldens::clips_dir().join(&clip.file)).collect()
}

fn compare(a: &Path, b: &Path, files: &[PathBuf]) -> Value {
    let files = files.iter().map(|file| arg(file));
    let ran = run(["compare", "--json", arg(a), arg(b)].into_iter().chain(files));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).expect("JSON")
}

fn texts(directory: &Path, audio: &[Vec<f32>]) -> Vec<String> {
    let model = Model::open(directory).expect("a model");
    let pool = Pool::new(1);
    let mut transcriber = Transcriber::new(&model, &Options::from(model.vocabulary()), &pool).expect("memory");
    let text = |samples: &Vec<f32>| {
        transcriber.reset();
        let mut text = Vec::new();
        transcriber.push(samples, &mut text).expect("samples");
        transcriber.finish(&mut text).expect("an end");
        String::from_utf8(text).expect("UTF-8").trim().to_string()
    };
    audio.iter().map(text).collect()
}

/// Insertions, deletions and replacements of words.
fn word_errors(expected: &str, found: &str) -> (usize, usize) {
    let (a, b): (Vec<_>, Vec<_>) = (
        expected.split_whitespace().collect(),
        found.split_whitespace().collect(),
    );
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i][j] = match (i, j) {
                (0, j) => j,
                (i, 0) => i,
                (i, j) => (table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]))
                    .min(table[i - 1][j] + 1)
                    .min(table[i][j - 1] + 1),
            };
        }
    }
    (a.len(), table[a.len()][b.len()])
}

/// Where weights of few bits are known to lose words: in quiet speech, and in speech that begins at once.
#[test]
fn words_are_those_of_the_original_also_where_speech_is_quiet_or_begins_at_once() {
    let as_they_are: Vec<Vec<f32>> = goldens::clips().iter().map(|clip| clip.samples.clone()).collect();
    let peak = |samples: &[f32]| samples.iter().fold(0.0f32, |peak, x| peak.max(x.abs()));
    // The loudest sample at -40 dBFS.
    let quiet = |samples: &Vec<f32>| {
        let gain = 0.01 / peak(samples).max(0.01);
        samples.iter().map(|x| x * gain).collect::<Vec<_>>()
    };
    let at_once = |samples: &Vec<f32>| {
        let threshold = 0.1 * peak(samples);
        let start = samples.iter().position(|x| x.abs() >= threshold).unwrap_or(0);
        samples[start..].to_vec()
    };
    // Word errors of q8, mixed and q4 that were measured, of some 33 words.
    let sets = [
        ("as they are", as_they_are.clone(), [0, 0, 0]),
        ("at -40 dBFS", as_they_are.iter().map(quiet).collect(), [0, 0, 4]),
        (
            "from the first sample",
            as_they_are.iter().map(at_once).collect(),
            [0, 2, 1],
        ),
    ];
    let mut wrong = Vec::new();
    for (what, audio, most) in sets {
        let expected = texts(&goldens::nano_dir(), &audio);
        assert!(
            expected.iter().filter(|text| !text.is_empty()).count() >= 8,
            "{expected:?}"
        );
        for (recipe, most) in RECIPES.into_iter().zip(most) {
            let found = texts(directory(recipe), &audio);
            let errors = expected.iter().zip(&found).map(|(a, b)| word_errors(a, b));
            let (words, errors) = errors.fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
            println!("{what}, {recipe}: {errors} word errors of {words}");
            if errors > most || recipe == "q8" && expected != found {
                wrong.push((what, recipe, expected.clone(), found));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn any_reader_reads_the_container() {
    let original = fs::read(goldens::nano_dir().join(MODEL_FILES[0])).unwrap();
    let original = SafeTensors::deserialize(&original).unwrap();
    for recipe in RECIPES {
        let bytes = fs::read(directory(recipe).join(MODEL_FILES[0])).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let (header_len, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
        let metadata = metadata.metadata().as_ref().unwrap();
        assert_eq!((8 + header_len) % 64, 0, "the data is aligned");
        assert_eq!(metadata["voxtral.recipe"], recipe);
        let names = |file: &SafeTensors| file.names().into_iter().map(String::from).collect::<HashSet<_>>();
        assert_eq!(names(&file), names(&original));
        let mut blocks = 0;
        for (name, tensor) in file.tensors() {
            let before = original.tensor(&name).unwrap();
            let Some(told) = metadata.get(&format!("voxtral.blocks.{name}")) else {
                assert_eq!(
                    (tensor.dtype(), tensor.shape()),
                    (before.dtype(), before.shape()),
                    "{name}"
                );
                assert_eq!(tensor.data(), before.data(), "{name}");
                continue;
            };
            blocks += 1;
            let (scheme, shape) = told.split_once(' ').unwrap();
            let [rows, cols] = *before.shape() else {
                panic!("{name} is a matrix")
            };
            assert_eq!(shape, format!("{rows}x{cols}"));
            let levels = match scheme {
                "q8/1" => cols,
                "q4/1" => cols / 2,
                _ => panic!("{told}"),
            };
            assert_eq!(tensor.dtype(), safetensors::Dtype::U8, "{name}");
            assert_eq!(tensor.shape(), [rows, levels + 16 * cols.div_ceil(256)], "{name}");
        }
        assert_eq!(blocks, metadata.len() - 1);
        // All matrices but the convolutions and the delay's.
        let matrices = |name: &&str| original.tensor(name).unwrap().shape().len() == 2 && !name.contains("ada_rms");
        assert_eq!(blocks, original.names().into_iter().filter(matrices).count());
        for name in &MODEL_FILES[1..] {
            let copy = fs::read(directory(recipe).join(name)).unwrap();
            assert!(copy == fs::read(goldens::nano_dir().join(name)).unwrap(), "{name}");
        }
        assert_eq!(
            fs::read_dir(directory(recipe)).unwrap().count(),
            3,
            "nothing else is left"
        );
    }
}

#[test]
fn every_tensor_is_told_with_its_bits_and_errors() {
    for (recipe, bits) in [("q8", "9.333"), ("q4", "5.333")] {
        let printed = &quantised(recipe).1;
        let row = |name: &str| {
            let line = printed.lines().find(|line| line.starts_with(name));
            line.unwrap_or_else(|| panic!("{name}: {printed}"))
                .split_whitespace()
                .map(String::from)
                .collect::<Vec<_>>()
        };
        let w1 = row(W1);
        assert_eq!((w1[1].as_str(), w1[2].as_str()), (recipe.to_uppercase().as_str(), bits));
        let [largest, rms, relative] = [3, 4, 5].map(|i| w1[i].parse::<f64>().unwrap());
        assert!(largest >= rms && rms > 0.0, "{w1:?}");
        let range = if recipe == "q8" { 0.002..0.008 } else { 0.03..0.1 };
        assert!(range.contains(&relative), "{w1:?}");
        assert_eq!(row("norm.weight")[1..], ["BF16", "16.000", "-", "-", "-"]);
        let total = printed.lines().last().unwrap();
        let len = fs::metadata(directory(recipe).join(MODEL_FILES[0])).unwrap().len();
        assert!(
            total.contains(&format!("94 tensors, 1319072 weights, {len} bytes")),
            "{total}"
        );
    }
}

#[test]
fn threads_make_no_difference() {
    let here = tempfile::tempdir().unwrap();
    for threads in ["1", "3"] {
        let out = here.path().join(threads);
        let ran = run([
            "quantize",
            arg(&goldens::nano_dir()),
            arg(&out),
            "--recipe",
            "mixed",
            "--threads",
            threads,
            "--silent",
        ]);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
        let bytes = |directory: &Path| fs::read(directory.join(MODEL_FILES[0])).unwrap();
        assert!(bytes(&out) == bytes(directory("mixed")), "{threads} threads");
    }
}

#[test]
fn the_logit_hash_is_the_same_for_any_chunk_and_threads() {
    let (file, text) = clip(2);
    for recipe in RECIPES {
        let mut hashes = HashSet::new();
        for (chunk, threads) in [("25", "1"), ("1", "2"), ("7", "3"), ("200", "2")] {
            let ran = run([
                "-d",
                arg(directory(recipe)),
                arg(&file),
                "--debug",
                "--chunk",
                chunk,
                "--threads",
                threads,
            ]);
            assert_eq!((ran.code, ran.stdout.trim()), (Some(0), text.as_str()), "{ran:?}");
            let hash = ran.stderr.lines().find(|line| line.contains("logit hash"));
            hashes.insert(hash.expect("a hash").to_string());
        }
        assert_eq!(hashes.len(), 1, "{recipe}: {hashes:?}");
    }
}

/// Refuses in one line with all of `words`, and leaves nothing behind.
fn refused(from: &Path, words: &[&str]) {
    let here = tempfile::tempdir().unwrap();
    let out = here.path().join("out");
    let ran = run(["quantize", arg(from), arg(&out), "--recipe", "q4"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    for word in words {
        assert!(ran.stderr.contains(word), "{word}: {ran:?}");
    }
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0, "{ran:?}");
}

#[test]
fn what_is_no_model_to_begin_with_is_refused() {
    refused(Path::new("/none"), &["/none"]);
    refused(directory("q8"), &["is quantised already", "original"]);
    for file in MODEL_FILES {
        let broken = model();
        fs::remove_file(broken.path().join(file)).unwrap();
        refused(broken.path(), &[file, "missing"]);
    }
    let broken = model();
    let path = broken.path().join(MODEL_FILES[0]);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    refused(broken.path(), &[MODEL_FILES[0], "byte"]);
    fs::rename(&path, broken.path().join("model.safetensors")).unwrap();
    refused(broken.path(), &["Hugging Face"]);
}

/// Found when much has been written already.
#[test]
fn a_weight_that_is_no_number_is_told_with_its_place() {
    let broken = model();
    let path = broken.path().join(MODEL_FILES[0]);
    let mut bytes = fs::read(&path).unwrap();
    let place = {
        let file = SafeTensors::deserialize(&bytes).unwrap();
        file.tensor(W1).unwrap().data().as_ptr() as usize - bytes.as_ptr() as usize
    };
    let at = place + 2 * (200 * 96 + 17);
    bytes[at..at + 2].copy_from_slice(&[0xC0, 0x7F]);
    fs::write(&path, bytes).unwrap();
    let here = tempfile::tempdir().unwrap();
    let out = here.path().join("out");
    let ran = run(["quantize", arg(broken.path()), arg(&out), "--recipe", "q4", "--silent"]);
    ran.assert_refused(&[W1, "row 200", "column 17"]);
    assert!(!out.exists());
}

#[test]
fn nothing_is_written_over() {
    for file in MODEL_FILES {
        let here = tempfile::tempdir().unwrap();
        fs::write(here.path().join(file), "mine").unwrap();
        let ran = run([
            "quantize",
            arg(&goldens::nano_dir()),
            arg(here.path()),
            "--recipe",
            "q8",
        ]);
        ran.assert_refused(&[file, "not written over"]);
        assert_eq!(fs::read(here.path().join(file)).unwrap(), b"mine");
        assert_eq!(fs::read_dir(here.path()).unwrap().count(), 1);
    }
    let original = model();
    let ran = run([
        "quantize",
        arg(original.path()),
        &format!("{}/.", arg(original.path())),
        "--recipe",
        "q8",
    ]);
    ran.assert_refused(&["is one that is read"]);
    let file = original.path().join("file");
    fs::write(&file, "mine").unwrap();
    run(["quantize", arg(original.path()), arg(&file), "--recipe", "q8"]).assert_refused(&["file"]);
    run(["quantize", arg(original.path()), "/none/out", "--recipe", "q8"]).assert_refused(&["/none/out"]);
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let here = tempfile::tempdir().unwrap();
    let out = here.path().join("out");
    let mut child = voxtral()
        .args([
            "quantize",
            arg(&goldens::nano_dir()),
            arg(&out),
            "--recipe",
            "q4",
            "--threads",
            "1",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The headings come when the file is open, some tenths of a second before it is whole.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("tensor"));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0);
}

#[test]
fn rows_that_have_no_blocks_stay_and_are_told() {
    let case = Case::read('A', "speech_a4");
    let mut spec = case.spec();
    spec.decoder.hidden_dim = 40;
    let original = tempfile::tempdir().unwrap();
    let files = [spec.safetensors(Dtype::Bf16), spec.params_json(), spec.tekken_json()];
    for (name, bytes) in MODEL_FILES.into_iter().zip(files) {
        fs::write(original.path().join(name), bytes).unwrap();
    }
    let out = original.path().join("out");
    let ran = run(["quantize", arg(original.path()), arg(&out), "--recipe", "q4"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let line = |name: &str| ran.stdout.lines().find(|line| line.starts_with(name)).unwrap();
    let (w1, w2) = (line("layers.0.feed_forward.w1"), line("layers.0.feed_forward.w2"));
    assert!(
        w2.contains("BF16") && w2.ends_with("no Q4: rows of 40 are no multiple of 32"),
        "{w2}"
    );
    assert!(w1.contains("Q4") && !w1.contains("multiple"), "{w1}");
    let (file, _) = clip(2);
    assert_eq!(run(["-d", arg(&out), arg(&file)]).code, Some(0));
}

/// A typing mistake would be noticed after minutes, if ever.
#[test]
fn a_storage_for_nothing_is_an_error() {
    let out = tempfile::tempdir().unwrap();
    let nano = goldens::nano_dir();
    for part in ["nosuch=q8", "conv=q4", "ffn_norm=keep"] {
        let to = out.path().join("out");
        let args = ["quantize", arg(&nano), arg(&to), "--recipe", "q8", "--set", part];
        let ran = run(args);
        assert_eq!(ran.code, Some(2), "{part}: {ran:?}");
        assert!(ran.stderr.contains(&format!("--set {part}: no matrix")), "{ran:?}");
        assert!(!to.exists(), "{part}");
    }
}

#[test]
fn storages_can_be_set_by_name_and_the_last_counts() {
    let out = tempfile::tempdir().unwrap();
    let set = ["--set", "attention=q8", "--set", "attention.wo=keep"];
    let nano = goldens::nano_dir();
    let args = ["quantize", arg(&nano), arg(out.path()), "--recipe", "q4"];
    let ran = run(args.into_iter().chain(set));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let storage = |name: &str| {
        let line = ran.stdout.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_string()
    };
    assert_eq!(storage("layers.0.attention.wq"), "Q8");
    assert_eq!(storage("layers.0.attention.wo"), "BF16");
    assert_eq!(storage("layers.0.feed_forward.w1"), "Q4");
    assert_eq!(
        storage("layers.0.attention_norm.weight"),
        "BF16",
        "what takes no blocks gets none"
    );
}

#[test]
fn a_model_compared_with_itself_is_the_same() {
    let files = &clips()[..4];
    let nano = goldens::nano_dir();
    let same = compare(&nano, &nano, files);
    assert!(same["positions"].as_u64().unwrap() > 100);
    for stage in same["stages"].as_array().unwrap() {
        assert_eq!(stage["relative_rms_error"], 0.0, "{stage}");
    }
    for key in ["kl_mean", "kl_99th_percentile", "kl_largest"] {
        assert_eq!(same[key], 0.0, "{key}");
    }
    assert_eq!(
        (&same["top1_agreement"], &same["word_errors"]),
        (&1.0.into(), &0.into())
    );
    assert_eq!(same["disagreements"], Value::Array(vec![]));
    let table = run(["compare", arg(&nano), arg(&nano), arg(&files[0])]);
    assert!(table.stdout.contains("100.000 %"), "{table:?}");
}

#[test]
fn what_a_recipe_costs_is_within_what_was_measured() {
    // Mean KL divergence in nats, relative errors of the encoder's and the adapter's output: a quarter above what
    // was measured.
    for (recipe, kl, encoder, adapter) in [
        ("q8", 2e-5, 0.007, 0.009),
        ("mixed", 3e-4, 0.04, 0.03),
        ("q4", 1.1e-3, 0.05, 0.075),
    ] {
        let found = compare(&goldens::nano_dir(), directory(recipe), &clips());
        let stage = |name: &str| {
            let stages = found["stages"].as_array().unwrap();
            let stage = stages.iter().find(|stage| stage["stage"] == name).unwrap();
            stage["relative_rms_error"].as_f64().unwrap()
        };
        println!("{recipe}: {found:#}");
        assert!((1e-6..kl).contains(&found["kl_mean"].as_f64().unwrap()), "{recipe}");
        assert!((1e-3..encoder).contains(&stage("encoder")), "{recipe}");
        assert!((1e-3..adapter).contains(&stage("adapter")), "{recipe}");
        assert_eq!(stage("mel frames"), 0.0);
        assert_eq!(stage("convolution stem"), 0.0, "it stays as it is");
        let texts = found["texts"].as_array().unwrap();
        for (told, clip) in texts.iter().zip(goldens::clips()) {
            let result = clip.delays.iter().find(|result| result.delay_tokens == 6).unwrap();
            assert_eq!(told["a"], result.text.trim(), "{}", clip.file);
        }
        let columns = ["kl_99th_percentile", "kl_largest"].map(|key| found[key].as_f64().unwrap());
        assert!(found["kl_mean"].as_f64().unwrap() <= columns[0] && columns[0] <= columns[1]);
    }
}

/// Random weights decide by small margins, so many tokens differ, and the tokens of A still lead both.
#[test]
fn both_models_follow_the_tokens_of_the_first() {
    let case = Case::read('A', "speech_a4");
    let spec = case.spec();
    let original = tempfile::tempdir().unwrap();
    let files = [spec.safetensors(Dtype::Bf16), spec.params_json(), spec.tekken_json()];
    for (name, bytes) in MODEL_FILES.into_iter().zip(files) {
        fs::write(original.path().join(name), bytes).unwrap();
    }
    let out = original.path().join("out");
    let ran = run([
        "quantize",
        arg(original.path()),
        arg(&out),
        "--recipe",
        "q4",
        "--silent",
    ]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let (file, _) = clip(2);
    let found = compare(original.path(), &out, &[file]);
    let disagreements = found["disagreements"].as_array().unwrap();
    println!("{} of {} differ", disagreements.len(), found["positions"]);
    let agreement = 1.0 - disagreements.len() as f64 / found["positions"].as_f64().unwrap();
    assert_eq!(found["top1_agreement"], agreement);
    for it in disagreements {
        assert_ne!(it["token_a"], it["token_b"]);
        assert!(
            it["margin_a"].as_f64().unwrap() >= 0.0 && it["margin_b"].as_f64().unwrap() >= 0.0,
            "{it}"
        );
    }
    run(["compare", arg(original.path()), arg(&goldens::nano_dir()), "x.wav"]).assert_refused(&["other sizes"]);
}

/// Decides for the model.
struct Forced(Vec<u32>, usize);

impl Probe for Forced {
    fn stage(&mut self, _stage: Stage, _first: u64, _values: &[f32]) {}

    fn decide(&mut self, _position: u64, id: u32) -> u32 {
        self.1 += 1;
        self.0.get(self.1 - 1).copied().unwrap_or(id)
    }
}

#[derive(Default)]
struct Tokens(Vec<u32>);

impl Listener for Tokens {
    fn token(&mut self, token: &Decided<'_>) -> Result<(), Error> {
        self.0.push(token.id);
        Ok(())
    }
}

#[test]
fn a_probe_may_decide_and_an_id_that_is_none_decides_nothing() {
    let model = Model::embedded().unwrap();
    let pool = Pool::new(1);
    let options = Options {
        stop_at_end_of_text: false,
        ..Options::from(model.vocabulary())
    };
    let mut transcriber = Transcriber::new(&model, &options, &pool).unwrap();
    let samples = &goldens::clips()[2].samples;
    let mut listen = |probe: &mut dyn Probe| {
        transcriber.reset();
        let mut tokens = Tokens::default();
        transcriber.push_to(samples, &mut tokens, probe).unwrap();
        transcriber.finish_to(&mut tokens, probe).unwrap();
        tokens.0
    };
    let own = listen(&mut NoProbe);
    let given: Vec<u32> = (0..own.len() as u32).map(|i| 1000 + i % 200).collect();
    assert_eq!(listen(&mut Forced(given.clone(), 0)), given);
    assert_eq!(listen(&mut Forced(vec![u32::MAX; own.len()], 0)), own);
    // The token goes into the next position: what follows another one is not what followed the model's own.
    let mut first = Forced(given[..own.len() - 1].to_vec(), 0);
    assert_eq!(listen(&mut first)[..own.len() - 1], given[..own.len() - 1]);
}

#[test]
fn calibration_makes_the_errors_smaller_that_count() {
    let here = tempfile::tempdir().unwrap();
    let out = here.path().join("out");
    let files = clips();
    // Other clips than those that are measured.
    let nano = goldens::nano_dir();
    let args = [
        "quantize",
        arg(&nano),
        arg(&out),
        "--recipe",
        "q4",
        "--silent",
        "--calibrate",
    ];
    let ran = run(args.into_iter().chain(files[..6].iter().map(|file| arg(file))));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let errors = |directory: &Path| {
        let found = compare(&goldens::nano_dir(), directory, &files[6..9]);
        let stages = found["stages"].as_array().unwrap().clone();
        move |name: &str| {
            let stage = stages.iter().find(|stage| stage["stage"] == name).unwrap();
            stage["relative_rms_error"].as_f64().unwrap()
        }
    };
    let (plain, weighed) = (errors(directory("q4")), errors(&out));
    for stage in ["encoder", "adapter"] {
        println!("{stage}: {:.4} without, {:.4} with", plain(stage), weighed(stage));
        assert!(weighed(stage) < 0.95 * plain(stage), "{stage}");
    }
    let silent = here.path().join("silent");
    let ran = run([
        "quantize",
        arg(&goldens::nano_dir()),
        arg(&silent),
        "--recipe",
        "q4",
        "--calibrate",
        "/none.wav",
    ]);
    ran.assert_refused(&["/none.wav"]);
    assert!(!silent.exists());
}

#[test]
fn inspect_knows_what_is_in_blocks() {
    let path = directory("q8");
    let ran = run(["inspect", arg(path)]);
    let line = ran.stdout.lines().find(|line| line.starts_with(W1)).unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[1..5], ["q8/1", "[256,", "96]", "24576"], "{line}");
    assert_eq!(cells[5], (256 * 112).to_string());
    assert_eq!(*cells.last().unwrap(), "9.333");
    assert!(ran.stdout.lines().next().unwrap().ends_with("bits/weight"));
    let plain = run(["inspect", arg(&goldens::nano_dir())]);
    assert!(!plain.stdout.contains("bits/weight"));

    let json: Value = serde_json::from_str(&run(["inspect", "--json", arg(path)]).stdout).unwrap();
    let tensors = json["files"][0]["tensors"].as_array().unwrap();
    let w1 = tensors.iter().find(|tensor| tensor["name"] == W1).unwrap();
    assert_eq!(
        (&w1["dtype"], &w1["shape"]),
        (&"U8".into(), &serde_json::json!([256, 112]))
    );
    assert_eq!(w1["blocks"]["scheme"], "q8/1");
    assert_eq!(w1["blocks"]["shape"], serde_json::json!([256, 96]));

    let summary = run(["inspect", "--summary", arg(path)]).stdout;
    assert!(
        summary.contains("q8/1") && !summary.contains("voxtral.blocks"),
        "{summary}"
    );
    assert!(
        summary.contains(" 1319072 "),
        "weights, not bytes, are elements: {summary}"
    );
    for flag in ["--check", "--model"] {
        let ran = run(["inspect", flag, arg(path)]);
        assert_eq!(ran.code, Some(0), "{flag}: {ran:?}");
    }
}

#[test]
fn stats_are_those_of_the_weights_in_blocks() {
    let stats = |directory: &Path| {
        let ran = run(["inspect", "--json", "--stats", W1, arg(directory)]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        serde_json::from_str::<Value>(&ran.stdout).unwrap()
    };
    let (before, after) = (stats(&goldens::nano_dir()), stats(directory("q8")));
    assert_eq!(after["dtype"], "q8/1");
    assert_eq!(
        (&after["shape"], &after["elements"]),
        (&before["shape"], &before["elements"])
    );
    for key in ["rms", "max", "min"] {
        let [a, b] = [&before, &after].map(|stats| stats[key].as_f64().unwrap());
        assert!((a - b).abs() < 0.01 * a.abs(), "{key}: {a} {b}");
    }
    // The same file of a later version.
    let later = tempfile::tempdir().unwrap();
    let path = later.path().join(MODEL_FILES[0]);
    let mut bytes = fs::read(directory("q8").join(MODEL_FILES[0])).unwrap();
    let key = format!("\"voxtral.blocks.{W1}\":\"q8/1");
    let at = bytes
        .windows(key.len())
        .position(|part| part == key.as_bytes())
        .unwrap()
        + key.len()
        - 1;
    bytes[at] = b'7';
    fs::write(&path, bytes).unwrap();
    let name = ["inspect", "--stats", W1];
    run(name.into_iter().chain([arg(&path)])).assert_refused(&[W1, "q8/7"]);
    for name in &MODEL_FILES[1..] {
        fs::copy(goldens::nano_dir().join(name), later.path().join(name)).unwrap();
    }
    let ran = run(["inspect", "--model", "--json", arg(later.path())]);
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    let fault = &value["faults"][0];
    assert_eq!(
        (&fault["kind"], &fault["name"], &fault["found"]),
        (&"storage".into(), &W1.into(), &"q8/7".into())
    );
    assert_eq!(value["ignored"], Value::Array(vec![]));
}
