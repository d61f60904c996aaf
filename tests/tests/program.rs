//! The command line, as people meet it.

use std::fs;

use voxtral_tests::generator::Spec;
use voxtral_tests::generator::safetensors::Dtype;
use voxtral_tests::goldens;
use voxtral_tests::program::{MODEL_FILES as FILES, arg, clip, model, run, voxtral};

#[test]
fn every_clip_is_printed_with_a_newline() {
    for index in 0..12 {
        let (file, text) = clip(index);
        let ran = run([arg(&file)]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(ran.stdout, text + "\n", "{}", file.display());
    }
}

#[test]
fn a_directory_and_the_built_in_model_say_the_same() {
    let (file, text) = clip(0);
    let model = model();
    let ran = run(["-d", arg(model.path()), "-i", arg(&file), "--silent"]);
    assert_eq!(
        (ran.code, ran.stdout, ran.stderr),
        (Some(0), text + "\n", String::new())
    );
}

#[test]
fn debug_tells_the_logit_hash_and_it_is_the_same_for_any_threads() {
    let (file, _) = clip(0);
    let hash = |threads: &str| {
        let ran = run([arg(&file), "--debug", "--threads", threads]);
        let line = ran
            .stderr
            .lines()
            .find(|line| line.contains("logit hash"))
            .expect("a hash")
            .to_string();
        line.split_whitespace().last().unwrap().to_string()
    };
    let expected = hash("1");
    assert_eq!(expected.len(), 16);
    assert!(["2", "3", "7"].iter().all(|threads| hash(threads) == expected));
}

#[test]
fn delays_are_told_and_refused() {
    let clips = goldens::clips();
    let file = goldens::clips_dir().join(&clips[0].file);
    let ran = run([arg(&file), "--delay", "160"]);
    let expected = &clips[0]
        .delays
        .iter()
        .find(|result| result.delay_tokens == 2)
        .unwrap()
        .text;
    assert_eq!(ran.stdout.trim_end(), expected);
    for ms in ["0", "100", "1280", "5000"] {
        run([arg(&file), "--delay", ms]).assert_refused(&[ms, "80, 160, …, 1200", "2400"]);
    }
}

/// M6: model directory missing, a file, unreadable, without tekken.json: an error that names the missing file and
/// how to get it.
#[test]
fn m6_model_directories_that_are_none() {
    let (file, _) = clip(0);
    let file = arg(&file);
    run(["-d", "/no/such/model", file]).assert_refused(&["/no/such/model", "No such file", "curl", "consolidated"]);
    run(["-d", file, file]).assert_refused(&["not a directory", "consolidated.safetensors", "curl"]);
    for missing in FILES {
        let model = model();
        fs::remove_file(model.path().join(missing)).unwrap();
        run(["-d", arg(model.path()), file]).assert_refused(&[missing, "is missing", "curl", "huggingface.co"]);
        fs::create_dir(model.path().join(missing)).unwrap();
        run(["-d", arg(model.path()), file]).assert_refused(&[missing, "not a regular file"]);
    }
    for empty in FILES {
        let model = model();
        fs::write(model.path().join(empty), "").unwrap();
        run(["-d", arg(model.path()), file]).assert_refused(&[empty]);
        fs::write(model.path().join(empty), "no model").unwrap();
        run(["-d", arg(model.path()), file]).assert_refused(&[empty]);
    }
}

/// M6: unreadable (only where the tests do not run as root, whom nothing is unreadable to).
#[cfg(unix)]
#[test]
fn m6_unreadable_files_are_named() {
    use std::os::unix::fs::PermissionsExt;
    let (file, text) = clip(0);
    let model = model();
    let weights = model.path().join(FILES[0]);
    fs::set_permissions(&weights, fs::Permissions::from_mode(0o000)).unwrap();
    let ran = run(["-d", arg(model.path()), arg(&file)]);
    if fs::File::open(&weights).is_ok() {
        assert_eq!(ran.stdout.trim_end(), text);
    } else {
        ran.assert_refused(&[FILES[0], "Permission denied"]);
    }
}

/// S1, S17 and S19 as a person meets them.
#[test]
fn wrong_weights_are_told_in_one_line() {
    let (file, _) = clip(0);
    let whole = fs::read(goldens::nano_dir().join(FILES[0])).unwrap();
    let directory = model();
    let weights = directory.path().join(FILES[0]);

    fs::write(&weights, &whole[..whole.len() - 1000]).unwrap();
    let (cut, len) = ((whole.len() - 1000).to_string(), whole.len().to_string());
    run(["-d", arg(directory.path()), arg(&file)]).assert_refused(&[&cut, &len, FILES[0]]);

    fs::write(&weights, Spec::variant('A').safetensors(Dtype::Bf16)).unwrap();
    run(["-d", arg(directory.path()), arg(&file)]).assert_refused(&[
        "shape",
        "[1400, 96]",
        "[1292, 128]",
        "tok_embeddings",
    ]);

    fs::write(directory.path().join("tekken.json"), Spec::variant('A').tekken_json()).unwrap();
    run(["-d", arg(directory.path()), arg(&file)]).assert_refused(&["tekken.json", "1400", "1292", "two models"]);
    fs::copy(
        goldens::nano_dir().join("tekken.json"),
        directory.path().join("tekken.json"),
    )
    .unwrap();

    let header = br#"{"model.language_model.layers.0.self_attn.q_proj.weight":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}"#;
    let mut hugging_face = (header.len() as u64).to_le_bytes().to_vec();
    hugging_face.extend(header);
    hugging_face.extend([0, 0]);
    fs::write(&weights, hugging_face).unwrap();
    run(["-d", arg(directory.path()), arg(&file)]).assert_refused(&[
        "Hugging Face",
        "consolidated.safetensors",
        "curl",
    ]);
}

#[test]
fn wrong_audio_is_told_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audio");
    run(["/no/such/file.wav"]).assert_refused(&["/no/such/file.wav", "No such file"]);
    run([arg(directory.path())]).assert_refused(&["directory"]);
    for (bytes, words) in [
        (&b""[..], &["empty"][..]),
        (b"fLaC\0\0\0\x22 and more", &["FLAC"]),
        (b"ID3\x04\0\0\0\0\0\0 and more", &["MP3"]),
        (b"plain words", &["plain words"]),
    ] {
        fs::write(&path, bytes).unwrap();
        run([arg(&path)]).assert_refused(words);
    }
}

/// Paths may be any bytes.
#[cfg(target_os = "linux")]
#[test]
fn paths_that_are_not_utf8_work() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let (file, text) = clip(1);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(OsStr::from_bytes(b"caf\xE9 \xFF.wav"));
    fs::copy(file, &path).unwrap();
    let output = voxtral().arg(&path).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), text);
    let missing = directory.path().join(OsStr::from_bytes(b"\xFF\xFE"));
    assert!(!voxtral().arg(&missing).output().unwrap().status.success());
}

/// Sizes that no machine has, and threads that no machine wants, are refused in one line.
#[test]
fn impossible_sizes_are_told_in_one_line() {
    let (file, _) = clip(0);
    // More than any memory, but not more than can be addressed.
    run([arg(&file), "--chunk", "1000000000"]).assert_refused(&["MB of memory", "--chunk", "voxtral memory"]);
    for threads in ["0", "257", "1000000", "-1", "18446744073709551615"] {
        let ran = run([arg(&file), "--threads", threads]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(
            ran.stderr.contains("--threads") && !ran.stderr.contains("panicked"),
            "{ran:?}"
        );
    }
}

/// A delay that the built-in model was not trained for is said to be one.
#[test]
fn delays_beyond_the_small_models_training_are_told() {
    let (file, _) = clip(0);
    let told = |ms: &str| {
        run([arg(&file), "--delay", ms])
            .stderr
            .contains("was trained for delays of 80 to 960 ms")
    };
    assert!(told("2400") && told("1040") && !told("960") && !told("80"));
}

/// A FIFO in place of a model file is refused, not waited for.
#[cfg(unix)]
#[test]
fn fifos_are_no_model_files() {
    for name in FILES {
        let directory = model();
        let path = directory.path().join(name);
        fs::remove_file(&path).unwrap();
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        let (file, _) = clip(0);
        run(["-d", arg(directory.path()), arg(&file)]).assert_refused(&[name, "not a regular file"]);
    }
}

/// Names are untrusted: a line break or an escape in one makes neither a second line nor a colour.
#[cfg(unix)]
#[test]
fn names_cannot_forge_lines() {
    run(["/nope\nvoxtral: all is well \u{1B}[31m\u{202E}"]).assert_refused(&["\\n", "\\u{1b}", "\\u{202e}"]);
}

/// A file whose text the model ends before its audio does is told as such: golden model E ends after 31 tokens.
#[test]
fn an_early_end_of_text_is_told() {
    let spec = Spec::variant('E');
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(FILES[0]), spec.safetensors(Dtype::Bf16)).unwrap();
    fs::write(directory.path().join(FILES[1]), spec.params_json()).unwrap();
    fs::write(directory.path().join(FILES[2]), spec.tekken_json()).unwrap();
    let twice = directory.path().join("twice.wav");
    let speech = goldens::audio("speech_b");
    let format = hound::WavSpec {
        channels: 1,
        sample_rate: 16_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(&twice, format).unwrap();
    for sample in speech.iter().chain(&speech) {
        writer.write_sample((sample * 32768.0) as i16).unwrap();
    }
    writer.finalize().unwrap();
    let ran = run(["-d", arg(directory.path()), arg(&twice), "--silent"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stderr.contains("the model ended the text at") && ran.stderr.contains("7.28 s"),
        "{ran:?}"
    );
}

/// A lower set than the best may be asked for, and gives the same words; `--version` says what is used.
#[test]
fn lower_kernels_may_be_asked_for() {
    let (file, text) = clip(0);
    for (word, name) in [("scalar", "scalar"), ("scalar-fused", "scalar, fused")] {
        let with = |args: &[&str]| {
            let output = voxtral().args(args).env("VOXTRAL_KERNELS", word).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(with(&[arg(&file), "--silent"]).trim_end(), text, "{word}");
        let output = voxtral()
            .args([arg(&file), "--debug"])
            .env("VOXTRAL_KERNELS", word)
            .output()
            .unwrap();
        let debug = String::from_utf8(output.stderr).unwrap();
        assert!(debug.contains(&format!("kernels {name}, ")), "{debug}");
        let version = with(&["--version"]);
        let told = version.lines().find_map(|line| line.strip_prefix("instruction set"));
        assert_eq!(told.map(str::trim), Some(name), "{version}");
    }
}

/// A word that names no kernels is told, and does nothing else.
#[test]
fn unknown_kernels_are_told() {
    let (file, text) = clip(0);
    let output = voxtral()
        .args([arg(&file), "--silent"])
        .env("VOXTRAL_KERNELS", "avx9")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), text);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains("\"avx9\" names no kernels") && told.lines().count() == 1,
        "{told}"
    );
}
