//! Tokens to words: text, times, probabilities.
//!
//! The model tells a word once it has been spoken: `[STREAMING_WORD]`, then the pieces of its text, one position
//! each. So the first position `p` of such a group tells when the word ended:
//!
//! ```text
//! end = 80 ms · (p − left pad − delay)
//! ```
//!
//! counted in the caller's audio: silence that a flush put in is taken out again, and audio that was skipped counts.
//! When the word began no token tells. It is where the audio got loud before that end; where it is loud all the way
//! from the word before, or nobody [showed](Words::hear) the audio, it is estimated from the length of the text, at
//! 60 ms for each character and 150 ms more. It is never before the end of the word before.
//!
//! The rule was checked with the small model, on clips of single words at known places; the published model was not
//! at hand.

use voxtral_core::audio::SAMPLE_RATE;

use crate::error::Error;
use crate::model::Model;
use crate::onset::Levels;
use crate::text::Pieces;
use crate::transcriber::Decided;

/// Others that are told of one token.
pub(crate) const MOST_ALTERNATIVES: usize = 2;

/// What a word is estimated to last, in seconds.
const SECONDS_PER_CHARACTER: f64 = 0.06;
const SECONDS_PER_WORD: f64 = 0.15;

/// No word begins earlier before its end, in samples: 1.5 s.
const LONGEST: u64 = SAMPLE_RATE as u64 * 3 / 2;

/// A word that was decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// Its text, with the punctuation that belongs to it.
    pub text: String,
    /// When it begins, in seconds of the audio.
    pub start: f64,
    /// When it ends, in seconds of the audio.
    pub end: f64,
    /// The product of the probabilities of its tokens.
    pub probability: f64,
    /// What it would be if one of its tokens were one of the next best, the likeliest first.
    pub alternatives: Vec<Alternative>,
}

/// What might have been said instead.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// The text of the word.
    pub text: String,
    /// The product of the probabilities of its tokens, as far as they are known: those behind the one that is
    /// exchanged are taken as they are.
    pub probability: f64,
}

/// Joins the tokens of one utterance to words.
pub struct Words<'m> {
    pieces: Pieces<'m>,
    /// How much less likely an alternative may be; see [`Words::new`].
    cutoff: Option<f32>,
    group: Option<Group>,
    levels: Levels,
    /// In samples.
    previous_end: u64,
}

/// The tokens of a word so far.
struct Group {
    /// Where in the audio it was decided.
    sample: u64,
    best: Spelling,
    others: Vec<Spelling>,
}

#[derive(Clone)]
struct Spelling {
    bytes: Vec<u8>,
    probability: f64,
}

impl Spelling {
    fn add(&mut self, bytes: &[u8], probability: f64) {
        self.bytes.extend_from_slice(bytes);
        self.probability *= probability;
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).trim().to_owned()
    }
}

impl<'m> Words<'m> {
    /// Words of tokens of `model`. With a cutoff from 0 to 1 alternatives are told: two for each token at most, of
    /// which `1 − p/p₀ ≤ cutoff`, where `p₀` is the probability of the token that was chosen.
    pub fn new(model: &'m Model, cutoff: Option<f32>) -> Self {
        Self {
            pieces: Pieces::new(model),
            cutoff,
            group: None,
            levels: Levels::default(),
            previous_end: 0,
        }
    }

    /// Shows the audio, all of it in order, before the tokens that it brings: what a word's beginning is told by.
    pub fn hear(&mut self, samples: &[f32]) {
        self.levels.push(samples);
    }

    /// Builds a further part of the index from ids to text, so that the first token need not wait for all of it.
    ///
    /// # Errors
    /// [`Error::Text`] if `tekken.json` is damaged.
    pub fn prepare(&mut self) -> Result<(), Error> {
        self.pieces.prepare()
    }

    /// Takes the next token, and gives the word before it if that is whole now.
    ///
    /// # Errors
    /// [`Error::Text`] for an id without text.
    pub fn push(&mut self, token: &Decided<'_>) -> Result<Option<Word>, Error> {
        let vocabulary = self.pieces.vocabulary();
        if token.id < vocabulary.n_special {
            // A control token inside a character does not end the word.
            let cut = self.group.as_ref().is_some_and(|group| is_cut(&group.best.bytes));
            let word = if cut { None } else { self.end() };
            if token.id == vocabulary.streaming_word && !cut {
                self.group = Some(Group::new(token.sample));
            }
            return Ok(word);
        }
        let bytes: Vec<u8> = self.pieces.of(token.id)?.collect();
        let begins = bytes.first().is_some_and(u8::is_ascii_whitespace);
        let going_on = self.group.as_ref().is_some_and(|group| !group.best.bytes.is_empty());
        let word = if begins && going_on { self.end() } else { None };

        let nearest = Nearest::of(token, vocabulary.n_special, self.cutoff);
        let mut others = Vec::new();
        for (id, probability) in nearest.others() {
            others.push((self.pieces.of(id)?.collect::<Vec<u8>>(), probability));
        }
        let group = self.group.get_or_insert_with(|| Group::new(token.sample));
        group.add(&bytes, nearest.probability, &others);
        Ok(word)
    }

    /// The word that is going on, which nothing is added to any more: at a pause, and at the end.
    pub fn end(&mut self) -> Option<Word> {
        let group = self.group.take()?;
        let text = group.best.text();
        if text.is_empty() {
            return None;
        }
        let previous = std::mem::replace(&mut self.previous_end, group.sample);
        let from = previous.max(group.sample.saturating_sub(LONGEST)).min(group.sample);
        let seconds = |sample: u64| sample as f64 / SAMPLE_RATE as f64;
        let end = seconds(group.sample);
        let start = match self.levels.onset(from, group.sample) {
            Some(onset) => seconds(onset),
            None => {
                let characters = text.chars().count() as f64;
                (end - SECONDS_PER_WORD - SECONDS_PER_CHARACTER * characters).max(seconds(from))
            }
        };
        let start = start.min(end);
        let mut alternatives: Vec<_> = group
            .others
            .iter()
            .map(|other| Alternative {
                text: other.text(),
                probability: other.probability,
            })
            .collect();
        alternatives.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        Some(Word {
            text,
            start,
            end,
            probability: group.best.probability,
            alternatives,
        })
    }

    /// Ready for the next utterance.
    pub fn reset(&mut self) {
        self.group = None;
        self.levels = Levels::default();
        self.previous_end = 0;
    }
}

impl Group {
    fn new(sample: u64) -> Self {
        Self {
            sample,
            best: Spelling {
                bytes: Vec::new(),
                probability: 1.0,
            },
            others: Vec::new(),
        }
    }

    fn add(&mut self, bytes: &[u8], probability: f64, others: &[(Vec<u8>, f64)]) {
        for other in &mut self.others {
            other.add(bytes, probability);
        }
        for (bytes, probability) in others {
            let mut other = self.best.clone();
            other.add(bytes, *probability);
            self.others.push(other);
        }
        self.best.add(bytes, probability);
    }
}

/// Whether bytes end in the middle of a character.
fn is_cut(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// How likely a token was, and the text tokens that were nearly as likely.
pub(crate) struct Nearest {
    /// Of the token that was chosen, over all ids.
    pub(crate) probability: f64,
    others: [Option<(u32, f64)>; MOST_ALTERNATIVES],
}

impl Nearest {
    /// Without a cutoff there are no others.
    pub(crate) fn of(token: &Decided<'_>, n_special: u32, cutoff: Option<f32>) -> Self {
        let chosen = token.logits.get(token.id as usize).copied().unwrap_or(0.0);
        // The chosen one is the largest: no overflow, and its own term is 1.
        let odds = |logit: f32| f64::from(logit - chosen).exp();
        let sum: f64 = token.logits.iter().map(|&logit| odds(logit)).sum();
        let probability = 1.0 / sum.max(1.0);
        let mut others = [None; MOST_ALTERNATIVES];
        let Some(cutoff) = cutoff else {
            return Self { probability, others };
        };
        for (id, &logit) in (0u32..).zip(token.logits).skip(n_special as usize) {
            let odds = odds(logit);
            if id == token.id || 1.0 - odds > f64::from(cutoff) {
                continue;
            }
            let mut next = Some((id, odds * probability));
            for place in &mut others {
                if place.is_none_or(|(_, other): (u32, f64)| next.is_some_and(|(_, next)| next > other)) {
                    std::mem::swap(place, &mut next);
                }
            }
        }
        Self { probability, others }
    }

    /// Ids and probabilities, the likeliest first.
    pub(crate) fn others(&self) -> impl Iterator<Item = (u32, f64)> + use<> {
        self.others.into_iter().flatten()
    }
}
