//! The published dimensions computed with: passes over 4.4 billion generated weights, and one layer of the real widths
//! against the f64 reference.
//!
//! The former want 11 GB of free memory. Without them the test says that it was not run, which is a failure where the
//! variable `CI` is set. Times are printed with `--nocapture`.

use std::fs;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use voxtral::Pool;
use voxtral_core::kernels::{Executor, Serial};
use voxtral_core::layout::{Layout, Memory, Options};
use voxtral_core::model::{Probe, Stage};
use voxtral_core::session::{Session, Step, Token};
use voxtral_tests::engine::{Engine, Plan};
use voxtral_tests::generator::Spec;
use voxtral_tests::generator::safetensors::Dtype;
use voxtral_tests::goldens;
use voxtral_tests::proc;
use voxtral_tests::random;
use voxtral_tests::reference::Reference;

/// Tests that fill the memory take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the machine has `needed` bytes of memory to spare; says so if not, and fails in CI.
fn has_memory(needed: usize) -> bool {
    let available = proc::bytes("/proc/meminfo", "MemAvailable");
    // A container may be allowed less than the machine has.
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit: Option<usize> = limit.and_then(|limit| limit.trim().parse().ok());
    let available = [available, limit].into_iter().flatten().min();
    if available.is_some_and(|bytes| bytes >= needed) {
        return true;
    }
    let has = available.map_or("an unknown amount".into(), |bytes| {
        format!("{:.1} GB", bytes as f64 / 1e9)
    });
    let message = format!(
        "not run: passes over full-size weights need {:.1} GB of free memory, here is {has}",
        needed as f64 / 1e9
    );
    let ci = std::env::var("CI").is_ok_and(|ci| !["", "0", "no", "false"].contains(&ci.as_str()));
    assert!(!ci, "{message} (CI is set, so nothing may be left out)");
    // Past the test harness, which would keep it to itself.
    let _ = writeln!(std::io::stderr(), "{message}");
    false
}

/// What the passes gave, and how long they took.
#[derive(Default)]
struct Passes {
    layers: Vec<(usize, Vec<f32>)>,
    encoder: Vec<f32>,
    adapter: Vec<f32>,
    logits: Vec<f32>,
    tokens: Vec<Token>,
    times: Vec<(&'static str, f64)>,
}

impl Probe for Passes {
    fn stage(&mut self, stage: Stage, _first: u64, values: &[f32]) {
        match stage {
            Stage::EncoderLayer(layer) => self.layers.push((layer, values.to_vec())),
            Stage::EncoderOut => self.encoder.extend(values),
            Stage::Adapter => self.adapter.extend(values),
            Stage::Logits => self.logits.extend(values),
            _ => {}
        }
    }
}

/// Four positions through the encoder, the prompt of three and one more through the decoder.
fn four_positions(engine: &Engine, chunk: usize, executor: &dyn Executor) -> Passes {
    let options = Options {
        chunk,
        left_pad_tokens: 1,
        ..engine.options(1)
    };
    let layout = Layout::new(&engine.params, &options).unwrap();
    // Zeroed pages of the system: of 2 GB only what is used is ever there.
    let mut state = vec![0.0; layout.state_len()];
    let mut scratch = vec![f32::NAN; layout.scratch_len()];
    let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
    let mut session = Session::new(&layout);
    let mut passes = Passes::default();
    // To the end of the fourth position, and the 40 samples behind it that its last mel window covers.
    let samples = random::audio(3, 3 * 1280 + 40);
    let mut rest = &samples[..];
    loop {
        rest = &rest[session.feed(&mut memory, rest).unwrap()..];
        let before = (session.positions_encoded(), session.positions_decoded());
        let started = Instant::now();
        let step = session
            .step_probed(&engine.model(), &mut memory, executor, &mut passes)
            .unwrap();
        let seconds = started.elapsed().as_secs_f64();
        let encoded = session.positions_encoded() - before.0;
        let what = match (encoded, session.positions_decoded() - before.1, step) {
            (_, _, Step::NeedAudio) if rest.is_empty() => break,
            (4, ..) => "4 encoded",
            (2, ..) => "2 encoded",
            (_, 3, _) => "prompt of 3",
            (_, 2, _) => "2 of the prompt",
            (_, 1, _) => "1 decoded",
            _ => "delay",
        };
        passes.times.push((what, seconds));
        if let Step::Token(token) = step {
            passes.tokens.push(token);
        }
    }
    passes
}

fn rms(values: &[f32]) -> f64 {
    let squares: f64 = values.iter().map(|x| f64::from(*x).powi(2)).sum();
    (squares / values.len() as f64).sqrt()
}

/// The bits, for comparisons that know no tolerance.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// One encoder chunk of 4 positions, the prompt and one more position over 4.4 billion weights: finite, of sensible
/// size, and the same bits in two chunks of 2 and by two threads.
#[test]
fn full_size_passes_give_the_same_bits_in_other_chunks_and_threads() {
    let _turn = alone();
    if !has_memory(11_000_000_000) {
        return;
    }
    let spec = Spec::real();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let started = Instant::now();
    let weights = spec.safetensors_by(threads, Dtype::Bf16);
    println!(
        "{} bytes of weights generated by {threads} threads in {:.1} s",
        weights.len(),
        started.elapsed().as_secs_f64()
    );
    assert_eq!(weights.len(), 8_859_462_744);
    let engine = Engine::new(weights, &spec.params_json(), spec.tekken_json());

    let pool = Pool::new(2);
    let runs: [(&str, usize, &dyn Executor); 3] = [
        ("chunk 4, one thread", 4, &Serial),
        ("chunk 2, one thread", 2, &Serial),
        ("chunk 4, two threads", 4, &pool),
    ];
    let runs = runs.map(|(name, chunk, executor)| {
        let passes = four_positions(&engine, chunk, executor);
        let times: Vec<String> = passes
            .times
            .iter()
            .map(|(what, s)| format!("{what} {s:.2} s"))
            .collect();
        println!("{name}, {}: {}", engine.model().kernels().name(), times.join(", "));
        (name, passes)
    });

    let (_, first) = &runs[0];
    assert_eq!(first.encoder.len(), 4 * 4 * 1280);
    assert_eq!(first.adapter.len(), 4 * 3072);
    assert_eq!(first.logits.len(), 2 * 131_072);
    let positions: Vec<u64> = first.tokens.iter().map(|token| token.position).collect();
    assert_eq!(positions, [2, 3], "the prompt's last position, and one behind it");
    for values in [&first.encoder, &first.adapter, &first.logits] {
        assert!(values.iter().all(|x| x.is_finite()));
    }
    // The stream may grow from layer to layer, as every layer adds to it, but neither vanish nor explode.
    let stream: Vec<f64> = first.layers.iter().map(|(_, values)| rms(values)).collect();
    println!("rms of the stream after each encoder layer: {stream:.1?}");
    assert!(first.layers.iter().map(|(layer, _)| *layer).eq(0..32));
    assert!(stream.iter().all(|rms| (0.3..200.0).contains(rms)));
    let rms = [&first.encoder, &first.adapter, &first.logits].map(|values| rms(values));
    println!("rms of encoder, adapter, logits: {rms:.2?}; tokens {:?}", first.tokens);
    // A norm brings its output to the rms of its weights, 1 + u/4 with u uniform in [-1, 1). Logits are products of
    // such a vector with embeddings of 0.8 u.
    let normed = (1.0f64 + 1.0 / 48.0).sqrt();
    let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 0.05;
    assert!(near(rms[0], normed));
    assert!(near(rms[2], normed * 0.8 * (3072.0f64 / 3.0).sqrt()));
    assert!((0.5..10.0).contains(&rms[1]));
    assert!(
        first.adapter[..3072] != first.adapter[3 * 3072..],
        "silence and sound differ"
    );
    assert!(first.logits[..131_072] != first.logits[131_072..]);

    for (name, run) in &runs[1..] {
        assert!(bits(&run.encoder) == bits(&first.encoder), "encoder output, {name}");
        assert!(bits(&run.adapter) == bits(&first.adapter), "adapter rows, {name}");
        assert!(bits(&run.logits) == bits(&first.logits), "logits, {name}");
        assert_eq!(run.tokens, first.tokens, "{name}");
    }
}

/// One layer each of the published widths and heads against the f64 reference, which could not hold all of them.
#[test]
fn one_layer_of_the_real_widths_agrees_with_the_reference() {
    let _turn = alone();
    let mut spec = Spec::real();
    spec.encoder.n_layers = 1;
    spec.decoder.n_layers = 1;
    spec.vocab_size = 2000;
    spec.tekken_bytes = 0;
    spec.extra_pieces = 0;
    let samples = random::audio(5, 4000);
    let started = Instant::now();
    let expected = Reference::of(&spec).run(&samples, 1);
    println!("reference: {:.1} s", started.elapsed().as_secs_f64());
    let engine = Engine::of(&spec);
    let plan = Plan {
        record: true,
        ..Plan::default()
    };
    let run = plan.run(&engine, &engine.options(1), &samples);
    for (stage, expected, tolerance) in [
        ("enc_out", &expected.enc_out, goldens::tolerance::ENC_OUT),
        ("adapter", &expected.adapter, goldens::tolerance::ADAPTER),
        ("logits", &expected.logits, goldens::tolerance::LOGITS),
    ] {
        let ours = &run.stages[stage];
        assert_eq!(ours.len(), expected.data.len(), "{stage}");
        let differences = ours.iter().zip(&expected.data).map(|(a, b)| (f64::from(*a) - b).abs());
        // NaN counts as the largest.
        let worst = differences.max_by(f64::total_cmp).unwrap();
        println!("{stage}: largest difference {worst:.1e}, rms {:.2}", rms(ours));
        assert!(worst <= tolerance, "{stage} differs by {worst:.1e}");
    }
    assert_eq!(run.tokens, expected.tokens);
}
