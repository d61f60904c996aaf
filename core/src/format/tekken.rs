//! `tekken.json`: the vocabulary.
//!
//! Ids below `default_num_special_tokens` are control tokens and have no text. An id from there on is a rank of the
//! `vocab` list, whose `token_bytes` are its text in base64. The list holds more ranks than the model has ids for
//! (150 000 against 130 072 in the published file); the others are ignored.
//!
//! [`Vocabulary::parse`] reads what the schedule needs and only skips over the list, so the engine can begin at once.
//! The way from an id to its bytes is an index of one `u32` per usable rank in the caller's storage, built by
//! [`Vocabulary::index_step`] a few entries at a time, for instance while the encoder works on the first audio, or by
//! [`Vocabulary::index`] in one go. Nothing is copied: [`Piece`] decodes from the file's own bytes.
//!
//! ```
//! # use voxtral_core::format::{tekken, utf8::Utf8Joiner};
//! # fn text(json: &[u8], ids: &[u32]) -> Result<String, tekken::Error> {
//! let vocabulary = tekken::Vocabulary::parse(json)?;
//! let mut offsets = vec![0; vocabulary.index_len()];
//! vocabulary.index(json, &mut offsets)?;
//! let mut joiner = Utf8Joiner::new();
//! let mut text = String::new();
//! for &id in ids {
//!     for byte in vocabulary.piece(json, &offsets, id)? {
//!         text.extend(joiner.push(byte));
//!     }
//! }
//! text.extend(joiner.finish());
//! # Ok(text)
//! # }
//! ```

use core::fmt;

use super::base64::Decoder;
use super::fields::{Expected, FieldError, Fields, Value};
use super::json::{self, ErrorKind, Event, Reader, Str};

/// What the schedule needs from `tekken.json`, and the way to the text of each id.
///
/// Plain data: it holds places in the file, not the file, and every call that looks there is given the same bytes
/// again. Other bytes give an error or wrong text, nothing worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// `<s>`, the first id of every prompt.
    pub bos: u32,
    /// `</s>`, the end of text.
    pub eos: u32,
    /// `[STREAMING_PAD]`.
    pub streaming_pad: u32,
    /// `[STREAMING_WORD]`.
    pub streaming_word: u32,
    /// Audio tokens of silence before the first sample (32).
    pub left_pad_tokens: usize,
    /// The delay the model is used with, in audio tokens of 80 ms (6).
    pub delay_tokens: usize,
    /// Ids below this are control tokens and have no text (1000).
    pub n_special: u32,
    /// Number of ids, control tokens included (131 072).
    pub vocab_size: u32,
    /// Where the `vocab` list begins in the file, in bytes.
    pub vocab_offset: usize,
}

/// How far an index has been built. Plain data; the default is an index not begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexProgress {
    /// Place of the bracket or comma before the next entry; 0 before the beginning.
    at: usize,
    /// Whether the list has been read to its end.
    complete: bool,
}

impl IndexProgress {
    /// Whether the index is complete.
    pub const fn is_complete(&self) -> bool {
        self.complete
    }
}

/// Why `tekken.json`, or an id, was refused. Offsets are in bytes from the start of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// One value is missing, repeated, wrong or not supported.
    Field(FieldError),
    /// The file is longer than an index of 32 bits can reach.
    TooLong {
        /// Its length.
        len: usize,
    },
    /// Two special tokens of that name.
    DuplicateSpecial {
        /// The name.
        name: &'static str,
        /// Where the second one is.
        offset: usize,
    },
    /// A special token that the engine needs is not among the control ids.
    SpecialOutOfRange {
        /// Its name.
        name: &'static str,
        /// Its id.
        id: u32,
        /// `default_num_special_tokens`.
        n_special: u32,
    },
    /// Two special tokens that the engine tells apart have one id.
    SharedSpecial {
        /// The name of the one.
        name: &'static str,
        /// The name of the other.
        other: &'static str,
        /// Their id.
        id: u32,
    },
    /// The storage for the index is too small.
    Storage {
        /// Entries needed.
        needed: usize,
        /// Entries given.
        found: usize,
    },
    /// Two entries of that rank.
    DuplicateRank {
        /// The rank.
        rank: u32,
        /// Where the second one's bytes are.
        offset: usize,
    },
    /// No entry of that rank, though ids reach it.
    MissingRank {
        /// The lowest such rank.
        rank: u32,
        /// Number of ranks that ids reach.
        usable: u32,
    },
    /// `token_bytes` is not base64: letters outside the alphabet, not whole groups of four, or stray bits.
    Base64 {
        /// The entry's rank.
        rank: u32,
        /// Where its bytes are.
        offset: usize,
    },
    /// One of the ranks 0 to 255 is not the single byte of that value.
    NotTheByte {
        /// The entry's rank.
        rank: u32,
        /// Where its bytes are.
        offset: usize,
    },
    /// An id past the vocabulary.
    NoSuchId {
        /// The id.
        id: u32,
        /// Number of ids.
        vocab_size: u32,
    },
    /// The index does not know the id yet.
    NotIndexed {
        /// The id.
        id: u32,
    },
}

/// Every key that is looked at, apart from the entries of the two lists.
const PATHS: [&str; 15] = [
    "config",
    "config.default_vocab_size",
    "config.default_num_special_tokens",
    VOCAB,
    SPECIAL_TOKENS,
    "audio",
    "audio.sampling_rate",
    "audio.frame_rate",
    "audio.audio_encoding_config",
    "audio.audio_encoding_config.num_mel_bins",
    "audio.audio_encoding_config.hop_length",
    "audio.audio_encoding_config.window_size",
    "audio.transcription_delay_ms",
    "audio.streaming_n_left_pad_tokens",
    "audio.transcription_format",
];
const VOCAB: &str = "vocab";
const SPECIAL_TOKENS: &str = "special_tokens";

/// The special tokens looked for, with the ids that they have in the published file, which hold where a file has no
/// list of special tokens or the list lacks the name.
const SPECIALS: [(&str, u32); 4] = [
    ("<s>", 1),
    ("</s>", 2),
    ("[STREAMING_PAD]", 32),
    ("[STREAMING_WORD]", 33),
];

/// The most ids.
const MAX_VOCAB_SIZE: u64 = 1 << 24;
/// Most tokens of silence before the audio.
const MAX_LEFT_PAD: u64 = 1024;
/// Used where the file has no audio block, or the block does not say.
const DEFAULT_LEFT_PAD: u64 = 32;
const DEFAULT_DELAY_MS: u64 = 480;
/// The largest delay the model knows.
const MAX_DELAY_MS: u64 = 2400;
/// One audio token.
const TOKEN_MS: u64 = 80;

/// The keys of the two kinds of list entry.
struct EntryKeys {
    rank: &'static str,
    string_name: &'static str,
    string: &'static str,
    entry: &'static str,
}
const VOCAB_ENTRY: EntryKeys = EntryKeys {
    entry: "vocab[]",
    rank: "vocab[].rank",
    string_name: "token_bytes",
    string: "vocab[].token_bytes",
};
const SPECIAL_ENTRY: EntryKeys = EntryKeys {
    entry: "special_tokens[]",
    rank: "special_tokens[].rank",
    string_name: "token_str",
    string: "special_tokens[].token_str",
};

/// What an entry of either list says.
struct Entry<'a> {
    rank: u32,
    string: Str<'a>,
    /// Place of the string's first byte behind its quote.
    string_at: usize,
}

impl<'a> Entry<'a> {
    /// Reads an entry whose first event is `first`.
    fn read(reader: &mut Reader<'a>, first: Event<'a>, keys: &EntryKeys) -> Result<Self, FieldError> {
        if first != Event::BeginObject {
            return Err(Value::of(&first, reader).refuse(keys.entry, Expected::Object));
        }
        let mut rank = None;
        let mut string = None;
        loop {
            match reader.next()? {
                Event::Key(name) if name == "rank" => {
                    let offset = reader.event_offset();
                    let event = reader.next()?;
                    let number = match event {
                        Event::Number(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
                        _ => None,
                    };
                    let max = u64::from(u32::MAX);
                    let number = number.ok_or_else(|| {
                        Value::of(&event, reader).refuse(keys.rank, Expected::Integer { min: 0, max })
                    })?;
                    if rank.replace(number).is_some() {
                        return Err(FieldError::Duplicate { key: keys.rank, offset });
                    }
                }
                Event::Key(name) if name == keys.string_name => {
                    let offset = reader.event_offset();
                    let event = reader.next()?;
                    let Event::String(text) = event else {
                        return Err(Value::of(&event, reader).refuse(keys.string, Expected::String));
                    };
                    let at = reader.event_offset().saturating_add(1);
                    if string.replace((text, at)).is_some() {
                        return Err(FieldError::Duplicate {
                            key: keys.string,
                            offset,
                        });
                    }
                }
                Event::Key(_) => reader.skip_value()?,
                // The end of the object.
                _ => break,
            }
        }
        let rank = rank.ok_or(FieldError::Missing { key: keys.rank })?;
        let (string, string_at) = string.ok_or(FieldError::Missing { key: keys.string })?;
        Ok(Self {
            rank,
            string,
            string_at,
        })
    }
}

impl Vocabulary {
    /// Reads `tekken.json`, apart from the entries of the `vocab` list, which are only checked to be JSON.
    ///
    /// The special tokens are looked up by name; where the list or a name lacks, the ids of the published file hold
    /// (`<s>` 1, `</s>` 2, `[STREAMING_PAD]` 32, `[STREAMING_WORD]` 33). Without an audio block, or where it does not
    /// say, the delay is 480 ms and the left pad 32 tokens. Whatever the block says about the front end must be what
    /// the front end does.
    ///
    /// # Errors
    ///
    /// What is missing, repeated, impossible or not supported, by the dotted path of its key.
    pub fn parse(json: &[u8]) -> Result<Self, Error> {
        if u32::try_from(json.len()).is_err() {
            return Err(Error::TooLong { len: json.len() });
        }
        let mut vocab_offset = 0;
        let mut specials = [None; SPECIALS.len()];
        let fields = Fields::read::<Error>(json, &PATHS, |key, reader| match key {
            VOCAB => {
                let mut ahead = *reader;
                let first = ahead.next()?;
                let value = Value::of(&first, &ahead);
                vocab_offset = value.offset;
                reader.skip_value()?;
                Ok(Some(value))
            }
            SPECIAL_TOKENS => {
                let first = reader.next()?;
                let value = Value::of(&first, reader);
                match first {
                    Event::BeginArray => read_specials(reader, &mut specials)?,
                    Event::BeginObject => reader.skip_container()?,
                    _ => {}
                }
                Ok(Some(value))
            }
            _ => Ok(None),
        })?;

        let root = fields.object("");
        root.fixed(VOCAB, Expected::Array)?;
        root.fixed_if_any(SPECIAL_TOKENS, Expected::Array)?;
        let config = fields.object("config");
        let n_special = config.integer("default_num_special_tokens", 1, MAX_VOCAB_SIZE)?;
        let vocab_size = config.integer("default_vocab_size", n_special.saturating_add(1), MAX_VOCAB_SIZE)?;

        let audio = fields.object("audio");
        audio.fixed_if_any("sampling_rate", Expected::ExactlyNumber(16000.0))?;
        audio.fixed_if_any("frame_rate", Expected::ExactlyNumber(12.5))?;
        audio.fixed_if_any("transcription_format", Expected::ExactlyString("streaming"))?;
        let encoding = fields.object("audio.audio_encoding_config");
        encoding.fixed_if_any("num_mel_bins", Expected::ExactlyNumber(128.0))?;
        encoding.fixed_if_any("hop_length", Expected::ExactlyNumber(160.0))?;
        encoding.fixed_if_any("window_size", Expected::ExactlyNumber(400.0))?;
        let mut delay_ms = DEFAULT_DELAY_MS;
        if audio.has("transcription_delay_ms")? {
            delay_ms = audio.integer("transcription_delay_ms", TOKEN_MS, MAX_DELAY_MS)?;
        }
        if delay_ms.checked_rem(TOKEN_MS) != Some(0) {
            let expected = Expected::MultipleOf {
                what: "the length of an audio token",
                value: TOKEN_MS,
            };
            return Err(audio.refuse("transcription_delay_ms", expected).into());
        }
        let mut left_pad = DEFAULT_LEFT_PAD;
        if audio.has("streaming_n_left_pad_tokens")? {
            left_pad = audio.integer("streaming_n_left_pad_tokens", 0, MAX_LEFT_PAD)?;
        }

        let n_special = u32_of(n_special);
        let [bos, eos, streaming_pad, streaming_word] = special_ids(specials, n_special)?;
        Ok(Self {
            bos,
            eos,
            streaming_pad,
            streaming_word,
            left_pad_tokens: u32_of(left_pad) as usize,
            delay_tokens: u32_of(delay_ms.checked_div(TOKEN_MS).unwrap_or(0)) as usize,
            n_special,
            vocab_size: u32_of(vocab_size),
            vocab_offset,
        })
    }

    /// Entries of the storage for the index: one for each rank that ids reach.
    pub const fn index_len(&self) -> usize {
        self.vocab_size.saturating_sub(self.n_special) as usize
    }

    /// Builds the whole index. `json` is the file that was parsed; `offsets` needs [`Self::index_len`] entries, whose
    /// contents do not matter.
    ///
    /// # Errors
    ///
    /// Those of [`Self::index_step`].
    pub fn index(&self, json: &[u8], offsets: &mut [u32]) -> Result<(), Error> {
        let mut progress = IndexProgress::default();
        while !self.index_step(json, offsets, &mut progress, usize::MAX)? {}
        Ok(())
    }

    /// Reads up to `entries` further entries of the `vocab` list and says whether the index is complete.
    ///
    /// `json` is the file that was parsed. The same `offsets`, of at least [`Self::index_len`] entries, and the same
    /// `progress` are given to every step; the first step writes all of that storage, whatever was in it. After an
    /// error `progress` stands before the entry that is at fault.
    ///
    /// # Errors
    ///
    /// Storage too small; an entry without rank or bytes; bytes that are no base64; a usable rank twice or, at the
    /// end, not at all; one of the ranks 0 to 255 that is not the single byte of that value.
    pub fn index_step(
        &self,
        json: &[u8],
        offsets: &mut [u32],
        progress: &mut IndexProgress,
        entries: usize,
    ) -> Result<bool, Error> {
        let (needed, found) = (self.index_len(), offsets.len());
        let slots = offsets.get_mut(..needed).ok_or(Error::Storage { needed, found })?;
        if progress.complete {
            return Ok(true);
        }
        if progress.at == 0 {
            // No string of the list begins at byte 0, so this marks a rank not seen.
            slots.fill(0);
            *progress = IndexProgress {
                at: self.vocab_offset,
                complete: false,
            };
        }
        for _ in 0..entries {
            let Some(at) = next_entry(json, progress.at, self.vocab_offset)? else {
                if let Some(rank) = slots.iter().position(|&slot| slot == 0) {
                    return Err(Error::MissingRank {
                        rank: rank as u32,
                        usable: needed as u32,
                    });
                }
                progress.complete = true;
                return Ok(true);
            };
            let mut reader = Reader::new(json.get(at..).unwrap_or_default());
            let entry = read_entry(&mut reader).map_err(|error| shifted(error, at))?;
            // Ranks past the storage are those that no id reaches.
            if let Some(slot) = slots.get_mut(entry.rank as usize) {
                let offset = at.saturating_add(entry.string_at);
                let rank = entry.rank;
                if *slot != 0 {
                    return Err(Error::DuplicateRank { rank, offset });
                }
                check_piece(rank, entry.string, offset)?;
                *slot = u32::try_from(offset).map_err(|_| Error::TooLong { len: json.len() })?;
            }
            progress.at = at.saturating_add(reader.offset());
        }
        Ok(false)
    }

    /// The bytes of an id's text, which may end in the middle of a character. Control ids have none.
    ///
    /// `json` and `offsets` are those of [`Self::index_step`]; before the index is complete the ids of entries already
    /// read can be asked for.
    ///
    /// # Errors
    ///
    /// An id past the vocabulary, or one that the index does not know yet.
    pub fn piece<'a>(&self, json: &'a [u8], offsets: &[u32], id: u32) -> Result<Piece<'a>, Error> {
        if id >= self.vocab_size {
            return Err(Error::NoSuchId {
                id,
                vocab_size: self.vocab_size,
            });
        }
        let Some(rank) = id.checked_sub(self.n_special) else {
            return Ok(Piece(Decoder::new(Str::from_raw(&[]))));
        };
        let offset = offsets
            .get(rank as usize)
            .filter(|&&offset| offset != 0)
            .ok_or(Error::NotIndexed { id })?;
        let from = json.get(*offset as usize..).unwrap_or_default();
        // No quote can be part of base64, escaped or not, so the first one is the end.
        let len = from.iter().position(|&byte| byte == b'"').unwrap_or(0);
        Ok(Piece(Decoder::new(Str::from_raw(from.get(..len).unwrap_or_default()))))
    }
}

/// Reads the list of special tokens, whose bracket has been read, up to its end.
fn read_specials(reader: &mut Reader<'_>, specials: &mut [Option<u32>; SPECIALS.len()]) -> Result<(), Error> {
    loop {
        let first = reader.next()?;
        if first == Event::EndArray {
            return Ok(());
        }
        let entry = Entry::read(reader, first, &SPECIAL_ENTRY)?;
        for ((name, _), id) in SPECIALS.iter().zip(&mut *specials) {
            if entry.string == *name && id.replace(entry.rank).is_some() {
                return Err(Error::DuplicateSpecial {
                    name,
                    offset: entry.string_at,
                });
            }
        }
    }
}

/// The ids of the special tokens, fall-backs where none was found; each a control id and each its own.
fn special_ids(found: [Option<u32>; SPECIALS.len()], n_special: u32) -> Result<[u32; SPECIALS.len()], Error> {
    let mut ids = [0; SPECIALS.len()];
    for ((&(name, fall_back), found), id) in SPECIALS.iter().zip(found).zip(&mut ids) {
        *id = found.unwrap_or(fall_back);
        if *id >= n_special {
            return Err(Error::SpecialOutOfRange {
                name,
                id: *id,
                n_special,
            });
        }
    }
    for (i, ((name, _), id)) in SPECIALS.iter().zip(ids).enumerate() {
        for ((other, _), other_id) in SPECIALS.iter().zip(ids).take(i) {
            if other_id == id {
                return Err(Error::SharedSpecial { name, other, id });
            }
        }
    }
    Ok(ids)
}

/// Reads the entry that a reader of its own begins with.
fn read_entry<'a>(reader: &mut Reader<'a>) -> Result<Entry<'a>, FieldError> {
    let first = reader.next()?;
    Entry::read(reader, first, &VOCAB_ENTRY)
}

/// The place of the next entry, given the place of what is before it: the bracket at `begin`, or the byte behind the
/// entry before. `None` at the end of the list.
fn next_entry(json: &[u8], at: usize, begin: usize) -> Result<Option<usize>, Error> {
    let at = skip_white_space(json, at);
    let (behind, may_end) = match json.get(at) {
        Some(b'[') if at == begin => (at.saturating_add(1), true),
        Some(b',') => (at.saturating_add(1), false),
        Some(b']') => return Ok(None),
        _ => {
            return Err(json::Error {
                kind: ErrorKind::ExpectedCommaOrEnd,
                offset: at,
            }
            .into());
        }
    };
    let behind = skip_white_space(json, behind);
    Ok(if may_end && json.get(behind) == Some(&b']') {
        None
    } else {
        Some(behind)
    })
}

fn skip_white_space(json: &[u8], at: usize) -> usize {
    let rest = json.get(at..).unwrap_or_default();
    let white = rest
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))
        .count();
    at.saturating_add(white)
}

/// An error of an entry, told from the start of the file.
fn shifted(error: FieldError, by: usize) -> Error {
    Error::Field(match error {
        FieldError::Json(json::Error { kind, offset }) => FieldError::Json(json::Error {
            kind,
            offset: offset.saturating_add(by),
        }),
        FieldError::Missing { key } => FieldError::Missing { key },
        FieldError::Duplicate { key, offset } => FieldError::Duplicate {
            key,
            offset: offset.saturating_add(by),
        },
        FieldError::Value {
            key,
            offset,
            expected,
            found,
        } => FieldError::Value {
            key,
            offset: offset.saturating_add(by),
            expected,
            found,
        },
    })
}

/// Checks the bytes of one rank, so that [`Piece`] meets nothing wrong later.
fn check_piece(rank: u32, string: Str<'_>, offset: usize) -> Result<(), Error> {
    let mut bytes = Decoder::new(string);
    let first = bytes.next().transpose();
    let more = bytes.try_fold(0, |n: usize, byte| byte.map(|_| n.saturating_add(1)));
    let (Ok(first), Ok(more)) = (first, more) else {
        return Err(Error::Base64 { rank, offset });
    };
    // Ranks 0 to 255 are the bytes themselves, so that any text can be written.
    if rank < 256 && (more > 0 || first.map(u32::from) != Some(rank)) {
        return Err(Error::NotTheByte { rank, offset });
    }
    Ok(())
}

/// For numbers that were checked against bounds.
fn u32_of(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The bytes of one id's text, decoded as they are asked for. Of any length.
#[derive(Clone, Debug)]
pub struct Piece<'a>(Decoder<'a>);

impl Iterator for Piece<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        // What the index holds was checked, so only bytes of another file end at something that is wrong.
        self.0.next()?.ok()
    }
}

impl core::iter::FusedIterator for Piece<'_> {}

impl From<FieldError> for Error {
    fn from(error: FieldError) -> Self {
        Error::Field(error)
    }
}

impl From<json::Error> for Error {
    fn from(error: json::Error) -> Self {
        Error::Field(FieldError::Json(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Field(error) => error.fmt(f),
            Error::TooLong { len } => write!(f, "{len} bytes are more than an index of 32 bits can reach"),
            Error::DuplicateSpecial { name, offset } => {
                write!(
                    f,
                    "the special token {name} stands there a second time at byte {offset}"
                )
            }
            Error::SpecialOutOfRange { name, id, n_special } => {
                write!(
                    f,
                    "the special token {name} has id {id}, but control ids are below {n_special}"
                )
            }
            Error::SharedSpecial { name, other, id } => {
                write!(f, "the special tokens {other} and {name} have the same id {id}")
            }
            Error::Storage { needed, found } => {
                write!(
                    f,
                    "the index needs storage for {needed} entries, but there is room for {found}"
                )
            }
            Error::DuplicateRank { rank, offset } => {
                write!(f, "vocab has rank {rank} a second time at byte {offset}")
            }
            Error::MissingRank { rank, usable } => {
                write!(f, "vocab lacks rank {rank}, but must have every rank below {usable}")
            }
            Error::Base64 { rank, offset } => {
                write!(
                    f,
                    "token_bytes of rank {rank} must be base64, but is not (at byte {offset})"
                )
            }
            Error::NotTheByte { rank, offset } => {
                write!(
                    f,
                    "rank {rank} must be the single byte {rank:#04x}, but is not (at byte {offset})"
                )
            }
            Error::NoSuchId { id, vocab_size } => {
                write!(f, "id {id} is past the vocabulary, whose ids are below {vocab_size}")
            }
            Error::NotIndexed { id } => write!(f, "the index does not know id {id} yet"),
        }
    }
}

impl core::error::Error for Error {}
