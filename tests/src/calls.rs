//! A session under any calls with any samples, and what must hold after each of them.

use voxtral_core::kernels::Serial;
use voxtral_core::layout::{Layout, Memory, Options};
use voxtral_core::model::LogitHash;
use voxtral_core::session::{MAX_SAMPLE, Session, SessionError, Step};

use crate::engine::Engine;
use crate::generator::{Spec, Stack};
use crate::random::Stream;

/// A model of few weights whose rings wrap within a second, and which says `</s>` now and then.
pub fn spec() -> Spec {
    let stack = Stack {
        dim: 16,
        n_layers: 1,
        n_heads: 2,
        n_kv_heads: 2,
        head_dim: 6,
        hidden_dim: 20,
        sliding_window: 7,
    };
    Spec {
        eos_gain: 6.0,
        ..Spec::golden(stack, Stack { n_kv_heads: 1, ..stack }, 4, 1260, 21)
    }
}

/// What samples are made of.
#[derive(Clone, Copy, Debug)]
pub enum Sound {
    /// In [-1, 1).
    Audio,
    /// Up to the largest magnitude, zeros of both signs and the smallest numbers among them.
    Extreme,
    /// As `Audio`, with a sample in it that cannot be one.
    Bad(f32),
}

/// A call, as a user of any kind would make it.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// `len` samples of a sound.
    Feed {
        /// What they are made of.
        sound: Sound,
        /// How many.
        len: usize,
        /// Which.
        seed: u64,
    },
    /// So many steps.
    Steps(usize),
    /// The end of the audio.
    Finish,
    /// The next utterance.
    Reset,
    /// All calls with the memory of another layout.
    OtherMemory,
    /// A step with another model.
    OtherModel,
    /// A step with bytes that are cut.
    CutModel,
    /// Keeps session and state, in place of what was kept before.
    Snapshot,
    /// Puts back what was kept, if anything was.
    Restore,
}

fn samples(sound: Sound, len: usize, seed: u64) -> Vec<f32> {
    let mut draw = Stream::new(seed);
    let mut samples: Vec<f32> = (0..len)
        .map(|_| {
            let unit = draw.within(0..=65_535) as f32 / 32_768.0 - 1.0;
            match (sound, draw.within(0..=4)) {
                (Sound::Extreme, 0) => MAX_SAMPLE.copysign(unit),
                (Sound::Extreme, 1) => 0f32.copysign(unit),
                (Sound::Extreme, 2) => f32::MIN_POSITIVE * unit,
                (Sound::Extreme, _) => MAX_SAMPLE * unit,
                _ => unit,
            }
        })
        .collect();
    if let Sound::Bad(value) = sound {
        if len > 0 {
            samples[draw.within(0..=len - 1)] = value;
        }
    }
    samples
}

fn is_bad(sample: f32) -> bool {
    !(-MAX_SAMPLE..=MAX_SAMPLE).contains(&sample)
}

/// What must come back together with the session when it is restored.
#[derive(Clone)]
pub struct Progress {
    session: Session,
    state: Vec<f32>,
    /// Samples taken since the last reset.
    pub accepted: Vec<f32>,
    /// Tokens since the last reset.
    pub tokens: Vec<u32>,
    hash: LogitHash,
    finished: bool,
    /// Whether the model ended the utterance.
    pub stopped: bool,
    /// Whether the session knows its model.
    bound: bool,
    /// The error that only a reset ends.
    pub failed: Option<SessionError>,
}

/// A session, what it works with, and what it should refuse.
pub struct Bench<'a> {
    models: &'a Models,
    layout: Layout,
    other_layout: Layout,
    scratch: Vec<f32>,
    /// What has come of the calls so far.
    pub now: Progress,
    saved: Option<Progress>,
}

/// The models that the calls are made with.
pub struct Models {
    /// The session's.
    pub own: Engine,
    /// The same sizes, other weights.
    other_weights: Engine,
    other_sizes: Engine,
    cut: Engine,
}

impl Default for Models {
    fn default() -> Self {
        Self::new()
    }
}

impl Models {
    /// Generates them.
    pub fn new() -> Self {
        let mut wider = spec();
        wider.decoder.hidden_dim += 1;
        let mut cut = Engine::of(&spec());
        cut.weights.truncate(1000);
        Self {
            own: Engine::of(&spec()),
            other_weights: Engine::of(&Spec { seed: 22, ..spec() }),
            other_sizes: Engine::of(&wider),
            cut,
        }
    }
}

impl<'a> Bench<'a> {
    /// A session at its start.
    pub fn new(models: &'a Models, options: &Options) -> Self {
        let layout = Layout::new(&models.own.params, options).unwrap();
        let other = Options {
            chunk: options.chunk + 1,
            ..*options
        };
        Self {
            models,
            layout,
            other_layout: Layout::new(&models.own.params, &other).unwrap(),
            scratch: vec![f32::NAN; layout.scratch_len()],
            now: Progress {
                session: Session::new(&layout),
                state: vec![f32::NAN; layout.state_len()],
                accepted: Vec::new(),
                tokens: Vec::new(),
                hash: LogitHash::default(),
                finished: false,
                stopped: false,
                bound: false,
                failed: None,
            },
            saved: None,
        }
    }

    /// Makes a call and checks its result.
    pub fn make(&mut self, call: Call) {
        match call {
            Call::Feed { sound, len, seed } => self.feed(&samples(sound, len, seed)),
            Call::Steps(count) => (0..count).for_each(|_| {
                self.step();
            }),
            Call::Finish => self.finish(),
            Call::Reset => self.reset(),
            Call::OtherMemory => self.unchanged(|bench| {
                let layout = &bench.other_layout;
                let (mut state, mut scratch) = (vec![0.0; layout.state_len()], vec![0.0; layout.scratch_len()]);
                let mut memory = Memory::carve(layout, &mut state, &mut scratch).unwrap();
                let session = &mut bench.now.session;
                assert_eq!(session.feed(&mut memory, &[0.5]), Err(SessionError::OtherMemory));
                let step = session.step(&bench.models.own.model(), &mut memory, &Serial);
                assert_eq!(step, Err(SessionError::OtherMemory));
                assert!(state.iter().all(|&x| x == 0.0));
            }),
            Call::OtherModel => self.unchanged(|bench| {
                // Before it knows one, a session takes any model of its sizes.
                let others = [&bench.models.other_sizes, &bench.models.other_weights];
                for other in &others[..1 + usize::from(bench.now.bound)] {
                    let mut memory = Memory::carve(&bench.layout, &mut bench.now.state, &mut bench.scratch).unwrap();
                    let step = bench.now.session.step(&other.model(), &mut memory, &Serial);
                    assert_eq!(step, Err(SessionError::OtherModel));
                }
            }),
            Call::CutModel => {
                // What has been decided already needs no weights.
                while self.now.failed.is_none() && self.now.session.tokens_waiting() > 0 {
                    self.step();
                }
                let mut memory = Memory::carve(&self.layout, &mut self.now.state, &mut self.scratch).unwrap();
                let step = self.now.session.step(&self.models.cut.model(), &mut memory, &Serial);
                match step {
                    // There was nothing to do that needs weights.
                    Ok(Step::NeedAudio | Step::Done) => assert!(self.now.failed.is_none()),
                    Err(error @ SessionError::Weights(_)) => {
                        assert!(self.now.failed.is_none_or(|failed| failed == error));
                        self.now.failed = Some(error);
                    }
                    other => panic!("{other:?}"),
                }
            }
            Call::Snapshot => self.saved = Some(self.now.clone()),
            Call::Restore => {
                if let Some(saved) = &self.saved {
                    self.now = saved.clone();
                    self.scratch.fill(f32::NAN);
                }
            }
        }
    }

    /// Checks that calls leave session and state as they were.
    fn unchanged(&mut self, calls: impl FnOnce(&mut Self)) {
        let before = self.bits();
        calls(self);
        assert!(self.bits() == before, "a refused call changed something");
    }

    fn bits(&self) -> (String, Vec<u32>) {
        let state = self.now.state.iter().map(|value| value.to_bits());
        (format!("{:?}", self.now.session), state.collect())
    }

    fn feed(&mut self, samples: &[f32]) {
        let before = self.bits();
        let now = &mut self.now;
        let mut memory = Memory::carve(&self.layout, &mut now.state, &mut self.scratch).unwrap();
        let first_bad = samples.iter().position(|&x| is_bad(x));
        let refused = match now.session.feed(&mut memory, samples) {
            Ok(taken) => {
                assert!(!now.finished && !now.stopped);
                assert!(taken <= first_bad.unwrap_or(samples.len()), "a bad sample was taken");
                if taken < samples.len() {
                    // It took what fits.
                    assert_eq!(now.session.feed(&mut memory, &[0.5]), Ok(0));
                }
                now.accepted.extend(&samples[..taken]);
                false
            }
            Err(SessionError::Finished) => {
                assert!(now.finished || now.stopped);
                true
            }
            Err(SessionError::BadSample { index, value }) => {
                assert!(!now.finished && !now.stopped);
                assert_eq!(Some(index), first_bad);
                assert_eq!(value.to_bits(), samples[index].to_bits());
                true
            }
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(now.session.samples_fed(), now.accepted.len() as u64);
        if refused {
            assert!(self.bits() == before, "a refused call changed something");
        }
    }

    fn step(&mut self) -> Option<Step> {
        let now = &mut self.now;
        let mut memory = Memory::carve(&self.layout, &mut now.state, &mut self.scratch).unwrap();
        let model = self.models.own.model();
        let step = match now.session.step_probed(&model, &mut memory, &Serial, &mut now.hash) {
            Ok(step) => step,
            Err(error) => {
                assert_eq!(Some(error), now.failed);
                return None;
            }
        };
        assert_eq!(now.failed, None);
        now.bound = true;
        match step {
            Step::Token(token) => {
                now.tokens.push(token.id);
                now.stopped |= self.layout.options().stop_at_end_of_text && token.id == self.layout.options().eos;
            }
            Step::Worked => {}
            Step::NeedAudio => assert!(!now.finished && !now.stopped),
            Step::Done => assert!(now.finished || now.stopped),
        }
        assert_eq!(now.session.is_stopped(), now.stopped);
        Some(step)
    }

    fn finish(&mut self) {
        self.now.session.finish();
        self.now.finished = true;
        self.unchanged(|bench| bench.now.session.finish());
    }

    fn reset(&mut self) {
        let now = &mut self.now;
        now.session.reset();
        now.accepted.clear();
        now.tokens.clear();
        now.hash = LogitHash::default();
        (now.finished, now.stopped) = (false, false);
        now.bound &= now.failed.is_none();
        now.failed = None;
    }

    /// The end of the utterance, against a clean run.
    pub fn conclude(&mut self) {
        if self.now.failed.is_some() {
            self.reset();
            self.feed(&samples(Sound::Audio, 2000, 1));
        }
        self.finish();
        let positions = self.now.session.positions_in_all().unwrap();
        let mut steps = 0;
        while self.step() != Some(Step::Done) {
            steps += 1;
            assert!(steps <= 3 * positions + 1, "no end");
        }
        // Other chunks, all at once: the same bits.
        let options = Options {
            chunk: 25,
            ..*self.layout.options()
        };
        let clean = self.models.own.run(&options, &self.now.accepted);
        assert_eq!(self.now.tokens, clean.tokens);
        assert_eq!(self.now.hash.value(), clean.hash);
    }
}
