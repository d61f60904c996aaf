//! How the program ends when something happens while it runs, and what it tells when nothing does.
#![cfg(target_os = "linux")]

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use voxtral_tests::program::{Ran, arg, clip, long_wav, model, path, run, voxtral};

/// Seconds of audio that keep the program busy for longer than a test needs to do something to it.
const LONG: usize = 1200;

/// The program in the middle of a long file: its first text has come.
struct Busy {
    child: Child,
    /// What has come.
    text: Vec<u8>,
}

impl Busy {
    fn new(mut command: Command, seconds: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("long.wav");
        long_wav(&file, seconds);
        command.arg("-i").arg(&file).arg("--silent");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut text = vec![0; 8];
        child.stdout.as_mut().unwrap().read_exact(&mut text).unwrap();
        // The file is open; its name may go.
        Self { child, text }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The rest of its output, and how it ended.
    fn end(mut self) -> (ExitStatus, String, String) {
        let mut stderr = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_end(&mut self.text).unwrap();
        }
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (
            self.child.wait().unwrap(),
            String::from_utf8(self.text).unwrap(),
            stderr,
        )
    }
}

/// S16: the weights shrink while they are mapped: one line that names the file, and a status of its own.
#[test]
fn s16_a_model_that_shrinks_is_told() {
    let model = model();
    let weights = model.path().join("consolidated.safetensors");
    let mut command = voxtral();
    command.arg("-d").arg(model.path());
    let busy = Busy::new(command, LONG);
    OpenOptions::new()
        .write(true)
        .open(&weights)
        .unwrap()
        .set_len(4096)
        .unwrap();
    let (status, text, stderr) = busy.end();
    assert_eq!(status.code(), Some(135), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(
        stderr.contains(arg(&weights)) && stderr.contains("shortened"),
        "{stderr}"
    );
    assert!(text.len() >= 8);
}

/// S16: replaced by a rename, the old one stays mapped.
#[test]
fn s16_a_model_that_is_replaced_is_no_matter() {
    let model = model();
    let weights = model.path().join("consolidated.safetensors");
    let mut command = voxtral();
    command.arg("-d").arg(model.path());
    let busy = Busy::new(command, 120);
    let other = model.path().join("other");
    fs::write(&other, "no model").unwrap();
    fs::rename(&other, &weights).unwrap();
    let (status, text, stderr) = busy.end();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    assert!(text.ends_with('\n'));
}

/// The handler answers for mapped files only.
#[test]
fn sigbus_from_elsewhere_ends_the_program_by_the_signal() {
    let busy = Busy::new(voxtral(), LONG);
    busy.signal(Signal::BUS);
    let (status, _, stderr) = busy.end();
    assert_eq!((status.signal(), stderr.as_str()), (Some(Signal::BUS.as_raw()), ""));
}

/// M5: Ctrl-C: the text so far, the end of its line, and the status that shells expect.
#[test]
fn m5_ctrl_c_ends_with_the_text_so_far() {
    let busy = Busy::new(voxtral(), LONG);
    busy.signal(Signal::INT);
    let (status, text, stderr) = busy.end();
    assert_eq!((status.code(), stderr.as_str()), (Some(130), ""));
    let text = text.strip_suffix('\n').expect("a whole line");
    let whole = {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("long.wav");
        long_wav(&file, text.len());
        run([arg(&file), "--silent"]).stdout
    };
    assert!(whole.starts_with(text.trim_end()), "{text:?} does not begin {whole:?}");
}

/// M5: signals that ask a program to end do the same, with their own status.
#[test]
fn m5_term_and_hup_end_with_the_text_so_far() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let busy = Busy::new(voxtral(), LONG);
        busy.signal(signal);
        let (status, text, stderr) = busy.end();
        assert_eq!((status.code(), stderr.as_str()), (Some(code), ""));
        assert!(text.ends_with('\n'));
    }
}

/// M5: the second one ends at once, by such a status and with the end of the line.
#[test]
fn m5_two_at_once_end_with_the_line() {
    for _ in 0..3 {
        let busy = Busy::new(voxtral(), LONG);
        // Not the same twice: of that one may be left while the program gets to it.
        busy.signal(Signal::INT);
        busy.signal(Signal::TERM);
        let (status, text, stderr) = busy.end();
        assert!(matches!(status.code(), Some(130 | 143)), "{status}");
        assert_eq!(stderr, "");
        assert!(text.ends_with('\n'), "{text:?}");
    }
}

/// M5: JSON is one document, with what was heard so far and why it ends.
#[test]
fn m5_json_is_whole_after_ctrl_c() {
    let directory = tempfile::tempdir().unwrap();
    let long = directory.path().join("long.wav");
    long_wav(&long, LONG);
    let (short, text) = clip(0);
    let mut command = voxtral();
    command.args([arg(&short), arg(&long), "--output", "json", "--silent"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    // The first document has come, and the second has begun.
    let mut first = vec![0; 40];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut json = String::from_utf8(first).unwrap();
    stdout.read_to_string(&mut json).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let document: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let [whole, part] = &document.as_array().unwrap()[..] else {
        panic!("{document}");
    };
    assert_eq!(
        (&whole["text"], &whole["error"]),
        (&text.into(), &serde_json::Value::Null)
    );
    assert_eq!(
        (&part["file"], &part["error"]),
        (&arg(&long).into(), &"interrupted".into())
    );
    assert!(!part["words"].as_array().unwrap().is_empty());
}

/// M5: a program that was told to ignore Ctrl-C, as `nohup` does for hang-ups, goes on.
#[test]
fn m5_ctrl_c_that_is_ignored_stays_ignored() {
    let mut command = Command::new("sh");
    command.env_remove("VOXTRAL_MODEL").stdin(Stdio::null());
    command.args(["-c", "trap '' INT; exec \"$@\"", "sh"]).arg(path());
    let busy = Busy::new(command, 120);
    busy.signal(Signal::INT);
    let (status, text, stderr) = busy.end();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    assert!(text.ends_with('\n'));
}

/// M5: whoever read the text has gone away: no error, no panic.
#[test]
fn m5_a_closed_pipe_is_a_quiet_end() {
    let mut busy = Busy::new(voxtral(), LONG);
    drop(busy.child.stdout.take());
    let (status, _, stderr) = busy.end();
    assert_eq!((status.code(), stderr.as_str()), (Some(141), ""));

    // What the other commands print is shorter than a pipe, which therefore has to be closed before.
    for args in [&["memory"][..], &["completions", "bash"], &["man"]] {
        let (read, write) = rustix::pipe::pipe().unwrap();
        drop(read);
        let output = voxtral()
            .args(args)
            .stdout(write)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(141), "{args:?}: {stderr}");
        assert!(stderr.lines().all(|line| line.contains("no -d DIR given")), "{stderr}");
    }
}

/// Nobody reads standard error: the text comes all the same.
#[test]
fn a_closed_standard_error_is_no_matter() {
    let (file, text) = clip(0);
    let mut child = voxtral()
        .args([arg(&file), "--debug"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stdout), (Some(0), text + "\n"));
}

/// M5: a full disk is an error that says so.
#[test]
fn m5_a_full_disk_is_told() {
    let (file, _) = clip(0);
    for args in [
        &[arg(&file), arg(&file)][..],
        &["memory"],
        &["man"],
        &["completions", "zsh"],
        &["--help"],
        &["--version"],
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = voxtral()
            .args(args)
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let ran = Ran::from(output);
        assert_eq!(ran.code, Some(1));
        ran.assert_refused(&["cannot write the output", "No space left"]);
    }
}

/// Standard output that cannot be written to, or is closed, is told.
#[test]
fn standard_output_that_takes_nothing_is_told() {
    let (file, _) = clip(0);
    for args in [
        &[arg(&file), "--silent"][..],
        &["memory"],
        &["man"],
        &["completions", "zsh"],
        &["--help"],
    ] {
        let shell = |redirect: &str| {
            let mut command = Command::new("sh");
            command.env_remove("VOXTRAL_MODEL").stdin(Stdio::null());
            command
                .args(["-c", &format!("exec \"$@\" {redirect}"), "sh"])
                .arg(path())
                .args(args);
            Ran::from(command.output().unwrap())
        };
        let read_only = shell("1</dev/null");
        assert_eq!(read_only.code, Some(1), "{args:?}");
        read_only.assert_refused(&["cannot write the output", "Bad file descriptor"]);
        let closed = shell(">&-");
        assert!(closed.stderr.contains("standard output is closed"), "{closed:?}");
        assert!(!shell(">/dev/null").stderr.contains("standard output"));
    }
}

/// A pipe that another program made non-blocking is waited for.
#[test]
fn a_non_blocking_pipe_is_waited_for() {
    let expected = run(["completions", "zsh"]).stdout;
    let (read, write) = rustix::pipe::pipe().unwrap();
    rustix::fs::fcntl_setfl(&write, rustix::fs::OFlags::NONBLOCK).unwrap();
    rustix::pipe::fcntl_setpipe_size(&write, 4096).unwrap();
    let mut command = voxtral();
    command
        .args(["completions", "zsh"])
        .stdout(write)
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    drop(command);
    std::thread::sleep(std::time::Duration::from_millis(200));
    let mut text = String::new();
    File::from(read).read_to_string(&mut text).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text, expected);
    assert!(text.len() > 4096);
}

/// Number after `before`, up to the next space.
fn number(text: &str, before: &str) -> f64 {
    let (_, rest) = text
        .split_once(before)
        .unwrap_or_else(|| panic!("{before:?} is not in {text}"));
    rest.split_whitespace()
        .next()
        .unwrap()
        .trim_end_matches(',')
        .parse()
        .unwrap()
}

#[test]
fn the_report_tells_times_and_memory() {
    let (file, _) = clip(0);
    let frames = hound::WavReader::open(&file).unwrap().duration();
    let stderr = run([arg(&file)]).stderr;
    let audio = number(&stderr, &format!("{}: ", file.display()));
    assert!((audio - f64::from(frames) / 16e3).abs() < 0.006, "{audio}");
    let seconds = number(&stderr, "of audio in ");
    let factor = number(&stderr, "real-time factor ");
    assert!((factor - seconds / audio).abs() < 0.01, "{stderr}");
    let parts = number(&stderr, "encoder ") + number(&stderr, "prefill ") + number(&stderr, "steps ");
    assert!(parts > 0.0 && parts <= 1e3 * seconds + 10.0, "{stderr}");
    let (total, own, files) = (
        number(&stderr, "peak memory "),
        number(&stderr, "allocated "),
        number(&stderr, "mapped files "),
    );
    assert!(own > 0.5 && files > 2.0, "the model is mapped and was read: {stderr}");
    assert!(total >= own.max(files) - 1.0 && total <= own + files + 1.0, "{stderr}");
}

/// M3: weights larger than what is free: told once with both numbers, and still correct.
///
/// The file has an extra tensor that no model has, and that is a hole.
#[test]
fn m3_weights_larger_than_memory_are_told() {
    let (file, text) = clip(0);
    let model = model();
    let directory = arg(model.path());
    let ran = run(["-d", directory, arg(&file)]);
    assert!(!ran.stderr.contains("low memory"), "{ran:?}");

    let path = model.path().join("consolidated.safetensors");
    let whole = fs::read(&path).unwrap();
    let header_len = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let (header, data) = whole[8..].split_at(header_len);
    let large: u64 = 4 << 40;
    let (begin, end) = (data.len() as u64, data.len() as u64 + large);
    let mut header = String::from_utf8(header.to_vec()).unwrap().trim_end().to_owned();
    assert_eq!(header.pop(), Some('}'));
    header += &format!(r#","extra":{{"dtype":"U8","shape":[{large}],"data_offsets":[{begin},{end}]}}}}"#);
    let mut sparse = File::create(&path).unwrap();
    sparse.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    sparse.write_all(header.as_bytes()).unwrap();
    sparse.write_all(data).unwrap();
    let end = sparse.stream_position().unwrap() + large;
    sparse.set_len(end).unwrap();

    let files = [arg(&file), arg(&file)];
    let ran = run([&["-d", directory], &files[..]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), [&text, &text]);
    let told: Vec<_> = ran.stderr.lines().filter(|line| line.contains("low memory")).collect();
    assert_eq!(told.len(), 1, "{ran:?}");
    assert_eq!(number(told[0], "the model has "), (end as f64 * 1e-6).round());
    let available = number(told[0], "works in 2 MB, ");
    assert!(available > 1.0 && available < end as f64 * 1e-6, "{}", told[0]);
    let silent = run(["-d", directory, arg(&file), "--silent"]);
    assert_eq!((silent.code, silent.stderr.as_str()), (Some(0), ""));
}

/// A bar on a terminal, none in a pipe, and nothing left of it at the end.
#[test]
fn a_terminal_gets_a_progress_bar() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("long.wav");
    long_wav(&file, 30);
    let seen = |flags: &[&str]| {
        let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&main).unwrap();
        unlockpt(&main).unwrap();
        let name = ptsname(&main, Vec::new()).unwrap();
        let terminal = OpenOptions::new()
            .read(true)
            .write(true)
            .open(Path::new(name.to_str().unwrap()))
            .unwrap();
        let mut command = voxtral();
        command
            .env("TERM", "xterm")
            .args(flags)
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(terminal);
        let mut child = command.spawn().unwrap();
        // The last handle of the terminal's other side, so that reading ends when the program does.
        drop(command);
        let mut seen = Vec::new();
        let mut main = File::from(main);
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = main.read(&mut piece) {
            seen.extend(&piece[..read]);
        }
        assert!(child.wait().unwrap().success());
        String::from_utf8_lossy(&seen).into_owned()
    };
    let bar = seen(&[]);
    assert!(
        bar.contains("of 32 s") || bar.contains("of 31 s") || bar.contains("of 30 s"),
        "{bar:?}"
    );
    let (_, after) = bar.rsplit_once("s left").unwrap();
    assert!(after.contains("\u{1b}[2K"), "the bar is gone: {after:?}");
    assert!(after.contains("real-time factor"));
    assert_eq!(seen(&["--silent"]), "");
    assert!(!run([arg(&file)]).stderr.contains("s left"));
}
