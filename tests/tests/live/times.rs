//! When words are said to have been spoken.

use std::ops::Range;

use voxtral::core::layout::Options;
use voxtral::core::model::NoProbe;
use voxtral::{Decided, Error, Listener, Model, Pool, Transcriber, Word, Words};
use voxtral_tests::goldens;

/// What is cut out before and behind a word, beyond what is loud: 30 ms.
const MARGIN: usize = 480;

/// A word cut out of a clip.
struct Spoken {
    text: String,
    samples: Vec<f32>,
    /// Where in the samples it is loud.
    loud: Range<usize>,
}

/// Loud stretches of a clip; shorter gaps than 100 ms are inside a word.
fn stretches(samples: &[f32]) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (frame, piece) in samples.chunks(160).enumerate() {
        let mean_square = piece.iter().map(|x| x * x).sum::<f32>() / piece.len() as f32;
        if mean_square < 1e-4 {
            continue;
        }
        let (from, to) = (frame * 160, (frame * 160 + piece.len()));
        match found.last_mut() {
            Some((_, end)) if from - *end < 1600 => *end = to,
            _ => found.push((from, to)),
        }
    }
    found
}

/// Words of the clips without noise in which each stretch is a word.
fn vocabulary() -> Vec<Spoken> {
    let mut words = Vec::new();
    for clip in goldens::clips().iter().filter(|clip| !clip.file.contains("noisy")) {
        let delay6 = clip.delays.iter().find(|result| result.delay_tokens == 6).unwrap();
        let texts: Vec<&str> = delay6.text.split_whitespace().collect();
        let stretches = stretches(&clip.samples);
        if texts.len() == stretches.len() {
            words.extend(texts.iter().zip(stretches).map(|(text, (from, to))| Spoken {
                text: (*text).to_owned(),
                samples: clip.samples[from.saturating_sub(MARGIN)..(to + MARGIN).min(clip.samples.len())].to_vec(),
                loud: from.min(MARGIN)..from.min(MARGIN) + to - from,
            }));
        }
    }
    words
}

struct Collected<'m> {
    words: Words<'m>,
    list: Vec<Word>,
}

impl Listener for Collected<'_> {
    fn token(&mut self, token: &Decided<'_>) -> Result<(), Error> {
        self.list.extend(self.words.push(token)?);
        Ok(())
    }
}

fn transcribe(model: &Model, delay_ms: usize, samples: &[f32]) -> Vec<Word> {
    let pool = Pool::new(1);
    let options = Options::from(model.vocabulary()).with_delay_ms(delay_ms).unwrap();
    let mut transcriber = Transcriber::new(model, &options, &pool).unwrap();
    let mut collected = Collected {
        words: Words::new(model, Some(0.999)),
        list: Vec::new(),
    };
    collected.words.hear(samples);
    transcriber.push_to(samples, &mut collected, &mut NoProbe).unwrap();
    transcriber.finish_to(&mut collected, &mut NoProbe).unwrap();
    collected.list.extend(collected.words.end());
    collected.list
}

/// Clips built from single words at known places: the median error of a word's end is 80 ms at most, the worst
/// 240 ms, and so are those of its beginning.
#[test]
fn words_are_where_they_were_spoken() {
    let model = Model::embedded().unwrap();
    let spoken = vocabulary();
    assert!(spoken.len() >= 10, "{} words", spoken.len());
    let (mut ends, mut starts) = (vec![], vec![]);
    let (mut built, mut heard) = (0, 0);
    for (first, delay_ms) in (0..spoken.len()).flat_map(|first| [(first, 480), (first, 960)]) {
        // Three words, at places that fall anywhere on the grid of positions.
        let mut samples = vec![0.0; 6000 + 333 * first];
        let (mut places, mut expected) = (vec![], vec![]);
        for word in spoken.iter().cycle().skip(first).step_by(4).take(3) {
            places.push((samples.len() + word.loud.start, samples.len() + word.loud.end));
            expected.push(word.text.as_str());
            samples.extend(&word.samples);
            samples.resize(samples.len() + 5000 + 211 * first, 0.0);
        }
        let words = transcribe(&model, delay_ms, &samples);
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        built += 1;
        if texts != expected {
            // The small model is not always right.
            continue;
        }
        heard += 1;
        for (word, (from, to)) in words.iter().zip(places) {
            ends.push(word.end - to as f64 / 16e3);
            starts.push(word.start - from as f64 / 16e3);
            assert!(word.start <= word.end && word.probability <= 1.0);
        }
    }
    assert!(
        heard * 2 > built,
        "{heard} clips of {built} have the words that are in them"
    );
    for (name, errors) in [("end", &mut ends), ("start", &mut starts)] {
        let bias = errors.iter().sum::<f64>() / errors.len() as f64;
        errors.iter_mut().for_each(|error| *error = error.abs());
        errors.sort_by(f64::total_cmp);
        let (median, worst) = (errors[errors.len() / 2], errors[errors.len() - 1]);
        println!(
            "{name}: {} words, median {median:.3} s, worst {worst:.3} s, mean {bias:.3} s",
            errors.len()
        );
        assert!(
            median <= 0.08 && worst <= 0.24,
            "{name}: median {median}, worst {worst}, mean {bias}"
        );
    }
}

/// Alternatives are sorted, no likelier than what was chosen, and within the cutoff; without one there are none.
#[test]
fn alternatives_are_less_likely_and_within_the_cutoff() {
    let model = Model::embedded().unwrap();
    let words = transcribe(&model, 480, &goldens::clips()[8].samples);
    assert!(words.iter().any(|word| !word.alternatives.is_empty()));
    for word in words {
        let mut before = word.probability;
        for other in &word.alternatives {
            assert!(other.probability <= before && other.probability >= 0.0009 * word.probability);
            assert_ne!(other.text, word.text);
            before = other.probability;
        }
    }
}
