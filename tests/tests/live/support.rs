//! Programs that are fed while they run.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use voxtral_tests::goldens;
use voxtral_tests::program::{Ran, clip, voxtral};

/// Longer than anything takes, on a machine that has much else to do.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The samples of a clip as s16le.
pub fn raw(index: usize) -> Vec<u8> {
    to_raw(&goldens::clips()[index].samples)
}

pub fn to_raw(samples: &[f32]) -> Vec<u8> {
    let bytes = samples
        .iter()
        .flat_map(|sample| ((sample * 32768.0) as i16).to_le_bytes());
    bytes.collect()
}

/// The bytes of a clip's WAV.
pub fn wav(index: usize) -> Vec<u8> {
    std::fs::read(clip(index).0).unwrap()
}

/// Runs the program with all of `bytes` on standard input, written in pieces of `cut`.
pub fn fed(args: &[&str], bytes: &[u8], cut: usize) -> Ran {
    let mut running = Running::start(args);
    for piece in bytes.chunks(cut) {
        if running.stdin().write_all(piece).is_err() {
            // It has refused what came before.
            break;
        }
    }
    running.end()
}

/// The value behind a name in what `--debug` tells.
pub fn told(ran: &Ran, name: &str) -> String {
    let line = ran.stderr.lines().find(|line| line.contains(name));
    let line = line.unwrap_or_else(|| panic!("no {name}: {ran:?}"));
    line.split_whitespace().last().unwrap().to_owned()
}

/// A program that runs.
pub struct Running {
    pub child: Child,
    stdin: Option<ChildStdin>,
    stdout: Receiver<u8>,
    heard: Vec<u8>,
}

impl Running {
    pub fn start(args: &[&str]) -> Self {
        let mut command = voxtral();
        command.args(args).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (send, stdout) = mpsc::channel();
        let out = child.stdout.take().unwrap();
        thread::spawn(move || {
            for byte in BufReader::with_capacity(1, out).bytes() {
                let Ok(byte) = byte else { return };
                if send.send(byte).is_err() {
                    return;
                }
            }
        });
        Self {
            stdin: child.stdin.take(),
            child,
            stdout,
            heard: Vec::new(),
        }
    }

    pub fn stdin(&mut self) -> &mut ChildStdin {
        self.stdin.as_mut().expect("not closed yet")
    }

    /// Waits until standard output contains `text`.
    pub fn wait_for(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !String::from_utf8_lossy(&self.heard).contains(text) {
            let left = until.saturating_duration_since(Instant::now());
            match self.stdout.recv_timeout(left) {
                Ok(byte) => self.heard.push(byte),
                Err(_) => panic!("{text:?} is not in {:?}", String::from_utf8_lossy(&self.heard)),
            }
        }
    }

    /// Closes standard input.
    pub fn end(mut self) -> Ran {
        self.stdin = None;
        self.wait()
    }

    /// Waits for its end, with standard input still open.
    pub fn wait_with_open_input(mut self) -> Ran {
        let stdin = self.stdin.take();
        let ran = self.wait();
        drop(stdin);
        ran
    }

    fn wait(mut self) -> Ran {
        let mut stderr = String::new();
        for line in BufReader::new(self.child.stderr.take().unwrap()).lines() {
            stderr += &(line.unwrap() + "\n");
        }
        let status = self.child.wait().unwrap();
        self.heard.extend(self.stdout.iter());
        Ran {
            code: status.code(),
            stdout: String::from_utf8(self.heard).unwrap(),
            stderr,
        }
    }
}
