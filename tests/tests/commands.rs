//! The command line, flag by flag and command by command.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use voxtral_core::format::params::Params;
use voxtral_core::format::tekken::Vocabulary;
use voxtral_core::kernels::Kernels;
use voxtral_core::layout::{CacheType, Layout, Options};
use voxtral_tests::generator::safetensors::Dtype;
use voxtral_tests::generator::{Spec, Weights};
use voxtral_tests::goldens;
use voxtral_tests::program::{Ran, arg, clip, model, run, voxtral};

/// The flags of voxtral.c.
const FLAGS: [&str; 9] = [
    "-d",
    "-i",
    "--stdin",
    "-I",
    "--alt",
    "--monitor",
    "--from-mic",
    "--debug",
    "--silent",
];

/// Lines of text, one for each file, and nothing else.
fn assert_texts(ran: &Ran, texts: &[&str]) {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), texts);
    assert!(ran.stdout.ends_with('\n'));
}

#[test]
fn voxtral_c_d_and_i_name_model_and_files() {
    let ((file, text), (other, other_text)) = (clip(2), clip(3));
    let model = model();
    let directory = arg(model.path());
    assert_texts(&run(["-d", directory, "-i", arg(&file)]), &[&text]);
    assert_texts(&run(["-i", arg(&file), "-d", directory]), &[&text]);
    assert_texts(
        &run(["-d", "/none", "-d", directory, "-i", arg(&other), "-i", arg(&file)]),
        &[&other_text, &text],
    );
    run(["-d", directory, "-d", "/none", "-i", arg(&file)]).assert_refused(&["/none"]);
}

#[test]
fn voxtral_c_silent_and_debug_and_the_last_counts() {
    let (file, text) = clip(2);
    let ran = |flags: &[&str]| {
        let ran = run([&["-i", arg(&file)], flags].concat());
        assert_texts(&ran, &[&text]);
        ran.stderr
    };
    assert!(ran(&[]).contains("real-time factor") && !ran(&[]).contains("logit hash"));
    for flags in [&["--silent"][..], &["--debug", "--silent"], &["--silent", "--silent"]] {
        assert_eq!(ran(flags), "", "{flags:?}");
    }
    for flags in [&["--debug"][..], &["--silent", "--debug"], &["--debug", "--debug"]] {
        assert!(ran(flags).contains("logit hash"), "{flags:?}");
    }
}

/// The microphone is another program's: it is said how.
#[test]
fn voxtral_c_from_mic_says_how() {
    run(["--from-mic"]).assert_refused(&["--from-mic", "arecord", "voxtral --stdin"]);
}

#[test]
fn voxtral_c_values_are_checked() {
    let (file, text) = clip(0);
    for flags in [
        ["-I", "0"],
        ["-I", "-1"],
        ["-I", "nan"],
        ["-I", "inf"],
        ["-I", "soon"],
        ["-I", "61"],
        ["--gate", "on"],
        ["--gate", "1"],
        ["--hold", "0"],
        ["--hold", "0.4"],
        ["--hold", "3601"],
        ["--rate", "0"],
        ["--channels", "0"],
        ["--output", "text.srt"],
        ["--format", "mp3"],
        ["--alt", "1.5"],
        ["--alt", "-0.1"],
        ["--alt", "nan"],
        ["--threads", "0"],
        ["--delay", "soon"],
    ] {
        let ran = run([&flags[..], &["-i", arg(&file)]].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{flags:?}");
        ran.assert_refused(&[flags[0], flags[1], "see voxtral --help"]);
    }
    let hold = run([arg(&file), "--hold", "0.4"]);
    hold.assert_refused(&["0.5 to 3600"]);
    assert_texts(&run([arg(&file), "--hold", "0.5", "--silent"]), &[&text]);
    for args in [
        &[arg(&file), arg(&file), "--output", "srt"][..],
        &[arg(&file), "--delay", "81"],
        &[arg(&file), "--window", "0"],
        &[arg(&file), "--chunk", "0"],
    ] {
        let ran = run(args);
        ran.assert_refused(&[]);
        assert_eq!(ran.code, Some(2), "{args:?}");
    }
}

#[test]
fn voxtral_c_takes_one_kind_of_input() {
    let (file, _) = clip(0);
    let file = arg(&file);
    let kinds = [&["-i", file][..], &["--stdin"], &["--from-mic"], &[file]];
    for (a, first) in kinds.iter().enumerate() {
        for second in &kinds[a + 1..] {
            let ran = run([*first, *second].concat());
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{first:?} {second:?}");
            assert!(ran.stderr.contains("cannot be used with"), "{}", ran.stderr);
        }
    }
}

#[test]
fn voxtral_c_h_shows_every_flag_and_nothing_at_all_shows_it_too() {
    let help = run(["-h"]);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    for flag in FLAGS {
        let shown = |line: &&str| line.trim_start().starts_with(flag);
        assert_eq!(help.stdout.lines().filter(shown).count(), 1, "{flag}");
    }
    let nothing = run::<&str>([]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(2), ""));
    assert_eq!(nothing.stderr.trim(), help.stdout.trim());
    for unknown in ["-x", "--worker", "--model"] {
        let ran = run([unknown]);
        assert_eq!(ran.code, Some(2));
        ran.assert_refused(&[unknown, "see voxtral --help"]);
        assert!(!ran.stderr.contains("tip"), "{}", ran.stderr);
    }
}

#[test]
fn several_files_are_a_line_each() {
    let clips: Vec<_> = (0..4).map(clip).collect();
    let files: Vec<_> = clips.iter().map(|(file, _)| arg(file)).collect();
    let texts: Vec<_> = clips.iter().map(|(_, text)| text.as_str()).collect();
    let ran = run(&files);
    assert_texts(&ran, &texts);
    for file in &files {
        assert!(ran.stderr.contains(file), "{}", ran.stderr);
    }
    assert_texts(&run([&["transcribe"], &files[..]].concat()), &texts);

    // One that cannot be read does not keep the others from being read.
    let ran = run([files[0], "/no/such.wav", files[1], arg(Path::new("/")), "--silent"]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), texts[..2]);
    assert_eq!(ran.stderr.lines().count(), 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("/no/such.wav") && ran.stderr.contains("directory"));
}

#[test]
fn files_may_be_named_like_commands() {
    let (file, text) = clip(1);
    let directory = tempfile::tempdir().unwrap();
    for name in ["memory", "help", "-x"] {
        fs::copy(&file, directory.path().join(name)).unwrap();
    }
    let ran = |args: &[&str]| Ran::from(voxtral().current_dir(&directory).args(args).output().unwrap());
    for args in [
        &["./memory"][..],
        &["--", "memory"],
        &["--", "-x"],
        &["--", "help"],
        &["-i", "memory"],
        &["transcribe", "memory"],
        &["--silent", "memory"],
    ] {
        assert_texts(&ran(args), &[&text]);
    }
    assert!(ran(&["memory"]).stdout.contains("KV cache"), "the command itself");
}

#[test]
fn the_model_may_come_from_the_environment() {
    let (file, text) = clip(1);
    let model = model();
    let with = |value: &Path, args: &[&str]| {
        let mut command = voxtral();
        command.env("VOXTRAL_MODEL", value).args(args).arg(&file);
        Ran::from(command.output().unwrap())
    };
    let ran = with(model.path(), &[]);
    assert_texts(&ran, &[&text]);
    assert!(!ran.stderr.contains("built in"), "{}", ran.stderr);
    let none = Path::new("/none");
    with(none, &[]).assert_refused(&["/none", "VOXTRAL_MODEL", "curl"]);
    assert_texts(&with(none, &["-d", arg(model.path())]), &[&text]);
    with(model.path(), &["-d", "/none"]).assert_refused(&["/none"]);

    let empty = with(Path::new(""), &[]);
    assert_texts(&empty, &[&text]);
    let told = |line: &&str| line.contains("no -d DIR given") && line.contains("built in");
    assert_eq!(empty.stderr.lines().filter(told).count(), 1, "{}", empty.stderr);
}

#[test]
fn version_tells_what_was_built() {
    let version = run(["--version"]);
    assert_eq!(version.code, Some(0));
    let rustc = Command::new("rustc").arg("-vV").output().expect("rustc");
    let rustc = String::from_utf8(rustc.stdout).unwrap();
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    for part in [
        concat!("voxtral ", env!("CARGO_PKG_VERSION"), "\n"),
        host,
        Kernels::detect().name(),
        "embedded-model",
        "FLAC",
    ] {
        assert!(version.stdout.contains(part), "{part} is not in {}", version.stdout);
    }
    assert_eq!(run(["-V"]).stdout, concat!("voxtral ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn completions_and_manual_pages_know_every_option() {
    let long = [
        "--stdin",
        "--from-mic",
        "--delay",
        "--window",
        "--chunk",
        "--cache",
        "--threads",
        "--silent",
    ];
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(["completions", shell]);
        assert_eq!((script.code, script.stderr.as_str()), (Some(0), ""), "{shell}");
        for option in long {
            let option = if shell == "fish" { &option[2..] } else { option };
            assert!(script.stdout.contains(option), "{option} for {shell}");
        }
    }
    let ran = run(["completions", "cmd"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("bash"), "{ran:?}");

    let page = run(["man"]);
    assert!(page.code == Some(0) && page.stdout.contains(".TH voxtral 1"));
    for option in long {
        assert!(page.stdout.contains(&option.replace('-', "\\-")), "{option}");
    }
    for part in ["VOXTRAL_MODEL", "135", "141"] {
        assert!(page.stdout.contains(part), "{part}");
    }
    let page = run(["man", "memory"]).stdout;
    assert!(page.contains(".TH voxtral-memory 1") && page.contains("\\-\\-window"));
    let page = run(["man", "bench"]).stdout;
    assert!(page.contains(".TH voxtral-bench 1") && page.contains("\\-\\-seconds"));
    assert!(run(["completions", "bash"]).stdout.contains("bench"));
    assert!(
        run(["--help"])
            .stdout
            .lines()
            .any(|line| line.trim_start().starts_with("bench "))
    );
    let ran = run(["man", "nothing"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("\"nothing\""), "{ran:?}");
}

/// The bytes of the first line with that name.
fn bytes(table: &str, name: &str) -> usize {
    let mut lines = table.lines().map(str::trim_start);
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_suffix("MB"));
    let line = line.unwrap_or_else(|| panic!("no line {name} in {table}"));
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Every line of the table is an item of the layout, in its order, and the sums are the layout's.
#[test]
fn the_memory_table_is_the_layout() {
    let directory = tempfile::tempdir().unwrap();
    let spec = Spec::variant('B');
    spec.write(directory.path(), Dtype::Bf16, Weights::Sparse).unwrap();
    for (flags, window, chunk, delay_ms, cache) in [
        (&[][..], None, None, None, CacheType::F32),
        (
            &["--window", "2", "--chunk", "9", "--delay", "2400", "--cache", "bf16"],
            Some(2),
            Some(9),
            Some(2400),
            CacheType::Bf16,
        ),
    ] {
        for (model, name) in [
            (goldens::nano_dir(), "built in"),
            (directory.path().to_owned(), arg(directory.path())),
        ] {
            let mut args = vec!["memory"];
            if name != "built in" {
                args.extend(["-d", name]);
            }
            args.extend(flags);
            let ran = run(&args);
            assert_eq!(ran.code, Some(0), "{ran:?}");
            let table = &ran.stdout;
            assert!(table.lines().next().unwrap().contains(name), "{table}");

            let params = Params::parse(&fs::read(model.join("params.json")).unwrap()).unwrap();
            let vocabulary = Vocabulary::parse(&fs::read(model.join("tekken.json")).unwrap()).unwrap();
            let mut options = Options::from(&vocabulary);
            options.decoder_window = window;
            options.cache = cache;
            options.logits = false;
            options.chunk = chunk.unwrap_or(options.chunk);
            if let Some(ms) = delay_ms {
                options = options.with_delay_ms(ms).unwrap();
            }
            let layout = Layout::new(&params, &options).unwrap();
            let mut expected = Vec::new();
            layout.items(|item| expected.push((item.name.to_owned(), 4 * item.values)));
            let own = [
                "weights",
                "vocabulary",
                "state in all",
                "scratch in all",
                "index",
                "allocated",
                "mapped",
            ];
            let lines: Vec<_> = table
                .lines()
                .filter(|line| line.ends_with(" MB"))
                .map(|line| line.trim_start().split_once("  ").unwrap().0.to_owned())
                .filter(|name| !own.iter().any(|own| name.starts_with(own)))
                .collect();
            assert_eq!(lines, expected.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
            let mut rest = table.as_str();
            for (name, size) in &expected {
                let at = rest.find(&format!("  {name}  ")).expect("in this order");
                rest = &rest[at..];
                assert_eq!(bytes(rest, name), *size, "{name}");
            }
            let (state, scratch) = (4 * layout.state_len(), 4 * layout.scratch_len());
            assert_eq!(bytes(table, "state in all"), state);
            assert_eq!(bytes(table, "scratch in all"), scratch);
            let index = bytes(table, "index from token ids to text");
            assert_eq!(bytes(table, "allocated"), state + scratch + index);
            let len = |file: &str| fs::metadata(model.join(file)).unwrap().len() as usize;
            assert_eq!(bytes(table, "weights"), len("consolidated.safetensors"));
            assert_eq!(
                bytes(table, "mapped"),
                len("consolidated.safetensors") + len("tekken.json")
            );
        }
    }
    run(["memory", "-d", "/none"]).assert_refused(&["/none"]);
    run(["memory", "--delay", "81"]).assert_refused(&["81", "2400"]);
}

/// A smaller window is told, refused where it is none, and has its effect.
#[test]
fn a_smaller_window_is_told() {
    let (file, text) = clip(0);
    let told = |window: &str| {
        let ran = run([arg(&file), "--window", window]);
        assert_eq!(ran.code, Some(0));
        let told = format!("a window of {window} positions instead of the model's 96");
        (ran.stderr.contains(&told) && ran.stderr.contains("may differ"), ran)
    };
    let (own, ran) = told("96");
    assert!(!own, "the model's own is no smaller one");
    assert_texts(&ran, &[&text]);
    assert!(told("95").0);
    let (one, ran) = told("1");
    assert!(one);
    assert_ne!(ran.stdout.trim_end(), text, "the model sees one position only");
    for window in ["0", "100000"] {
        run([arg(&file), "--window", window]).assert_refused(&[window, "window"]);
    }
    run([arg(&file), "--chunk", "0"]).assert_refused(&["chunk"]);
    assert_texts(&run([arg(&file), "--chunk", "1", "--silent"]), &[&text]);
}

/// Caches of bfloat16 compute other logits, and here the same text.
#[test]
fn caches_of_either_type_are_used() {
    let (file, text) = clip(0);
    let [default, wide, narrow] = [&[][..], &["--cache", "f32"], &["--cache", "bf16"]].map(|flags| {
        let ran = run([&[arg(&file), "--debug"][..], flags].concat());
        assert_texts(&ran, &[&text]);
        ran.stderr
            .lines()
            .find(|line| line.contains("hash"))
            .expect("a hash")
            .to_owned()
    });
    assert_eq!(default, wide);
    assert_ne!(wide, narrow);
    assert_eq!(run([arg(&file), "--cache", "f16"]).code, Some(2));
}
