//! How live audio ends.

use std::io::Write;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use voxtral_tests::generator::safetensors::Dtype;
use voxtral_tests::generator::{Spec, Weights};
use voxtral_tests::goldens;
use voxtral_tests::program::{arg, clip, run, voxtral};

use crate::support::{Running, fed, raw, to_raw, told};

fn interrupt(running: &Running) {
    send(running, Signal::INT);
}

fn send(running: &Running, signal: Signal) {
    let pid = Pid::from_raw(running.child.id() as i32).unwrap();
    kill_process(pid, signal).unwrap();
}

/// M5: Ctrl-C ends the sentence: all that came before it is heard, and the program ends as at the end of the audio.
#[test]
fn m5_ctrl_c_finishes_the_sentence() {
    let mut running = Running::start(&["--stdin", "-I", "0.08", "--silent"]);
    running.stdin().write_all(&raw(0)).unwrap();
    running.wait_for("one four six six");
    interrupt(&running);
    let ran = running.wait_with_open_input();
    assert_eq!((ran.code, ran.stdout), (Some(0), clip(0).1 + "\n"));
}

/// M5: so do signals that ask a program to end, with the status that shells have for them.
#[test]
fn m5_term_and_hup_finish_the_sentence() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut running = Running::start(&["--stdin", "-I", "0.08", "--silent"]);
        running.stdin().write_all(&raw(0)).unwrap();
        running.wait_for("one four six six");
        send(&running, signal);
        let ran = running.wait_with_open_input();
        assert_eq!((ran.code, ran.stdout), (Some(code), clip(0).1 + "\n"));
    }
}

/// What was odd until Ctrl-C is told, but not that the audio ends in the middle of a sample.
#[test]
fn ctrl_c_tells_what_was_odd() {
    let mut running = Running::start(&["--stdin", "-I", "0.08", "--silent", "--format", "f32le"]);
    let samples = &goldens::clips()[0].samples;
    let mut bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    bytes[40..44].copy_from_slice(&f32::NAN.to_le_bytes());
    bytes.push(0);
    running.stdin().write_all(&bytes).unwrap();
    running.wait_for("one four six six");
    interrupt(&running);
    let ran = running.wait_with_open_input();
    assert_eq!((ran.code, ran.stdout), (Some(0), clip(0).1 + "\n"));
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("1 sample was NaN or infinite"), "{}", ran.stderr);
}

/// M5: a second one does not wait.
#[test]
fn m5_a_second_ctrl_c_stops_at_once() {
    let directory = tempfile::tempdir().unwrap();
    // More work than is done before the second one.
    let mut spec = Spec::variant('B');
    spec.encoder.n_layers = 20;
    spec.encoder.hidden_dim = 16_384;
    spec.write(directory.path(), Dtype::Bf16, Weights::Sparse).unwrap();
    let mut running = Running::start(&["--stdin", "-d", arg(directory.path()), "--gate", "off"]);
    running.stdin().write_all(&vec![1; 320_000]).unwrap();
    thread::sleep(Duration::from_millis(500));
    interrupt(&running);
    thread::sleep(Duration::from_millis(300));
    assert!(running.child.try_wait().unwrap().is_none(), "the first lets it work");
    send(&running, Signal::TERM);
    let ran = running.wait_with_open_input();
    assert_eq!(ran.code, Some(143), "a status, not the end by a signal");
}

/// M5: whoever read the text went away, or there is no room for it.
#[test]
fn m5_closed_pipes_and_full_disks() {
    let mut command = voxtral();
    command.args(["--stdin", "--silent", "-I", "0.08"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    // It may have gone away before it has read all of it.
    let _ = stdin.write_all(&raw(0));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(output.stderr, b"");
    drop(stdin);

    let ran = fed(&["--stdin", "-o", "/dev/full"], &raw(0), 65_536);
    ran.assert_refused(&["cannot write the output", "No space"]);
}

/// D5: end of text in the middle of a live stream does not end it; that of a file it does.
#[test]
fn d5_end_of_text_does_not_end_a_live_stream() {
    let directory = tempfile::tempdir().unwrap();
    Spec::variant('E')
        .write(directory.path(), Dtype::Bf16, Weights::Full(2))
        .unwrap();
    // Of which the stored tokens of this model end early.
    let file = goldens::clips_dir().join("../../goldens/audio/speech_b.wav");
    let wav = std::fs::read(&file).unwrap();
    let positions = |ran| told(&ran, ": positions ").parse::<usize>().unwrap();
    let model = ["-d", arg(directory.path()), "--debug"];
    let by_path = positions(run([&model[..], &[arg(&file)]].concat()));
    let live = positions(fed(&[&model[..], &["--stdin", "--gate", "off"]].concat(), &wav, 65_536));
    assert!(by_path < live, "the file's text ended: {by_path} of {live}");
    let all = (wav.len() - 44) / 2 / 1280;
    assert!(live > all, "padding included: {live} for {all}");
}

/// D6: the last syllable at the very last sample is heard.
#[test]
fn d6_the_last_syllable_at_the_very_last_sample() {
    let mut samples = goldens::clips()[0].samples.clone();
    let last = samples.iter().rposition(|sample| sample.abs() > 0.01).unwrap();
    samples.truncate(last + 1);
    let ran = fed(&["--stdin", "--silent"], &to_raw(&samples), 65_536);
    assert_eq!(ran.stdout.trim_end(), clip(0).1);
}
