//! What is written: text, words with times, captions; to standard output or to a file.

use std::io::{self, BufWriter, Write};

use clap::ValueEnum;
use serde_json::Value;
use voxtral_core::audio::SAMPLE_RATE;

use super::captions::{Captions, Style};
use super::new_file::NewFile;
use super::stdout::Stdout;
use crate::error::Error;
use crate::interrupt;
use crate::model::Model;
use crate::text::Text;
use crate::transcriber::{Decided, Listener};
use crate::words::{Nearest, Word, Words};

/// The forms of output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// The text, a line for each input
    #[default]
    Txt,
    /// One array with an object for each input: text, words with times and probabilities
    Json,
    /// A line of JSON for each word, as soon as it is decided
    Jsonl,
    /// Captions (SubRip), of one input
    Srt,
    /// Captions (WebVTT), of one input
    Vtt,
}

impl Format {
    /// Whether several inputs can go into it.
    pub(super) fn takes_several(self) -> bool {
        !matches!(self, Self::Srt | Self::Vtt)
    }

    /// Whether it says how likely words are.
    pub(super) fn has_probabilities(self) -> bool {
        matches!(self, Self::Json | Self::Jsonl)
    }
}

/// Writes what the model says, input by input.
pub(super) struct Output<'m> {
    target: Target,
    form: Form<'m>,
    /// How an input is called where several of them go into one output.
    name: String,
    /// Samples of the input so far.
    samples: u64,
}

enum Form<'m> {
    Text {
        text: Text<'m>,
        /// How much less likely the alternatives are that are shown.
        alternatives: Option<(f32, u32)>,
    },
    Words {
        words: Words<'m>,
        form: WordForm,
    },
}

enum WordForm {
    Json { words: Vec<Word>, written: bool },
    Lines,
    Captions(Captions),
}

impl<'m> Output<'m> {
    /// Output in a form, to a file or to standard output, with alternatives up to a cutoff.
    pub(super) fn new(model: &'m Model, format: Format, alt: Option<f32>, file: Option<NewFile>) -> Self {
        let words = |form| Form::Words {
            words: Words::new(model, alt),
            form,
        };
        let form = match format {
            Format::Txt => Form::Text {
                text: Text::new(model),
                alternatives: alt.map(|cutoff| (cutoff, model.vocabulary().n_special)),
            },
            Format::Json => words(WordForm::Json {
                words: Vec::new(),
                written: false,
            }),
            Format::Jsonl => words(WordForm::Lines),
            Format::Srt => words(WordForm::Captions(Captions::new(Style::Srt))),
            Format::Vtt => words(WordForm::Captions(Captions::new(Style::Vtt))),
        };
        Self {
            target: Target::new(file),
            form,
            name: String::new(),
            samples: 0,
        }
    }

    /// An input begins.
    pub(super) fn begin(&mut self, name: String) -> Result<(), Error> {
        self.name = name;
        match &mut self.form {
            Form::Words {
                words,
                form: WordForm::Captions(captions),
            } => {
                words.reset();
                self.target.put(captions.head())?;
                self.target.flush().map_err(Error::Output)
            }
            Form::Words { words, .. } => {
                words.reset();
                Ok(())
            }
            Form::Text { .. } => Ok(()),
        }
    }

    /// Shows the audio of the input, before what is said in it.
    pub(super) fn hear(&mut self, samples: &[f32]) {
        self.samples += samples.len() as u64;
        if let Form::Words { words, .. } = &mut self.form {
            words.hear(samples);
        }
    }

    /// So many samples were lost.
    pub(super) fn hear_nothing(&mut self, samples: u64) {
        let silence = [0.0; 4096];
        let mut left = samples;
        while left > 0 {
            let count = left.min(silence.len() as u64);
            self.hear(&silence[..count as usize]);
            left -= count;
        }
    }

    /// From a second on so many seconds of audio were lost: an event where there are events.
    pub(super) fn gap(&mut self, from: f64, seconds: f64) -> Result<(), Error> {
        let Form::Words {
            form: WordForm::Lines, ..
        } = &self.form
        else {
            return Ok(());
        };
        let name = field("file", &self.name);
        let line = format!("{{{name},\"event\":\"lost\",\"start\":{from:.2},\"seconds\":{seconds:.2}}}\n");
        self.target.put(&line)?;
        self.target.flush().map_err(Error::Output)
    }

    /// A pause: all words have been decided, and nothing is added to a caption.
    pub(super) fn pause(&mut self) -> Result<(), Error> {
        let Form::Words { words, .. } = &mut self.form else {
            return Ok(());
        };
        if let Some(word) = words.end() {
            self.word(word)?;
        }
        if let Form::Words {
            form: WordForm::Captions(captions),
            ..
        } = &mut self.form
        {
            if let Some(caption) = captions.end() {
                self.target.put(&caption)?;
                self.target.flush().map_err(Error::Output)?;
            }
        }
        Ok(())
    }

    /// The end of an input.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        self.pause()?;
        let seconds = self.take_seconds();
        match &mut self.form {
            Form::Text { text, .. } => {
                text.finish(&mut self.target)?;
                self.target.end_line()?;
            }
            Form::Words {
                form: WordForm::Json { words, written },
                ..
            } => {
                let document = document(&self.name, seconds, words, None);
                self.target.put(if *written { ",\n" } else { "[\n" })?;
                self.target.put(&document)?;
                *written = true;
                words.clear();
            }
            Form::Words { .. } => {}
        }
        self.target.flush().map_err(Error::Output)
    }

    /// The end of an input that failed: what was said so far is written. In JSON there is an
    /// object with the error as well, if anything was heard.
    pub(super) fn give_up(&mut self, error: &Error) -> Result<(), Error> {
        self.pause()?;
        let seconds = self.take_seconds();
        match &mut self.form {
            Form::Text { text, .. } => {
                text.finish(&mut self.target)?;
                if self.target.begun {
                    self.target.end_line()?;
                }
            }
            Form::Words {
                form: WordForm::Json { words, written },
                ..
            } if seconds > 0.0 => {
                let document = document(&self.name, seconds, words, Some(error));
                self.target.put(if *written { ",\n" } else { "[\n" })?;
                self.target.put(&document)?;
                *written = true;
                words.clear();
            }
            Form::Words { .. } => {}
        }
        self.target.flush().map_err(Error::Output)
    }

    /// The end of all inputs. A file is there under its name from now on.
    pub(super) fn close(mut self) -> Result<(), Error> {
        self.end_document()?;
        self.target.close()
    }

    /// The end of everything before the end of the inputs. Standard output is a whole document nevertheless; a file
    /// is not whole, and never gets its name.
    pub(super) fn break_off(mut self) -> Result<(), Error> {
        self.end_document()?;
        self.target.flush().map_err(Error::Output)
    }

    fn end_document(&mut self) -> Result<(), Error> {
        match &self.form {
            Form::Words {
                form: WordForm::Json { written, .. },
                ..
            } => self.target.put(if *written { "\n]\n" } else { "[]\n" }),
            _ => Ok(()),
        }
    }

    /// Length of the input that ends, in seconds.
    fn take_seconds(&mut self) -> f64 {
        std::mem::take(&mut self.samples) as f64 / SAMPLE_RATE as f64
    }

    fn word(&mut self, word: Word) -> Result<(), Error> {
        let Form::Words { form, .. } = &mut self.form else {
            return Ok(());
        };
        match form {
            WordForm::Json { words, .. } => words.push(word),
            WordForm::Lines => {
                let line = format!("{{{},{}}}\n", field("file", &self.name), fields(&word));
                self.target.put(&line)?;
                self.target.flush().map_err(Error::Output)?;
            }
            WordForm::Captions(captions) => {
                if let Some(caption) = captions.push(&word) {
                    self.target.put(&caption)?;
                    self.target.flush().map_err(Error::Output)?;
                }
            }
        }
        Ok(())
    }
}

impl Listener for Output<'_> {
    fn token(&mut self, token: &Decided<'_>) -> Result<(), Error> {
        match &mut self.form {
            Form::Text {
                text,
                alternatives: Some((cutoff, n_special)),
            } if token.id >= *n_special => {
                let others: Vec<u32> = Nearest::of(token, *n_special, Some(*cutoff))
                    .others()
                    .map(|(id, _)| id)
                    .collect();
                text.push_alternatives(token.id, &others, &mut self.target)
            }
            Form::Text { text, .. } => text.push(token.id, &mut self.target),
            Form::Words { words, .. } => match words.push(token)? {
                Some(word) => self.word(word),
                None => Ok(()),
            },
        }
    }

    fn worked(&mut self) -> Result<(), Error> {
        match &mut self.form {
            Form::Text { text, .. } => text.prepare(),
            Form::Words { words, .. } => words.prepare(),
        }
    }
}

/// A string with its name.
fn field(name: &str, text: &str) -> String {
    format!("\"{name}\":{}", Value::from(text))
}

/// The members of a word's object.
fn fields(word: &Word) -> String {
    let others: Vec<String> = word
        .alternatives
        .iter()
        .map(|other| {
            format!(
                "{{{},\"probability\":{:.4}}}",
                field("text", &other.text),
                other.probability
            )
        })
        .collect();
    format!(
        "{},\"start\":{:.2},\"end\":{:.2},\"probability\":{:.4},\"alternatives\":[{}]",
        field("text", &word.text),
        word.start,
        word.end,
        word.probability,
        others.join(",")
    )
}

/// The object of an input, as far as it was heard where there was an error.
fn document(name: &str, seconds: f64, words: &[Word], error: Option<&Error>) -> String {
    let text: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let words: Vec<String> = words.iter().map(|word| format!("\n  {{{}}}", fields(word))).collect();
    let error = error.map_or(String::new(), |error| {
        format!(",{}", field("error", &error.to_string()))
    });
    format!(
        "{{{},\"duration\":{seconds:.3},{},\"words\":[{}]{error}}}",
        field("file", name),
        field("text", &text.join(" ")),
        words.join(",")
    )
}

/// Where the output goes, which knows whether it is inside a line.
struct Target {
    out: Destination,
    begun: bool,
}

enum Destination {
    Standard(BufWriter<Stdout>),
    File(NewFile),
}

impl Target {
    fn new(file: Option<NewFile>) -> Self {
        let out = match file {
            None => Destination::Standard(BufWriter::new(Stdout)),
            Some(file) => Destination::File(file),
        };
        Self { out, begun: false }
    }

    fn put(&mut self, text: &str) -> Result<(), Error> {
        self.out().write_all(text.as_bytes()).map_err(Error::Output)
    }

    /// The end of a line of text.
    fn end_line(&mut self) -> Result<(), Error> {
        self.put("\n")?;
        self.begun = false;
        self.flush().map_err(Error::Output)
    }

    fn out(&mut self) -> &mut dyn Write {
        match &mut self.out {
            Destination::Standard(out) => out,
            Destination::File(file) => file,
        }
    }

    fn close(mut self) -> Result<(), Error> {
        self.flush().map_err(Error::Output)?;
        match self.out {
            Destination::Standard(_) => Ok(()),
            Destination::File(file) => file.keep().map_err(Error::Output),
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun |= !bytes.is_empty();
        self.out().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out().flush()?;
        if let Destination::Standard(_) = self.out {
            interrupt::set_line_begun(self.begun);
        }
        Ok(())
    }
}
