//! Core driven the plain way: a model from bytes, a run from samples, every stage recorded.

use std::collections::BTreeMap;

use voxtral_core::format::params::Params;
use voxtral_core::format::safetensors::{self, Entry};
use voxtral_core::format::tekken::Vocabulary;
use voxtral_core::kernels::{Executor, Kernels, Serial};
use voxtral_core::layout::{Layout, Memory, Options};
use voxtral_core::model::{Binding, LogitHash, Model, Probe, Slot, Stage};
use voxtral_core::session::{Session, SessionError, Step};

use crate::generator::Spec;
use crate::generator::safetensors::Dtype;

/// A bound model and its bytes.
pub struct Engine {
    /// `consolidated.safetensors`.
    pub weights: Vec<u8>,
    /// `tekken.json`.
    pub tekken: Vec<u8>,
    /// The parsed `params.json`.
    pub params: Params,
    /// The parsed `tekken.json`.
    pub vocabulary: Vocabulary,
    binding: Binding,
    slots: Vec<Slot>,
}

impl Engine {
    /// Binds a model of the bytes of its three files.
    pub fn new(weights: Vec<u8>, params: &[u8], tekken: Vec<u8>) -> Self {
        let params = Params::parse(params).expect("params.json");
        let vocabulary = Vocabulary::parse(&tekken).expect("tekken.json");
        let mut entries = vec![Entry::default(); safetensors::count(&weights).expect("a header")];
        let header = safetensors::parse(&weights, &mut entries).expect("safetensors");
        let mut slots = vec![Slot::default(); Binding::slots(&params)];
        let binding = Binding::new(&header, &params, &mut slots).expect("the tensors of params.json");
        Self {
            weights,
            tekken,
            params,
            vocabulary,
            binding,
            slots,
        }
    }

    /// A generated model.
    pub fn of(spec: &Spec) -> Self {
        Self::new(spec.safetensors(Dtype::Bf16), &spec.params_json(), spec.tekken_json())
    }

    /// The small model.
    pub fn nano() -> Self {
        let file = |name: &str| std::fs::read(crate::goldens::nano_dir().join(name)).expect(name);
        Self::new(
            file("consolidated.safetensors"),
            &file("params.json"),
            file("tekken.json"),
        )
    }

    /// The view that core computes with.
    pub fn model(&self) -> Model<'_> {
        Model::new(&self.weights, &self.slots, &self.binding)
    }

    /// The same over other bytes, which should be the same weights elsewhere.
    pub fn model_at<'a>(&'a self, weights: &'a [u8]) -> Model<'a> {
        Model::new(weights, &self.slots, &self.binding)
    }

    /// The options of `tekken.json` with another delay.
    pub fn options(&self, delay_tokens: usize) -> Options {
        Options {
            delay_tokens,
            ..Options::from(&self.vocabulary)
        }
    }

    /// Runs a whole utterance fed at once, on the caller's thread, by the best kernels.
    pub fn run(&self, options: &Options, samples: &[f32]) -> Run {
        Plan::default().run(self, options, samples)
    }
}

/// How a run is made.
pub struct Plan<'a> {
    /// Lengths of the pieces the samples are fed in, over and over; empty for all at once.
    pub cuts: &'a [usize],
    /// Threads.
    pub executor: &'a dyn Executor,
    /// Kernels, or the best.
    pub kernels: Option<Kernels>,
    /// Whether stages are recorded (the hash always is).
    pub record: bool,
    /// Guesses of the tokens at positions, instead of the session's own.
    pub guess: Option<&'a dyn Fn(u64, u32) -> u32>,
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Self {
            cuts: &[],
            executor: &Serial,
            kernels: None,
            record: false,
            guess: None,
        }
    }
}

/// What came out of a run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The tokens, with the final end of text if it came.
    pub tokens: Vec<u32>,
    /// Position of each.
    pub positions: Vec<u64>,
    /// Hash of all logits.
    pub hash: u64,
    /// Values of every stage by its name in the goldens (`mel`, `conv_stem`, `enc_layer0`, …), rows joined.
    pub stages: BTreeMap<String, Vec<f32>>,
}

impl Plan<'_> {
    /// Runs a whole utterance in memory of its own.
    pub fn run(&self, engine: &Engine, options: &Options, samples: &[f32]) -> Run {
        let layout = Layout::new(&engine.params, options).expect("a layout");
        // Core promises to need no particular contents: NaN would show in every result.
        let mut state = vec![f32::NAN; layout.state_len()];
        let mut scratch = vec![f32::NAN; layout.scratch_len()];
        let mut session = Session::new(&layout);
        self.run_in(engine, &layout, &mut session, &mut state, &mut scratch, samples)
            .expect("a run")
    }

    /// Runs a whole utterance in given memory.
    pub fn run_in(
        &self,
        engine: &Engine,
        layout: &Layout,
        session: &mut Session,
        state: &mut [f32],
        scratch: &mut [f32],
        samples: &[f32],
    ) -> Result<Run, SessionError> {
        let mut memory = Memory::carve(layout, state, scratch)?;
        let mut recorder = Recorder {
            keep: self.record,
            guess: self.guess,
            ..Recorder::default()
        };
        let mut run = Run::default();
        let mut cuts = self.cuts.iter().cycle();
        let mut rest = samples;
        while !rest.is_empty() && !session.is_stopped() {
            let piece = cuts.next().map_or(rest.len(), |&cut| cut.min(rest.len()));
            let (mut piece, behind) = rest.split_at(piece);
            while !piece.is_empty() && !session.is_stopped() {
                let taken = session.feed(&mut memory, piece)?;
                piece = &piece[taken..];
                self.drain(engine, session, &mut memory, &mut recorder, &mut run)?;
            }
            rest = behind;
        }
        session.finish();
        self.drain(engine, session, &mut memory, &mut recorder, &mut run)?;
        run.hash = recorder.hash.value();
        run.stages = recorder.stages;
        Ok(run)
    }

    /// Steps until audio is wanted or the end is reached.
    fn drain(
        &self,
        engine: &Engine,
        session: &mut Session,
        memory: &mut Memory,
        recorder: &mut Recorder,
        run: &mut Run,
    ) -> Result<(), SessionError> {
        let model = engine.model();
        let model = self.kernels.map_or(model, |kernels| model.with_kernels(kernels));
        loop {
            match session.step_probed(&model, memory, self.executor, recorder)? {
                Step::Token(token) => {
                    run.tokens.push(token.id);
                    run.positions.push(token.position);
                }
                Step::Worked => {}
                Step::NeedAudio | Step::Done => return Ok(()),
            }
        }
    }
}

#[derive(Default)]
struct Recorder<'a> {
    keep: bool,
    guess: Option<&'a dyn Fn(u64, u32) -> u32>,
    hash: LogitHash,
    stages: BTreeMap<String, Vec<f32>>,
}

impl Probe for Recorder<'_> {
    fn guess(&mut self, position: u64, id: u32) -> u32 {
        self.guess.map_or(id, |guess| guess(position, id))
    }

    fn stage(&mut self, stage: Stage, first: u64, values: &[f32]) {
        self.hash.stage(stage, first, values);
        if self.keep {
            let name = match stage {
                Stage::Mel => "mel".into(),
                Stage::ConvStem => "conv_stem".into(),
                Stage::EncoderLayer(layer) => format!("enc_layer{layer}"),
                Stage::EncoderOut => "enc_out".into(),
                Stage::Adapter => "adapter".into(),
                Stage::TimeCondition => "t_cond".into(),
                // The goldens stack the layers.
                Stage::Conditioning(_) => "ada".into(),
                Stage::Logits => "logits".into(),
            };
            self.stages.entry(name).or_default().extend(values);
        }
    }
}
