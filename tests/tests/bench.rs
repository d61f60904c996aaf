//! `voxtral bench`: that it measures what it says and says it as it promises. How fast anything is depends on the machine
//! and on what else runs there, so nothing is asserted of that.

use std::time::{Duration, Instant};

use serde_json::Value;
use voxtral_core::kernels::Kernels;
use voxtral_tests::generator::safetensors::Dtype;
use voxtral_tests::generator::{Spec, Weights};
use voxtral_tests::program::{Ran, arg, run, voxtral};

fn bench(args: &[&str]) -> Ran {
    run([&["bench", "--seconds", "1"], args].concat())
}

fn json(args: &[&str]) -> Value {
    let ran = bench(&[args, &["--json"]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stdout.lines().count(), 1, "one object and nothing else");
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// Smallest, median and largest, in this order, finite and above 0.
#[track_caller]
fn assert_spread(spread: &Value, what: &Value) {
    let [min, median, max] = ["min", "median", "max"].map(|name| spread[name].as_f64().expect(name));
    assert!(0.0 < min && min <= median && median <= max && max.is_finite(), "{what}");
}

/// Asserts that a measurement has numbers if a window counted, and none otherwise. Says whether it has.
fn assert_measured(measured: &Value, names: &[&str]) -> bool {
    let windows = measured["windows"].as_u64().expect("windows");
    let discarded = measured["discarded"].as_u64().expect("discarded windows");
    assert!(windows + discarded > 0, "{measured}");
    assert!(["GB/s", "GFLOP/s"].contains(&measured["unit"].as_str().unwrap()));
    for name in names {
        if windows == 0 {
            assert!(measured[name].is_null(), "{measured}");
        } else {
            assert_spread(&measured[name], measured);
        }
    }
    windows > 0
}

/// Asserts that memory of a transcription was measured, and returns how much it was over what the layout says, where
/// the system tells it.
fn assert_memory(memory: &Value) -> Option<f64> {
    let number = |name: &str| memory[name].as_f64().expect(name);
    let touched = number("touched_bytes");
    assert!(number("state_bytes") > 0.0 && number("scratch_bytes") > 0.0);
    assert_eq!(touched, number("state_bytes") + number("scratch_bytes"));
    assert_eq!((number("seconds_of_audio"), number("voxtral_c_bytes")), (20.0, 396e6));
    let measured = memory["measured_bytes"].as_f64();
    assert_eq!(measured.is_some(), cfg!(target_os = "linux"), "{memory}");
    let ratio = measured.map(|measured| measured / touched);
    assert_eq!(memory["ratio"].as_f64(), ratio);
    ratio
}

fn names(list: &Value) -> Vec<&str> {
    let name = |case: &'_ Value| case["name"].as_str().map(str::len);
    assert!(list.as_array().unwrap().iter().all(|case| name(case) > Some(0)));
    list.as_array()
        .unwrap()
        .iter()
        .filter_map(|case| case["name"].as_str())
        .collect()
}

/// Everything on one thread: every operation and every pass, with all fields.
#[test]
fn json_has_the_limits_every_operation_and_every_pass() {
    let start = Instant::now();
    let all = json(&["-t", "1"]);
    assert!(start.elapsed() < Duration::from_secs(64 + 60), "a bounded time");
    assert_eq!(all["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(all["kernels"], Kernels::detect().name());
    assert_eq!(all["threads"], 1);
    for text in ["target", "model", "arithmetic"] {
        assert!(all[text].is_string(), "{text}");
    }
    let size = std::fs::metadata(voxtral_tests::goldens::nano_dir().join("consolidated.safetensors"))
        .unwrap()
        .len();
    assert_eq!(all["weights_bytes"], size);
    assert!(all["elapsed_seconds"].as_f64().unwrap() > 0.0 && all["notes"].is_array());

    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(all["cores"], cores);
    let limits = all["limits"].as_array().unwrap();
    assert_eq!(limits.len(), cores);
    for (limit, threads) in limits.iter().zip(1..) {
        assert_eq!(limit["threads"], threads);
        assert!((1..=8).contains(&limit["read"]["streams"].as_u64().unwrap()));
        for kind in ["read", "multiply_add"] {
            assert_measured(&limit[kind], &["rate"]);
        }
    }

    let fields = ["seconds", "rate", "limit", "fraction"];
    let mut told = 0;
    for case in ["operations", "passes"]
        .iter()
        .flat_map(|list| all[list].as_array().unwrap())
    {
        assert!(!case["detail"].as_str().unwrap().is_empty(), "{case}");
        told += usize::from(assert_measured(case, &fields));
    }
    assert!(told > 0, "no window of any measurement counted");
    let operations = names(&all["operations"]);
    for columns in ["1 column", "2 columns", "4 columns", "8 columns"] {
        for matrix in ["wq", "wk", "wo", "w1", "w2", "head"] {
            let name = format!("decoder {matrix}, {columns}");
            assert!(operations.contains(&name.as_str()), "{name}");
        }
    }
    for columns in [100, 300] {
        for matrix in ["wq", "wk", "wo", "w1", "w2", "conv1"] {
            let name = format!("encoder {matrix}, {columns} columns");
            assert!(operations.contains(&name.as_str()), "{name}");
        }
    }
    for name in [
        "encoder conv0, 200 columns",
        "adapter in, 25 columns",
        "adapter out, 75 columns",
        "decoder w1 copied to memory, 1 column",
        "decoder attention, 0 cached, f32",
        "decoder attention, 96 cached, bf16",
        "encoder attention, 300 frames, f32",
        "encoder rms_norm",
        "decoder rope",
        "encoder silu_mul",
        "encoder gelu",
        "head arg-max",
    ] {
        assert!(operations.contains(&name), "{name}");
    }
    assert_eq!(
        names(&all["passes"]),
        [
            "mel, 1 s of audio",
            "encoder, 1 s of audio in passes of 2 s",
            "encoder, 1 s of audio in passes of 6 s",
            "prefill",
            "decode step, 0 cached, f32",
            "decode step, 96 cached, f32",
            "decode step, 0 cached, bf16",
            "decode step, 96 cached, bf16",
        ]
    );
    assert_memory(&all["memory"]);
    for derived in all["derived"].as_array().unwrap() {
        let value = derived["value"].as_f64().unwrap();
        assert!(
            derived["name"].is_string() && value > 0.0 && value.is_finite(),
            "{derived}"
        );
    }
}

#[test]
fn a_word_chooses_and_the_table_is_data_alone() {
    let all = json(&["rms_norm", "-t", "1"]);
    assert_eq!(names(&all["operations"]), ["encoder rms_norm", "decoder rms_norm"]);
    assert_eq!(names(&all["passes"]), Vec::<&str>::new());
    assert!(all["memory"].is_null());

    let ran = bench(&["decode step, 0 cached", "-t", "2"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.starts_with("nano-realtime") && ran.stdout.contains("2 threads"),
        "{ran:?}"
    );
    for (line, count) in [
        ("decode step, 0 cached", 2),
        ("decoder", 0),
        ("read, 1 thread,", 1),
        ("passes (", 1),
    ] {
        let found = ran
            .stdout
            .lines()
            .filter(|found| found.trim_start().starts_with(line))
            .count();
        assert_eq!(found, count, "{line}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("voxtral.c"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("voxtral:"), "{}", ran.stdout);
    assert!(!ran.stderr.is_empty() && ran.stderr.lines().all(|line| line.starts_with("voxtral: ")));
}

#[test]
fn a_transcription_takes_the_memory_that_the_layout_tells() {
    let all = json(&["memory of", "-t", "1"]);
    let ratio = assert_memory(&all["memory"]).unwrap_or(1.0);
    assert!((ratio - 1.0).abs() <= 0.1, "{}", all["memory"]);
    assert_eq!(names(&all["operations"]), Vec::<&str>::new());
    assert_eq!(all["limits"].as_array().map(Vec::len), Some(0), "none of them matters");
}

#[test]
fn memory_is_told_as_a_table_too() {
    let ran = bench(&["memory of", "-t", "2"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for part in [
        "layout says",
        "growth",
        "over 20 s of audio",
        "voxtral.c",
        "measured elsewhere",
        "396.0 MB",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
}

#[test]
fn a_model_of_a_directory_is_measured_and_holes_are_told() {
    let directory = tempfile::tempdir().unwrap();
    Spec::variant('B')
        .write(directory.path(), Dtype::Bf16, Weights::Sparse)
        .unwrap();
    let ran = bench(&["-d", arg(directory.path()), "mel, 1 s", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let all: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(all["model"], arg(directory.path()));
    assert_eq!(names(&all["passes"]), ["mel, 1 s of audio"]);
    let notes = all["notes"].as_array().unwrap();
    assert!(
        notes.len() == 1 && notes[0].as_str().unwrap().contains("holes"),
        "{notes:?}"
    );
    assert!(ran.stderr.contains("holes"));
}

#[test]
fn what_cannot_be_measured_is_refused() {
    bench(&["no such thing"]).assert_refused(&["\"no such thing\""]);
    bench(&["-d", "/none"]).assert_refused(&["/none"]);
    for args in [
        &["-t", "0"][..],
        &["-t", "257"],
        &["--seconds", "0"],
        &["--realtime-factor"],
        &["one", "two"],
    ] {
        let ran = run([&["bench"], args].concat());
        assert_eq!(ran.code, Some(2), "{args:?}");
        ran.assert_refused(&[args[args.len() - 1]]);
    }
}

/// Ctrl-C ends it, with the status that shells have for it.
#[test]
fn it_can_be_interrupted() {
    let mut child = voxtral()
        .args(["bench", "--seconds", "600"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let start = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(10));
}

/// One by one and in wide passes, of which each brings several positions.
#[test]
fn realtime_tells_the_parts_of_a_second() {
    let ran = bench(&["--realtime", "-t", "1", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let all: Value = serde_json::from_str(&ran.stdout).unwrap();
    let rows = all["realtime"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for (row, batch) in rows.iter().zip([1, 8]) {
        let number = |name: &str| row[name].as_f64().unwrap();
        assert_eq!((number("threads"), number("batch")), (1.0, f64::from(batch)));
        let parts = number("mel") + number("encoder") + number("decoder");
        assert!(parts > 0.0 && (number("real_time_factor") - parts).abs() < 1e-9);
        assert!((1.0..=8.0).contains(&number("positions_per_pass")));
    }
    let table = bench(&["--realtime", "-t", "1"]);
    assert!(table.stdout.contains("real-time factor"), "{}", table.stdout);
    bench(&["--realtime", "mel"]).assert_refused(&["--realtime"]);
}
