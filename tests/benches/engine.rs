//! Speed of the small model on all of its clips, on one thread, for every instruction set of this machine.
//!
//! The time is that of all work, padding included; the audio is the clips alone. With 2.5 s of padding in front and
//! 1.4 s behind, a short clip costs twice its length and more.

use std::time::{Duration, Instant};

use voxtral_core::kernels::{Class, Kernels, Serial};
use voxtral_core::layout::{Layout, Memory, Options, SAMPLES_PER_POSITION};
use voxtral_core::model::{Probe, Stage};
use voxtral_core::session::{Schedule, Session, Step};
use voxtral_tests::engine::Engine;
use voxtral_tests::goldens;

/// Runs over all clips for each instruction set.
const ROUNDS: usize = 9;

/// Where the time of a run went.
#[derive(Clone, Copy, Default)]
struct Times {
    mel: Duration,
    /// Convolution stem, layers and adapter.
    encoder: Duration,
    /// Prompt and generated positions, and the delay conditioning.
    decoder: Duration,
    tokens: usize,
}

impl Times {
    fn total(&self) -> f64 {
        (self.mel + self.encoder + self.decoder).as_secs_f64()
    }
}

/// Notes when an encoder pass has its mel frames.
struct Watch {
    step: Instant,
    mel: Option<Duration>,
}

impl Probe for Watch {
    fn stage(&mut self, stage: Stage, _first: u64, _values: &[f32]) {
        if stage == Stage::Mel {
            self.mel = Some(self.step.elapsed());
        }
    }
}

/// Adds the times of one clip to `times`.
fn transcribe(
    engine: &Engine,
    kernels: Kernels,
    layout: &Layout,
    [state, scratch]: [&mut [f32]; 2],
    samples: &[f32],
    times: &mut Times,
) {
    let model = engine.model().with_kernels(kernels);
    let mut memory = Memory::carve(layout, state, scratch).expect("buffers of the layout");
    let mut session = Session::new(layout);
    let mut rest = samples;
    loop {
        if rest.is_empty() {
            session.finish();
        } else {
            rest = &rest[session.feed(&mut memory, rest).expect("samples")..];
        }
        let mut watch = Watch {
            step: Instant::now(),
            mel: None,
        };
        let step = session
            .step_probed(&model, &mut memory, &Serial, &mut watch)
            .expect("a step");
        let all = watch.step.elapsed();
        match watch.mel {
            Some(mel) => {
                times.mel += mel;
                times.encoder += all - mel;
            }
            None => times.decoder += all,
        }
        match step {
            Step::Token(_) => times.tokens += 1,
            Step::Worked | Step::NeedAudio => {}
            Step::Done => break,
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let engine = Engine::nano();
    let clips = goldens::clips();
    let options = Options {
        // Every position is worked off, whatever the model says.
        stop_at_end_of_text: false,
        ..Options::from(&engine.vocabulary)
    };
    let layout = Layout::new(&engine.params, &options).expect("a layout");
    let (mut state, mut scratch) = (vec![0.0; layout.state_len()], vec![0.0; layout.scratch_len()]);

    let mut sets = vec![Kernels::scalar(Class::Separate)];
    for kernels in [Kernels::baseline(), Kernels::detect()] {
        if sets.iter().all(|set| set.name() != kernels.name()) {
            sets.push(kernels);
        }
    }
    // The sets take turns, so that whatever else the machine does meets all of them.
    let mut rounds: Vec<Vec<Times>> = vec![Vec::new(); sets.len()];
    for round in 0..=ROUNDS {
        for (kernels, rounds) in sets.iter().zip(&mut rounds) {
            let mut times = Times::default();
            for clip in &clips {
                let memory = [&mut state[..], &mut scratch[..]];
                transcribe(&engine, *kernels, &layout, memory, &clip.samples, &mut times);
            }
            // The first round warms up.
            if round > 0 {
                rounds.push(times);
            }
        }
    }

    let samples = clips.iter().map(|clip| clip.samples.len());
    let audio = samples.clone().sum::<usize>() as f64 / 16_000.0;
    let schedule = Schedule::new(&options);
    let positions: u64 = samples.map(|samples| schedule.positions(samples as u64)).sum();
    let padded = positions as f64 * SAMPLES_PER_POSITION as f64 / 16_000.0;
    println!(
        "{} clips, {audio:.2} s of audio, {padded:.2} s with padding; one thread, chunks of {}, delay of {}; \
         medians of {ROUNDS} rounds",
        clips.len(),
        options.chunk,
        options.delay_tokens
    );
    println!(
        "{:<14}{:>12}{:>12}{:>12}{:>12}{:>12}{:>14}{:>12}{:>10}",
        "kernels",
        "mel ms",
        "encoder ms",
        "decoder ms",
        "compute ms",
        "fastest ms",
        "x real time",
        "by fastest",
        "ratio"
    );
    let mut first = None;
    for (kernels, rounds) in sets.iter().zip(&rounds) {
        let of = |part: fn(&Times) -> f64| median(rounds.iter().map(part).collect());
        let compute = of(Times::total);
        let fastest = rounds.iter().map(Times::total).fold(f64::INFINITY, f64::min);
        println!(
            "{:<14}{:>12.1}{:>12.1}{:>12.1}{:>12.1}{:>12.1}{:>14.1}{:>12.1}{:>10.2}",
            kernels.name(),
            1e3 * of(|times| times.mel.as_secs_f64()),
            1e3 * of(|times| times.encoder.as_secs_f64()),
            1e3 * of(|times| times.decoder.as_secs_f64()),
            1e3 * compute,
            1e3 * fastest,
            audio / compute,
            audio / fastest,
            first.get_or_insert(compute).max(f64::MIN_POSITIVE) / compute
        );
    }
    println!("x real time is the audio without padding over the time with it; 10 is the aim for scalar kernels.");
}
