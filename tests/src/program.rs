//! The `voxtral` program, run as people run it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::goldens;

/// The files of a model directory.
pub const MODEL_FILES: [&str; 3] = ["consolidated.safetensors", "params.json", "tekken.json"];

/// A clip of the repository, and the text that the small model gives it at a delay of 480 ms.
pub fn clip(index: usize) -> (PathBuf, String) {
    let clip = &goldens::clips()[index];
    let mut delays = clip.delays.iter();
    let delay6 = delays
        .find(|result| result.delay_tokens == 6)
        .expect("a result at 480 ms");
    (goldens::clips_dir().join(&clip.file), delay6.text.clone())
}

/// A directory with the small model's files.
pub fn model() -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for file in MODEL_FILES {
        fs::copy(goldens::nano_dir().join(file), directory.path().join(file)).expect(file);
    }
    directory
}

/// A path as an argument.
pub fn arg(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A WAV of 16 kHz with the clips one after the other, again and again, `seconds` long at least.
pub fn long_wav(path: &Path, seconds: usize) {
    let format = hound::WavSpec {
        channels: 1,
        sample_rate: 16_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(path, format).expect("a file");
    let clips = goldens::clips();
    for clip in clips.iter().cycle() {
        for sample in &clip.samples {
            writer.write_sample((sample * 32768.0) as i16).expect("room");
        }
        if writer.duration() as usize >= seconds * 16_000 {
            break;
        }
    }
    writer.finalize().expect("room");
}

/// The program, built if it is not fresh, beside the tests that run it; or the one that the environment variable
/// `VOXTRAL_PROGRAM` names.
pub fn path() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(program) = std::env::var_os("VOXTRAL_PROGRAM") {
            return program.into();
        }
        let test = std::env::current_exe().expect("the path of this test");
        // <target>/<profile>/deps/<test>
        let profile = test
            .parent()
            .and_then(|deps| deps.parent())
            .expect("a target directory");
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "-q", "-p", "voxtral", "--bin", "voxtral", "--target-dir"]);
        build.arg(profile.parent().expect("a target directory"));
        if profile.ends_with("release") {
            build.arg("--release");
        }
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(build.status().expect("cargo").success(), "the program does not build");
        profile.join("voxtral")
    })
}

/// The program, with nothing on standard input and no model in the environment.
pub fn voxtral() -> Command {
    let mut command = Command::new(path());
    command.env_remove("VOXTRAL_MODEL").stdin(Stdio::null());
    command
}

/// Runs it with arguments.
pub fn run<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Ran {
    Ran::from(voxtral().args(args).output().expect("the program runs"))
}

/// What a run left.
#[derive(Debug)]
pub struct Ran {
    /// Exit code, if it was not killed.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Ran {
    /// Asserts a failure told in one line on standard error that has all of `words`, with nothing on standard output.
    pub fn assert_refused(&self, words: &[&str]) {
        assert!(self.code.is_some_and(|code| code != 0), "exit status: {self:?}");
        assert_eq!(self.stdout, "", "nothing half-done");
        let told = self
            .stderr
            .lines()
            .filter(|line| !line.contains("no -d DIR given"))
            .collect::<Vec<_>>();
        assert_eq!(told.len(), 1, "one plain line: {self:?}");
        for word in words {
            assert!(told[0].contains(word), "{word:?} is not in: {}", told[0]);
        }
    }
}
