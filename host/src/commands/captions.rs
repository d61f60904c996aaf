//! Words to captions that people can read: SubRip (srt) and WebVTT (vtt).

use crate::words::Word;

/// Characters in a line, and lines in a caption.
const LINE: usize = 42;
const LINES: usize = 2;
/// Seconds that a caption lasts at most.
const LONGEST: f64 = 6.0;
/// Seconds of silence that end a caption.
const PAUSE: f64 = 1.0;
/// Seconds that a caption lasts at least.
const SHORTEST: f64 = 0.08;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Srt,
    Vtt,
}

/// The caption that is being put together.
pub(super) struct Captions {
    style: Style,
    lines: Vec<String>,
    start: f64,
    end: f64,
    number: u64,
}

impl Captions {
    pub(super) fn new(style: Style) -> Self {
        Self {
            style,
            lines: Vec::new(),
            start: 0.0,
            end: 0.0,
            number: 0,
        }
    }

    /// What a file of this kind begins with.
    pub(super) fn head(&self) -> &'static str {
        match self.style {
            Style::Srt => "",
            Style::Vtt => "WEBVTT\n\n",
        }
    }

    /// Takes a word; the caption before it, if it does not go into that one.
    pub(super) fn push(&mut self, word: &Word) -> Option<String> {
        let done = if self.fits(word) { None } else { self.end() };
        let text = match self.style {
            Style::Srt => word.text.clone(),
            Style::Vtt => word
                .text
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;"),
        };
        if self.lines.is_empty() {
            self.start = word.start;
        }
        match self.lines.last_mut() {
            Some(line) if length(line) + 1 + length(&text) <= LINE => {
                line.push(' ');
                line.push_str(&text);
            }
            _ => self.lines.push(text),
        }
        self.end = word.end;
        done
    }

    /// The last caption.
    pub(super) fn end(&mut self) -> Option<String> {
        if self.lines.is_empty() {
            return None;
        }
        self.number += 1;
        let lines = std::mem::take(&mut self.lines).join("\n");
        let (from, to) = (self.start, self.end.max(self.start + SHORTEST));
        let times = format!("{} --> {}", self.time(from), self.time(to));
        Some(match self.style {
            Style::Srt => format!("{}\n{times}\n{lines}\n\n", self.number),
            Style::Vtt => format!("{times}\n{lines}\n\n"),
        })
    }

    fn fits(&self, word: &Word) -> bool {
        let Some(line) = self.lines.last() else { return true };
        let room = self.lines.len() < LINES || length(line) + 1 + length(&word.text) <= LINE;
        let sentence_over = line.ends_with(['.', '?', '!', '…', '。', '？', '！']);
        room && !sentence_over && word.start - self.end < PAUSE && word.end - self.start <= LONGEST
    }

    fn time(&self, seconds: f64) -> String {
        let ms = (seconds * 1e3).round() as u64;
        let (s, m, h) = (ms / 1000 % 60, ms / 60_000 % 60, ms / 3_600_000);
        let comma = match self.style {
            Style::Srt => ',',
            Style::Vtt => '.',
        };
        format!("{h:02}:{m:02}:{s:02}{comma}{:03}", ms % 1000)
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}
