//! Token ids to text: bytes joined to whole characters, ends stripped.

use std::io::{self, Write};

use voxtral_core::format::tekken::{IndexProgress, Vocabulary};
use voxtral_core::format::utf8::Utf8Joiner;

use crate::error::Error;
use crate::model::Model;

/// Entries of the vocabulary that one call of [`Text::prepare`] reads.
const PREPARE_ENTRIES: usize = 4096;

/// The bytes of tokens.
pub(crate) struct Pieces<'m> {
    vocabulary: &'m Vocabulary,
    tekken: &'m [u8],
    offsets: Vec<u32>,
    progress: IndexProgress,
}

impl<'m> Pieces<'m> {
    pub(crate) fn new(model: &'m Model) -> Self {
        let vocabulary = model.vocabulary();
        Self {
            vocabulary,
            tekken: model.tekken(),
            offsets: vec![0; vocabulary.index_len()],
            progress: IndexProgress::default(),
        }
    }

    pub(crate) fn vocabulary(&self) -> &'m Vocabulary {
        self.vocabulary
    }

    /// Builds a further part of the index, so that the first token need not wait for all of it.
    pub(crate) fn prepare(&mut self) -> Result<(), Error> {
        self.prepare_entries(PREPARE_ENTRIES)
    }

    fn prepare_entries(&mut self, entries: usize) -> Result<(), Error> {
        if !self.progress.is_complete() {
            self.vocabulary
                .index_step(self.tekken, &mut self.offsets, &mut self.progress, entries)?;
        }
        Ok(())
    }

    /// The bytes of a token: none for a control token.
    pub(crate) fn of(&mut self, id: u32) -> Result<impl Iterator<Item = u8> + use<'m>, Error> {
        self.prepare_entries(usize::MAX)?;
        Ok(self.vocabulary.piece(self.tekken, &self.offsets, id)?)
    }
}

/// Writes the text of one utterance as its tokens come.
///
/// White space at both ends of the text is left out (a word's token begins with a space), and a character that is
/// cut between tokens is held back until it is whole.
pub struct Text<'m> {
    pieces: Pieces<'m>,
    joiner: Utf8Joiner,
    begun: bool,
    spaces: Spaces,
}

/// White space that is written once something follows it.
#[derive(Clone, Copy, Default)]
struct Spaces {
    chars: [char; Spaces::MOST],
    len: usize,
}

impl Spaces {
    const MOST: usize = 16;
}

impl<'m> Text<'m> {
    /// The text of tokens of `model`.
    pub fn new(model: &'m Model) -> Self {
        Self {
            pieces: Pieces::new(model),
            joiner: Utf8Joiner::new(),
            begun: false,
            spaces: Spaces::default(),
        }
    }

    /// Builds a further part of the index from ids to text, so that the first token need not wait for all of it.
    ///
    /// # Errors
    /// [`Error::Text`] if `tekken.json` is damaged.
    pub fn prepare(&mut self) -> Result<(), Error> {
        self.pieces.prepare()
    }

    /// Writes the text of a token, as far as it is whole, and flushes if there was any.
    ///
    /// # Errors
    /// [`Error::Text`] for an id without text, [`Error::Output`] if it cannot be written.
    pub fn push(&mut self, id: u32, out: &mut dyn Write) -> Result<(), Error> {
        if id < self.pieces.vocabulary().n_special {
            return Ok(());
        }
        let bytes = self.pieces.of(id)?;
        self.write(bytes, out)
    }

    /// Writes a token and others that might have come in its place, as `[one|other]`. Without others, or if one of
    /// them is no whole character, only the token.
    ///
    /// # Errors
    /// As [`Text::push`].
    pub fn push_alternatives(&mut self, id: u32, others: &[u32], out: &mut dyn Write) -> Result<(), Error> {
        let Some(others) = self.whole(others)?.filter(|others| !others.is_empty()) else {
            return self.push(id, out);
        };
        let Some(best) = self.whole(&[id])? else {
            return self.push(id, out);
        };
        // The space that begins the text is left out, behind the bracket as well.
        let best = if self.begun { &best } else { best.trim_start() };
        let choice = format!("[{best}|{others}]");
        self.write(choice.bytes(), out)
    }

    /// The texts of tokens with `|` between them, if each is whole.
    fn whole(&mut self, ids: &[u32]) -> Result<Option<String>, Error> {
        let mut texts = Vec::new();
        for &id in ids {
            let Ok(text) = String::from_utf8(self.pieces.of(id)?.collect()) else {
                return Ok(None);
            };
            texts.push(text);
        }
        Ok(Some(texts.join("|")))
    }

    fn write(&mut self, bytes: impl Iterator<Item = u8>, out: &mut dyn Write) -> Result<(), Error> {
        let mut wrote = false;
        for byte in bytes {
            for character in self.joiner.push(byte) {
                wrote |= write(character, &mut self.begun, &mut self.spaces, out).map_err(Error::Output)?;
            }
        }
        if wrote {
            out.flush().map_err(Error::Output)
        } else {
            Ok(())
        }
    }

    /// The end of the utterance, or of listening to it: what is held back comes out, white space does not. Ready for the next one.
    ///
    /// # Errors
    /// [`Error::Output`] if it cannot be written.
    pub fn finish(&mut self, out: &mut dyn Write) -> Result<(), Error> {
        if let Some(character) = self.joiner.finish() {
            write(character, &mut self.begun, &mut self.spaces, out).map_err(Error::Output)?;
        }
        self.begun = false;
        self.spaces = Spaces::default();
        out.flush().map_err(Error::Output)
    }
}

/// Writes a character and the white space before it; holds white space back. Says whether anything was written.
fn write(character: char, begun: &mut bool, spaces: &mut Spaces, out: &mut dyn Write) -> io::Result<bool> {
    if character.is_whitespace() {
        if *begun {
            if spaces.len == Spaces::MOST {
                write_spaces(spaces, out)?;
            }
            spaces.chars[spaces.len] = character;
            spaces.len += 1;
        }
        return Ok(false);
    }
    write_spaces(spaces, out)?;
    *begun = true;
    out.write_all(character.encode_utf8(&mut [0; 4]).as_bytes())?;
    Ok(true)
}

fn write_spaces(spaces: &mut Spaces, out: &mut dyn Write) -> io::Result<()> {
    for space in &spaces.chars[..spaces.len] {
        out.write_all(space.encode_utf8(&mut [0; 4]).as_bytes())?;
    }
    spaces.len = 0;
    Ok(())
}
