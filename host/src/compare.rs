//! Two models over the same audio, the second following the tokens of the first: how far apart what they compute is.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use voxtral_core::kernels::Executor;
use voxtral_core::layout::Options;
use voxtral_core::model::{Probe, Stage};

use crate::audio::AudioFile;
use crate::error::Error;
use crate::interrupt;
use crate::model::Model;
use crate::transcriber::Transcriber;

/// Where the second model would have gone on otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Disagreement {
    /// Index of the audio.
    pub(crate) audio: usize,
    /// Position in the decoder.
    pub(crate) position: u64,
    /// The token of the one.
    pub(crate) a: u32,
    /// The token of the other.
    pub(crate) b: u32,
    /// By how much the one's logit of its own token is above that of the other's.
    pub(crate) margin_a: f64,
    /// By how much the other's logit of its own token is above that of the one's.
    pub(crate) margin_b: f64,
}

/// What was said, each model by itself.
#[derive(Clone, Debug)]
pub(crate) struct Texts {
    pub(crate) audio: PathBuf,
    pub(crate) a: String,
    pub(crate) b: String,
    /// Words of `a`.
    pub(crate) words: usize,
    /// Words to insert, remove and replace on the shortest way from `a` to `b`.
    pub(crate) errors: usize,
}

/// What was found so far.
#[derive(Default)]
pub(crate) struct Comparison {
    stages: Vec<(Stage, Squares)>,
    /// Kullback-Leibler divergence of each position, in nats, of the other's distribution from the one's.
    divergences: Vec<f64>,
    pub(crate) disagreements: Vec<Disagreement>,
    pub(crate) texts: Vec<Texts>,
    /// What was odd about the audio, each with its file.
    pub(crate) remarks: Vec<String>,
}

/// Sums of squares.
#[derive(Clone, Copy, Default)]
struct Squares {
    difference: f64,
    original: f64,
}

/// What the divergences come to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Divergence {
    pub(crate) mean: f64,
    /// 99 of 100 positions have less, or as much.
    pub(crate) percentile99: f64,
    pub(crate) largest: f64,
}

impl Comparison {
    /// Runs both models over all the audio. `watch` is told of each file before it is heard.
    ///
    /// # Errors
    /// [`Error::OtherSizes`] with the directories' `names`, and those of [`Transcriber`] and [`AudioFile`].
    pub(crate) fn of(
        models: [&Model; 2],
        names: [&Path; 2],
        files: &[PathBuf],
        options: &Options,
        executor: &dyn Executor,
        mut watch: impl FnMut(&Path),
    ) -> Result<Self, Error> {
        let [a, b] = models;
        if a.params() != b.params() || a.tekken() != b.tekken() {
            let [a, b] = names.map(|name| name.display().to_string());
            return Err(Error::OtherSizes { a, b });
        }
        let transcriber = |model| {
            let mut transcriber = Transcriber::new(model, options, executor)?;
            transcriber.set_interrupt(interrupt::flag());
            Ok::<_, Error>(transcriber)
        };
        let (mut first, mut second, mut alone) = (transcriber(a)?, transcriber(b)?, transcriber(b)?);
        let [of_first, of_second] = names.map(of_model);
        let mut comparison = Self::default();
        // As many samples at a time as a pass takes: what the one computed waits for the other.
        let mut samples = vec![0.0; options.chunk.min(MOST_POSITIONS) * voxtral_core::layout::SAMPLES_PER_POSITION];
        for (index, path) in files.iter().enumerate() {
            watch(path);
            let mut audio = AudioFile::open(path)?;
            for transcriber in [&mut first, &mut second, &mut alone] {
                transcriber.reset();
            }
            let (mut text, mut other) = (Vec::new(), Vec::new());
            let mut leader = Leader::default();
            loop {
                let read = audio.read(&mut samples)?;
                let samples = &samples[..read];
                if read == 0 {
                    first.finish_probed(&mut text, &mut leader).map_err(of_first)?;
                    second
                        .finish_probed(&mut std::io::sink(), &mut comparison.follower(index, &mut leader))
                        .map_err(of_second)?;
                    alone.finish(&mut other).map_err(of_second)?;
                    break;
                }
                first.push_probed(samples, &mut text, &mut leader).map_err(of_first)?;
                second
                    .push_probed(
                        samples,
                        &mut std::io::sink(),
                        &mut comparison.follower(index, &mut leader),
                    )
                    .map_err(of_second)?;
                alone.push(samples, &mut other).map_err(of_second)?;
            }
            comparison.texts.push(Texts::new(path, &text, &other));
            comparison.remarks.extend(audio.remarks_on(path)?);
        }
        Ok(comparison)
    }

    /// Every stage with the root of the squared differences over that of the values.
    pub(crate) fn stages(&self) -> impl Iterator<Item = (String, f64)> {
        self.stages.iter().map(|(stage, squares)| {
            let relative = if squares.original > 0.0 {
                (squares.difference / squares.original).sqrt()
            } else {
                0.0
            };
            (name(*stage), relative)
        })
    }

    /// Positions that tokens were decided at.
    pub(crate) fn positions(&self) -> usize {
        self.divergences.len()
    }

    /// The share of them where both models say the same; 1 if there are none.
    pub(crate) fn agreement(&self) -> f64 {
        1.0 - self.disagreements.len() as f64 / self.positions().max(1) as f64
    }

    pub(crate) fn divergence(&self) -> Divergence {
        let mut sorted = self.divergences.clone();
        sorted.sort_by(f64::total_cmp);
        let Some(&largest) = sorted.last() else {
            return Divergence::default();
        };
        let rank = (sorted.len() * 99).div_ceil(100);
        Divergence {
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            percentile99: sorted[rank - 1],
            largest,
        }
    }

    /// Words, and errors in them, over all the audio.
    pub(crate) fn words(&self) -> (usize, usize) {
        let words = self.texts.iter().map(|text| text.words).sum();
        (words, self.texts.iter().map(|text| text.errors).sum())
    }

    fn follower<'a>(&'a mut self, audio: usize, leader: &'a mut Leader) -> Follower<'a> {
        Follower {
            leader,
            comparison: self,
            audio,
        }
    }

    fn squares(&mut self, stage: Stage, a: &[f32], b: &[f32]) {
        let index = self.stages.iter().position(|(known, _)| *known == stage);
        let index = index.unwrap_or_else(|| {
            self.stages.push((stage, Squares::default()));
            self.stages.len() - 1
        });
        let squares = &mut self.stages[index].1;
        for (a, b) in a.iter().zip(b) {
            squares.difference += (f64::from(*a) - f64::from(*b)).powi(2);
            squares.original += f64::from(*a).powi(2);
        }
    }

    fn logits(&mut self, audio: usize, position: u64, a: &[f32], b: &[f32]) {
        self.divergences.push(divergence(a, b));
        let (best_a, best_b) = (best(a), best(b));
        if best_a != best_b {
            let margin = |logits: &[f32], own: usize, other: usize| f64::from(logits[own]) - f64::from(logits[other]);
            self.disagreements.push(Disagreement {
                audio,
                position,
                a: best_a as u32,
                b: best_b as u32,
                margin_a: margin(a, best_a, best_b),
                margin_b: margin(b, best_b, best_a),
            });
        }
    }
}

/// Most positions whose values wait at a time.
const MOST_POSITIONS: usize = 25;

/// Says of which model it is that its session fails.
fn of_model(directory: &Path) -> impl Fn(Error) -> Error + Copy + '_ {
    move |error| match error {
        Error::Session(_) => Error::OfModel {
            directory: directory.into(),
            source: Box::new(error),
        },
        error => error,
    }
}

/// What a stage is called.
fn name(stage: Stage) -> String {
    match stage {
        Stage::Mel => "mel frames".into(),
        Stage::ConvStem => "convolution stem".into(),
        Stage::EncoderLayer(layer) => format!("encoder layer {layer}"),
        Stage::EncoderOut => "encoder".into(),
        Stage::Adapter => "adapter".into(),
        Stage::TimeCondition => "delay".into(),
        Stage::Conditioning(layer) => format!("delay conditioning {layer}"),
        Stage::Logits => "logits".into(),
    }
}

/// The first of the largest, as the session decides.
fn best(logits: &[f32]) -> usize {
    let mut best = 0;
    for (id, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = id;
        }
    }
    best
}

/// The Kullback-Leibler divergence of softmax(b) from softmax(a): `sum(p (log p - log q))`, in nats.
fn divergence(a: &[f32], b: &[f32]) -> f64 {
    let log_sum = |logits: &[f32]| {
        let largest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let sum: f64 = logits.iter().map(|logit| (f64::from(*logit) - largest).exp()).sum();
        largest + sum.ln()
    };
    let (log_a, log_b) = (log_sum(a), log_sum(b));
    let sum: f64 = a
        .iter()
        .zip(b)
        .map(|(a, b)| {
            let (p, q) = (f64::from(*a) - log_a, f64::from(*b) - log_b);
            p.exp() * (p - q)
        })
        .sum();
    // Rounding may leave a little less than nothing.
    sum.max(0.0)
}

impl Texts {
    fn new(audio: &Path, a: &[u8], b: &[u8]) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).trim().to_string();
        let (a, b) = (text(a), text(b));
        let (old, new): (Vec<&str>, Vec<&str>) = (a.split_whitespace().collect(), b.split_whitespace().collect());
        let (words, errors) = (old.len(), distance(&old, &new));
        Self {
            audio: audio.into(),
            a,
            b,
            words,
            errors,
        }
    }
}

/// The fewest insertions, deletions and replacements that make one list of the other (Levenshtein).
fn distance(a: &[&str], b: &[&str]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// The model that goes first: what it computed, until the other one has.
#[derive(Default)]
struct Leader {
    seen: VecDeque<(Stage, u64, Vec<f32>)>,
    tokens: VecDeque<(u64, u32)>,
}

impl Probe for Leader {
    fn stage(&mut self, stage: Stage, first: u64, values: &[f32]) {
        self.seen.push_back((stage, first, values.to_vec()));
    }

    fn decide(&mut self, position: u64, id: u32) -> u32 {
        self.tokens.push_back((position, id));
        id
    }
}

/// The model that follows.
struct Follower<'a> {
    leader: &'a mut Leader,
    comparison: &'a mut Comparison,
    audio: usize,
}

impl Probe for Follower<'_> {
    fn stage(&mut self, stage: Stage, first: u64, values: &[f32]) {
        let mut seen = self.leader.seen.iter();
        let Some(index) = seen.position(|(other, start, _)| (*other, *start) == (stage, first)) else {
            return;
        };
        let Some((_, _, original)) = self.leader.seen.remove(index) else {
            return;
        };
        self.comparison.squares(stage, &original, values);
        if stage == Stage::Logits && original.len() == values.len() && !values.is_empty() {
            self.comparison.logits(self.audio, first, &original, values);
        }
    }

    fn decide(&mut self, position: u64, id: u32) -> u32 {
        while let Some((at, token)) = self.leader.tokens.pop_front() {
            if at == position {
                return token;
            }
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_by_the_shortest_way() {
        let errors = |a: &str, b: &str| Texts::new(Path::new("x"), a.as_bytes(), b.as_bytes()).errors;
        assert_eq!(errors("one two three", "one two three"), 0);
        assert_eq!(errors("one two three", "one too three"), 1);
        assert_eq!(errors("one two three", ""), 3);
        assert_eq!(errors("", "one two"), 2);
        assert_eq!(errors("one two three", "two three four"), 2);
        assert_eq!(errors("a b c d", "b a d"), 2);
    }

    #[test]
    fn divergences_are_those_of_known_distributions() {
        let logits = |p: [f64; 2]| p.map(|p| p.ln() as f32 + 3.0);
        let found = divergence(&logits([0.5, 0.5]), &logits([0.25, 0.75]));
        let expected = 0.5 * (0.5f64 / 0.25).ln() + 0.5 * (0.5f64 / 0.75).ln();
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        assert_eq!(divergence(&[1.0, -2.0, 300.0], &[1.0, -2.0, 300.0]), 0.0);
    }

    #[test]
    fn the_percentile_is_a_value_that_99_of_100_do_not_exceed() {
        let of = |count: u32| {
            let divergences = (1..=count).rev().map(f64::from).collect();
            Comparison {
                divergences,
                ..Comparison::default()
            }
            .divergence()
        };
        assert_eq!(
            (of(100).percentile99, of(100).largest, of(100).mean),
            (99.0, 100.0, 50.5)
        );
        assert_eq!(
            (of(1).percentile99, of(200).percentile99, of(0).largest),
            (1.0, 198.0, 0.0)
        );
    }
}
