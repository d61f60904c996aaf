//! The engine against the plain f64 reference on random small models, for which nothing is stored: tokens, and every
//! logit within 1e-3.
//!
//! f32 and f64 may choose differently where two logits nearly tie, and from there on they answer different questions.
//! A run is given up at such a step and nowhere else, and the test bounds how many may be.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use voxtral::Pool;
use voxtral_core::kernels::{Class, Executor, Kernels};
use voxtral_core::layout::Options;
use voxtral_tests::engine::{Engine, Plan};
use voxtral_tests::generator::Spec;
use voxtral_tests::random::{self, Stream};
use voxtral_tests::reference::{self, Reference};

/// Models, each run once.
const CONFIGURATIONS: u64 = 240;
/// Largest absolute difference of a logit; their rms is about 1.
const LOGITS: f64 = 1e-3;
/// What half of the runs stay below. A slip that changes little shows here, for the noise of f32 is a hundred
/// times less than [`LOGITS`] in an ordinary model; only an ill-conditioned one comes near.
const LOGITS_OF_THE_MEDIAN: f64 = 2e-5;

/// One model, and one way to run it.
struct Configuration {
    spec: Spec,
    delay_tokens: usize,
    samples: Vec<f32>,
    chunk: usize,
    batch: usize,
    cuts: Vec<usize>,
    threads: usize,
    kernels: Kernels,
}

impl Configuration {
    fn random(seed: u64) -> Self {
        let spec = Spec::random(seed);
        let mut r = Stream::new(!seed);
        let delay_tokens = if r.one_in(12) { 30 } else { spec.delay_tokens() };
        let shortest = r.one_in(16);
        let samples = if shortest {
            r.within(0..=3)
        } else {
            r.within(4..=16_000)
        };
        let pieces = r.within(1..=5);
        Self {
            delay_tokens,
            samples: sound(seed, samples),
            chunk: if r.one_in(12) { 1 } else { r.within(2..=50) },
            batch: Stream::new(seed ^ 0xBA7C4).within(1..=8),
            cuts: (0..pieces)
                .map(|_| {
                    let longest = if r.one_in(4) { 200 } else { 4000 };
                    r.within(1..=longest)
                })
                .collect(),
            threads: r.within(1..=3),
            kernels: if r.one_in(4) {
                Kernels::scalar(Class::Separate)
            } else {
                Kernels::detect()
            },
            spec,
        }
    }

    fn prompt_len(&self) -> usize {
        reference::prompt(self.delay_tokens).len()
    }
}

/// Tones in loud noise. Without the noise some mel bands are almost empty, where the f32 transform is at its worst
/// (1e-5), and models this narrow may make a hundred times that of it: the comparison would measure the audio.
fn sound(seed: u64, samples: usize) -> Vec<f32> {
    let noise = Stream::new(seed ^ 0x7015E).bits();
    let tones = random::audio(seed, samples).into_iter().enumerate();
    tones
        .map(|(i, x)| 0.5 * x + (0.1 * random::uniform(noise, i as u64)) as f32)
        .collect()
}

/// How a run of the engine stands to that of the reference.
struct Outcome {
    /// Generated tokens.
    tokens: usize,
    /// Those that were compared: all, unless the two parted where the reference itself was in doubt.
    compared: usize,
    /// Whether it stopped at end of text, with audio left.
    ended_by_text: bool,
    /// Steps whose token differs from the one before.
    changes: usize,
    /// Largest difference of a logit.
    worst: f64,
    /// Root of the mean square of all logits.
    rms: f64,
    /// Sections of work that were offered to threads.
    sections: usize,
}

/// A pool that counts what it is asked to run.
struct Counting {
    pool: Pool,
    sections: AtomicUsize,
}

impl Executor for Counting {
    fn run(&self, work: &(dyn Fn() + Sync)) {
        self.sections.fetch_add(1, Ordering::Relaxed);
        self.pool.run(work);
    }
}

/// Runs both; says what is wrong.
fn compare(c: &Configuration) -> Result<Outcome, String> {
    let expected = Reference::of(&c.spec).run(&c.samples, c.delay_tokens);
    let engine = Engine::of(&c.spec);
    let options = Options {
        chunk: c.chunk,
        batch: c.batch,
        ..engine.options(c.delay_tokens)
    };
    let executor = Counting {
        pool: Pool::new(c.threads),
        sections: AtomicUsize::new(0),
    };
    let plan = Plan {
        cuts: &c.cuts,
        executor: &executor,
        kernels: Some(c.kernels),
        record: true,
        ..Plan::default()
    };
    let run = plan.run(&engine, &options, &c.samples);

    let logits = run.stages["logits"].chunks_exact(c.spec.vocab_size);
    assert_eq!(logits.len(), run.tokens.len());
    let (mut compared, mut worst) = (0, 0f64);
    for (step, (ours, theirs)) in logits.zip(expected.logits.iter()).enumerate() {
        // A NaN counts as the largest difference of all.
        let difference = |(a, b): (&f32, &f64)| Some((f64::from(*a) - b).abs()).filter(|d| !d.is_nan());
        let differences = ours.iter().zip(theirs).map(|pair| difference(pair).unwrap_or(f64::MAX));
        let largest = differences.fold(0.0, f64::max);
        if largest > LOGITS {
            return Err(format!("step {step}: a logit differs by {largest:.1e}"));
        }
        worst = worst.max(largest);
        if run.tokens[step] != expected.tokens[step] {
            let margin = expected.margins[step];
            // Each of the two logits may be off by the tolerance.
            if margin > 2.0 * LOGITS {
                return Err(format!(
                    "step {step}: token {} instead of {}, which leads by {margin:.1e}",
                    run.tokens[step], expected.tokens[step]
                ));
            }
            break;
        }
        compared += 1;
    }
    let tokens = expected.tokens.len();
    let whole = compared == tokens;
    if whole && run.tokens.len() != tokens {
        return Err(format!("{} tokens instead of {tokens}", run.tokens.len()));
    }
    let positions = expected.adapter.len() - (c.prompt_len() - 1);
    let squares: f64 = expected.logits.data.iter().map(|x| x * x).sum();
    Ok(Outcome {
        tokens,
        compared,
        ended_by_text: tokens < positions,
        changes: expected.tokens.windows(2).filter(|pair| pair[0] != pair[1]).count(),
        worst,
        rms: (squares / expected.logits.data.len() as f64).sqrt(),
        sections: executor.sections.into_inner(),
    })
}

/// A feature that the sample must show, how often at least, and who has it.
type Feature = (&'static str, usize, fn(&Configuration, &Outcome) -> bool);

const FEATURES: [Feature; 26] = [
    ("decoder window smaller than the prompt", 100, |c, _| {
        c.spec.decoder.sliding_window < c.prompt_len()
    }),
    ("decoder window of at most 3 keys", 5, |c, _| {
        c.spec.decoder.sliding_window <= 3
    }),
    ("decoder window never full", 20, |c, _| {
        c.spec.decoder.sliding_window == 8192
    }),
    ("encoder window shorter than one pass", 60, |c, _| {
        c.spec.encoder.sliding_window < 4 * c.chunk
    }),
    ("encoder window of at most 3 keys", 5, |c, _| {
        c.spec.encoder.sliding_window <= 3
    }),
    ("encoder window never full", 20, |c, _| {
        c.spec.encoder.sliding_window == 8192
    }),
    ("encoder head size not a power of two", 100, |c, _| {
        !c.spec.encoder.head_dim.is_power_of_two()
    }),
    ("decoder head size not a power of two", 100, |c, _| {
        !c.spec.decoder.head_dim.is_power_of_two()
    }),
    ("one layer each", 15, |c, _| {
        (c.spec.encoder.n_layers, c.spec.decoder.n_layers) == (1, 1)
    }),
    ("encoder without biases", 15, |c, _| !c.spec.encoder_biases),
    ("odd vocabulary", 80, |c, _| c.spec.vocab_size % 2 == 1),
    ("odd encoder width", 80, |c, _| c.spec.encoder.dim % 2 == 1),
    ("heads wider or narrower than the stream", 200, |c, _| {
        c.spec.decoder.n_heads * c.spec.decoder.head_dim != c.spec.decoder.dim
    }),
    ("delay of 1", 40, |c, _| c.delay_tokens == 1),
    ("delay of 2 to 14", 100, |c, _| (2..15).contains(&c.delay_tokens)),
    ("delay of 15", 5, |c, _| c.delay_tokens == 15),
    ("delay of 30", 12, |c, _| c.delay_tokens == 30),
    ("chunk of one position", 12, |c, _| c.chunk == 1),
    ("chunk longer than the prompt", 20, |c, _| c.chunk > c.prompt_len()),
    ("prompt in several passes", 100, |c, _| c.chunk < c.prompt_len()),
    ("a cut shorter than a hop", 80, |c, _| {
        c.cuts.iter().any(|&cut| cut < 160)
    }),
    ("at most three samples", 8, |c, _| c.samples.len() <= 3),
    ("work shared by two threads", 50, |c, o| {
        c.threads == 2 && o.sections > 0
    }),
    ("work shared by three threads", 50, |c, o| {
        c.threads == 3 && o.sections > 0
    }),
    ("multiply, then add", 40, |c, _| c.kernels.class() == Class::Separate),
    ("end of text before the end of the audio", 10, |_, o| o.ended_by_text),
];

#[test]
fn random_models_agree_with_the_plain_reference() {
    let next = AtomicU64::new(0);
    let all = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= CONFIGURATIONS {
                break;
            }
            let configuration = Configuration::random(seed);
            let outcome = compare(&configuration);
            all.lock().unwrap().push((seed, configuration, outcome));
        }
    };
    thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let mut all = all.into_inner().unwrap();
    all.sort_by_key(|(seed, ..)| *seed);
    assert_eq!(all.len() as u64, CONFIGURATIONS);

    let failures: Vec<String> = all
        .iter()
        .filter_map(|(seed, c, outcome)| {
            let reason = outcome.as_ref().err()?;
            let Configuration {
                delay_tokens, chunk, ..
            } = c;
            Some(format!(
                "seed {seed}, delay {delay_tokens}, chunk {chunk}: {reason}\n  {:?}",
                c.spec
            ))
        })
        .collect();
    assert!(
        failures.is_empty(),
        "{} of {} runs differ from the reference, the first:\n{}",
        failures.len(),
        all.len(),
        failures[..failures.len().min(5)].join("\n")
    );
    let runs: Vec<(&Configuration, &Outcome)> = all
        .iter()
        .filter_map(|(_, c, outcome)| Some((c, outcome.as_ref().ok()?)))
        .collect();

    let sum = |count: fn(&Outcome) -> usize| runs.iter().map(|(_, o)| count(o)).sum::<usize>();
    let (tokens, compared, changes) = (sum(|o| o.tokens), sum(|o| o.compared), sum(|o| o.changes));
    let cut_short = runs.iter().filter(|(_, o)| o.compared < o.tokens).count();
    let sorted = |value: fn(&Outcome) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(|(_, o)| value(o)).collect();
        values.sort_by(f64::total_cmp);
        [values[0], values[values.len() / 2], values[values.len() - 1]]
    };
    let [_, median, worst] = sorted(|o| o.worst);
    let [faintest, usual, loudest] = sorted(|o| o.rms);
    println!("{} runs, {cut_short} of them cut short by a tie", runs.len());
    println!("{compared} of {tokens} tokens compared, {changes} of them unlike the one before");
    println!("largest difference of a logit: {median:.1e} in the median run, {worst:.1e} in the worst");
    println!("rms of the logits: {faintest:.2} to {loudest:.2}, {usual:.2} in the median run");

    // The tolerance means something only beside logits that are large against it and do change.
    assert!(faintest > 0.3 && changes > 500);
    assert!(median < LOGITS_OF_THE_MEDIAN, "{median:.1e} in the median run");
    assert!(20 * cut_short <= runs.len(), "{cut_short} runs were cut short");
    assert!(100 * compared >= 98 * tokens, "{compared} of {tokens} tokens compared");

    for ratio in 1..=8 {
        let found = runs
            .iter()
            .filter(|(c, _)| c.spec.decoder.n_heads == ratio * c.spec.decoder.n_kv_heads)
            .count();
        println!("{found:4} × {ratio} query heads to a key/value head");
        assert!(found >= 10, "{found} × {ratio} query heads to a key/value head");
    }
    for (what, least, holds) in FEATURES {
        let found = runs.iter().filter(|(c, o)| holds(c, o)).count();
        println!("{found:4} × {what}");
        assert!(found >= least, "{found} × {what}, at least {least} are wanted");
    }
}
