//! Whole passes through the model, by the session that transcribes.
//!
//! A pass is done again and again from a copy of the session: it finds and leaves the same memory. Where caches should
//! be full, the session begins in the middle of its audio, over memory that was filled with numbers.

use std::hint::black_box;
use std::time::{Duration, Instant};

use voxtral_core::audio::{HOP, LogMel, MEL_BINS, SAMPLE_RATE, WINDOW};
use voxtral_core::format::params::Params;
use voxtral_core::layout::{Layout, Memory, Options, SAMPLES_PER_POSITION};
use voxtral_core::model::{DecoderTensor, NoProbe, Probe, Role, Stage};
use voxtral_core::session::{Session, Step};

use super::operations::{CACHES, CHUNKS, LATER, fills, seen, values};
use super::{Bencher, Call, Case, Group, Work};
use crate::error::Error;
use crate::zeroed::Zeroed;

/// Positions of the prompt that prefill is measured with: what the published model has at its own delay.
const PROMPT: usize = 39;
/// Two numbers of bfloat16, or one of f32, near 0.01: what full caches are filled with.
const FILLING: f32 = f32::from_bits(0x3C23_3C23);

/// Where the time of an encoder pass went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parts {
    /// Samples to mel frames.
    pub(crate) mel: Duration,
    /// Convolution stem.
    pub(crate) stem: Duration,
    /// All layers.
    pub(crate) layers: Duration,
    /// Final norm and adapter.
    pub(crate) adapter: Duration,
}

impl Parts {
    /// All of it.
    pub(crate) fn all(&self) -> Duration {
        self.mel + self.stem + self.layers + self.adapter
    }
}

/// Notes when the stages of an encoder pass are done.
struct Watch {
    last: Instant,
    parts: Parts,
}

impl Watch {
    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - std::mem::replace(&mut self.last, now)
    }
}

impl Probe for Watch {
    fn stage(&mut self, stage: Stage, _first: u64, _values: &[f32]) {
        let lap = self.lap();
        match stage {
            Stage::Mel => self.parts.mel += lap,
            Stage::ConvStem => self.parts.stem += lap,
            Stage::EncoderLayer(_) => self.parts.layers += lap,
            Stage::EncoderOut | Stage::Adapter => self.parts.adapter += lap,
            _ => {}
        }
    }
}

/// A session with its memory.
struct Engine {
    layout: Layout,
    session: Session,
    state: Zeroed,
    scratch: Zeroed,
}

impl Engine {
    /// At `position` over full caches, or at the start.
    fn new(params: &Params, options: &Options, position: Option<u64>) -> Result<Self, Error> {
        let layout = Layout::new(params, options)?;
        let mut state = Zeroed::new(layout.state_len())?;
        let session = match position {
            None => Session::new(&layout),
            Some(position) => {
                state.fill(FILLING);
                Session::amid(&layout, position)
            }
        };
        Ok(Self {
            layout,
            session,
            state,
            scratch: Zeroed::new(layout.scratch_len())?,
        })
    }

    /// One step of the session.
    fn step(&mut self, bench: &Bencher<'_>, probe: &mut dyn Probe) -> Result<Step, Error> {
        let mut memory = Memory::carve(&self.layout, &mut self.state, &mut self.scratch)?;
        Ok(self
            .session
            .step_probed(&bench.model, &mut memory, &bench.crew, probe)?)
    }

    /// Feeds silence until so many positions have been encoded, or can be encoded by the next step.
    fn feed(&mut self, positions: usize) -> Result<(), Error> {
        let silence = vec![0.0; (positions + 1) * SAMPLES_PER_POSITION];
        let mut memory = Memory::carve(&self.layout, &mut self.state, &mut self.scratch)?;
        self.session.feed(&mut memory, &silence)?;
        Ok(())
    }
}

fn options(chunk: usize) -> Options {
    Options {
        delay_tokens: 6,
        left_pad_tokens: PROMPT - 7,
        chunk,
        batch: 1,
        decoder_window: None,
        cache: Default::default(),
        logits: false,
        stop_at_end_of_text: false,
        bos: 0,
        eos: 0,
        streaming_pad: 0,
    }
}

pub(super) fn cases<'a>(bench: &'a Bencher<'_>) -> Vec<Case<'a>> {
    let mut cases = vec![mel(bench)];
    cases.extend(CHUNKS.map(|positions| encoder(bench, positions)));
    cases.push(prefill(bench));
    for (cache, name) in CACHES {
        let window = bench.model.params().decoder.sliding_window;
        cases.extend(fills(window).into_iter().map(|fill| {
            let options = Options {
                cache,
                decoder_window: Some(seen(fill, window)),
                ..options(1)
            };
            step(bench, format!("decode step, {fill} cached, {name}"), options)
        }));
    }
    cases
}

fn mel<'a>(bench: &'a Bencher<'_>) -> Case<'a> {
    let frames = SAMPLE_RATE / HOP;
    // What a fast transform of the window takes as it is usually counted, 5 N log2 N, and the filters.
    let n = WINDOW as f64;
    let flop = frames as f64 * (5.0 * n * n.log2() + 2.0 * voxtral_core::audio::filters().count() as f64);
    Case {
        group: Group::Whole,
        name: "mel, 1 s of audio".into(),
        detail: format!("{frames} frames"),
        work: Work {
            flop,
            bytes: 4.0 * (frames * (HOP + MEL_BINS)) as f64,
        },
        seconds_of_audio: 1.0,
        prepare: Box::new(move || {
            let transform = LogMel::new(bench.model.params().global_log_mel_max);
            let samples = values(SAMPLE_RATE + WINDOW)?;
            let mut frame = [0.0; MEL_BINS];
            Ok(Box::new(move || {
                for window in samples.windows(WINDOW).step_by(HOP).take(frames) {
                    if let Some(window) = window.first_chunk() {
                        transform.frame(window, &mut frame);
                        black_box(&frame);
                    }
                }
                Ok(())
            }))
        }),
    }
}

/// Bytes and elements of the weights whose role is wanted.
fn weights(bench: &Bencher<'_>, wanted: impl Fn(Role) -> bool) -> (f64, f64) {
    Role::all(bench.model.params())
        .filter(|&role| wanted(role))
        .filter_map(|role| bench.model.get(role).ok())
        .map(|w| (w.bytes().len() as f64, (w.rows() * w.cols()) as f64))
        .fold((0.0, 0.0), |sum, w| (sum.0 + w.0, sum.1 + w.1))
}

/// Mel, stem, layers and adapter over `positions`, with the caches full.
fn encoder<'a>(bench: &'a Bencher<'_>, positions: usize) -> Case<'a> {
    let params = bench.model.params();
    let e = &params.encoder;
    let frames = positions * params.downsample_factor;
    let (layer_bytes, layer_weights) = weights(bench, |role| matches!(role, Role::Encoder { .. }));
    let (adapter_bytes, adapter_weights) = weights(bench, |role| matches!(role, Role::AdapterIn | Role::AdapterOut));
    let (stem0_bytes, stem0) = weights(bench, |role| role == Role::Conv0Weight);
    let (stem1_bytes, stem1) = weights(bench, |role| role == Role::Conv1Weight);
    let pairs = (e.n_layers * frames * e.sliding_window * e.n_heads * e.head_dim) as f64;
    let columns = frames as f64;
    let products = 2.0 * columns * (layer_weights + stem1 + 2.0 * stem0) + 2.0 * positions as f64 * adapter_weights;
    let seconds = (positions * SAMPLES_PER_POSITION) as f64 / SAMPLE_RATE as f64;
    Case {
        group: Group::Whole,
        name: format!("encoder, 1 s of audio in passes of {seconds} s"),
        detail: format!("{frames} frames"),
        work: Work {
            flop: products + 4.0 * pairs,
            bytes: layer_bytes + adapter_bytes + stem0_bytes + stem1_bytes,
        },
        seconds_of_audio: seconds,
        prepare: Box::new(move || {
            let mut engine = Engine::new(
                bench.model.params(),
                // Nothing is decoded.
                &Options {
                    decoder_window: Some(1),
                    ..options(positions)
                },
                Some(LATER),
            )?;
            engine.feed(positions)?;
            // The first step is the conditioning.
            engine.step(bench, &mut NoProbe)?;
            let ready = engine.session;
            Ok(Box::new(move || {
                engine.session = ready;
                // The pass moves its samples on; silence is followed by silence.
                let mut watch = Watch {
                    last: Instant::now(),
                    parts: Parts::default(),
                };
                engine.step(bench, &mut watch)?;
                bench.passes.borrow_mut().push((positions, watch.parts));
                Ok(())
            }))
        }),
    }
}

/// The decoder over the prompt.
fn prefill<'a>(bench: &'a Bencher<'_>) -> Case<'a> {
    let d = &bench.model.params().decoder;
    let (bytes, elements) = decoder_weights(bench, |role| role != Role::TokenEmbeddings);
    let (head_bytes, head) = decoder_weights(bench, |role| role == Role::TokenEmbeddings);
    let pairs = (d.n_layers * PROMPT * (PROMPT + 1) / 2 * d.n_heads * d.head_dim) as f64;
    Case {
        group: Group::Whole,
        name: "prefill".into(),
        detail: format!("{PROMPT} positions"),
        work: Work {
            flop: 2.0 * (PROMPT as f64 * elements + head) + 4.0 * pairs,
            bytes: bytes + head_bytes,
        },
        seconds_of_audio: 1.0,
        prepare: Box::new(move || {
            // A window of the prompt is all that is used.
            let window = PROMPT.min(bench.model.params().decoder.sliding_window);
            let options = Options {
                decoder_window: Some(window),
                ..options(PROMPT)
            };
            let mut engine = Engine::new(bench.model.params(), &options, None)?;
            engine.feed(PROMPT)?;
            while engine.session.positions_encoded() == 0 {
                engine.step(bench, &mut NoProbe)?;
            }
            Ok(again(engine, bench))
        }),
    }
}

/// One position of the decoder, with its head.
fn step<'a>(bench: &'a Bencher<'_>, name: String, options: Options) -> Case<'a> {
    let d = &bench.model.params().decoder;
    let (bytes, elements) = decoder_weights(bench, |_| true);
    let seen = options.decoder_window.unwrap_or(d.sliding_window);
    let element = if options.cache == Default::default() { 4 } else { 2 };
    Case {
        group: Group::Whole,
        name,
        detail: format!("{} layers", d.n_layers),
        work: Work {
            flop: 2.0 * elements + 4.0 * (d.n_layers * seen * d.n_heads * d.head_dim) as f64,
            bytes: bytes + 2.0 * (d.n_layers * seen * d.n_kv_heads * d.head_dim * element) as f64,
        },
        seconds_of_audio: 1.0,
        prepare: Box::new(move || {
            let mut engine = Engine::new(bench.model.params(), &options, Some(LATER))?;
            engine.feed(1)?;
            while engine.session.positions_encoded() == LATER {
                engine.step(bench, &mut NoProbe)?;
            }
            Ok(again(engine, bench))
        }),
    }
}

/// Weights that one pass of the decoder reads; those of the delay's conditioning are none of them.
fn decoder_weights(bench: &Bencher<'_>, wanted: impl Fn(Role) -> bool) -> (f64, f64) {
    weights(bench, |role| {
        let read = match role {
            Role::TokenEmbeddings | Role::DecoderNorm => true,
            Role::Decoder { tensor, .. } => !matches!(tensor, DecoderTensor::AdaDown | DecoderTensor::AdaUp),
            _ => false,
        };
        read && wanted(role)
    })
}

/// The next step of the session, as often as it is called.
fn again<'a>(mut engine: Engine, bench: &'a Bencher<'_>) -> Call<'a> {
    let ready = engine.session;
    Box::new(move || {
        engine.session = ready;
        engine.step(bench, &mut NoProbe)?;
        Ok(())
    })
}
