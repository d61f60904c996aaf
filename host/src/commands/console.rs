//! Standard error: what the program says beside the text.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Writes a line. Unlike `eprintln!` it does not mind that nobody reads it.
///
/// One line, whatever the names in it are: characters that would break it or steer a terminal are escaped.
pub(super) fn tell(line: impl Display) {
    let line: String = line
        .to_string()
        .chars()
        .map(|character| match character {
            // Beside control characters, those that turn the direction of text.
            c if c.is_control()
                || matches!(c, '\u{200E}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}') =>
            {
                c.escape_default().to_string()
            }
            c => c.to_string(),
        })
        .collect();
    let _ = writeln!(io::stderr().lock(), "voxtral: {line}");
}

/// What a person wants to see of the work.
pub(super) struct Console {
    silent: bool,
    bar: ProgressBar,
}

impl Console {
    /// `silent` leaves everything out but errors.
    pub(super) fn new(silent: bool) -> Self {
        Self {
            silent,
            bar: ProgressBar::hidden(),
        }
    }

    pub(super) fn is_silent(&self) -> bool {
        self.silent
    }

    /// Says something that is no error.
    pub(super) fn note(&self, line: impl Display) {
        if !self.silent {
            self.bar.suspend(|| tell(line));
        }
    }

    /// Says what went wrong.
    pub(super) fn error(&self, line: impl Display) {
        self.bar.suspend(|| tell(line));
    }

    /// Shows a bar from now on, until [`Console::end_bar`].
    ///
    /// Only where standard error is a terminal, and the text is not printed on one: there it is the progress, and a
    /// bar would write over its line.
    pub(super) fn begin_bar(&mut self, path: &Path, seconds: Option<f64>) {
        if self.silent || !io::stderr().is_terminal() || io::stdout().is_terminal() {
            return;
        }
        let seconds = seconds.map(|seconds| seconds.ceil() as u64);
        let template = match seconds {
            Some(_) => "{msg} {wide_bar} {pos} of {len} s, {eta} left",
            None => "{msg} {spinner} {pos} s of audio in {elapsed}",
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar = ProgressBar::with_draw_target(seconds, ProgressDrawTarget::stderr()).with_style(style);
        self.bar.set_message(path.display().to_string());
    }

    /// Shows a bar over bytes from now on, until [`Console::end_bar`]; only where standard error is a terminal.
    pub(super) fn begin_bytes(&mut self, what: &str, bytes: u64) {
        let template = "{msg} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        self.begin_with(template, what, bytes);
    }

    /// The same over things that are counted.
    pub(super) fn begin_count(&mut self, what: &str, count: u64) {
        self.begin_with("{msg} {wide_bar} {pos} of {len}, {eta} left", what, count);
    }

    fn begin_with(&mut self, template: &str, what: &str, len: u64) {
        if self.silent || !io::stderr().is_terminal() {
            return;
        }
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar = ProgressBar::with_draw_target(Some(len), ProgressDrawTarget::stderr()).with_style(style);
        self.bar.set_message(what.to_string());
    }

    /// Runs what writes to the terminal that the bar may be on.
    pub(super) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    /// So many seconds of the audio have been heard; the model hears on into the silence behind its end.
    pub(super) fn progress(&self, seconds: u64) {
        self.bar.set_position(seconds.min(self.bar.length().unwrap_or(seconds)));
    }

    pub(super) fn end_bar(&mut self) {
        self.bar.finish_and_clear();
        self.bar = ProgressBar::hidden();
    }
}
