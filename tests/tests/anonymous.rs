//! What `Layout::touched` says, against what the system gave: anonymous memory of transcriptions, page by page.
//!
//! A program with one test: others would allocate along.
#![cfg(target_os = "linux")]

use rustix::param::page_size;
use voxtral_core::kernels::{CacheType, Storage};
use voxtral_core::layout::{Layout, Options};
use voxtral_core::session::{Schedule, Session};
use voxtral_tests::engine::{Engine, Plan};
use voxtral_tests::generator::Spec;
use voxtral_tests::guard::Guarded;
use voxtral_tests::{goldens, proc, quantised};

/// How far the growth of the whole process, whose stack and heap work along, may be off.
const OFF: f64 = 0.1;

/// A model with weights in blocks.
fn in_blocks(spec: &Spec) -> Engine {
    let plain = Engine::of(spec);
    let weights = quantised::Model::new(&plain.weights, &plain.params, Storage::Q8).file();
    Engine::new(weights, &spec.params_json(), spec.tekken_json())
}

/// Of the whole process.
fn anonymous() -> f64 {
    proc::bytes("/proc/self/smaps_rollup", "Anonymous").unwrap() as f64
}

/// Transcribes in fresh memory of the system's, and compares.
fn check(engine: &Engine, options: &Options, samples: &[f32]) {
    let layout = Layout::new(&engine.params, options).unwrap();
    let positions = Schedule::new(options).positions(samples.len() as u64);
    let told = layout.touched(positions, engine.model().has_blocks(), page_size());
    let what = format!("{} samples, {told:?}, {options:?}", samples.len());

    let before = anonymous();
    let [mut state, mut scratch] =
        [layout.state_len(), layout.scratch_len()].map(|values| Guarded::beginning(values * size_of::<f32>(), 0));
    let (state, scratch) = (state.floats(), scratch.floats());
    let [state_at, scratch_at] = [&*state, &*scratch].map(|region| region.as_ptr().addr());
    let mut session = Session::new(&layout);
    Plan::default()
        .run_in(engine, &layout, &mut session, state, scratch, samples)
        .unwrap();
    let grown = anonymous() - before;

    assert_eq!(session.positions_decoded(), positions, "{what}");
    assert_eq!(proc::anonymous_at(state_at), Some(told.state), "state: {what}");
    assert_eq!(proc::anonymous_at(scratch_at), Some(told.scratch), "scratch: {what}");
    let ratio = grown / told.total() as f64;
    assert!((ratio - 1.0).abs() <= OFF, "grown by {grown}: {what}");
}

#[test]
fn a_clip_takes_the_memory_that_the_layout_tells() {
    // Of these, how many are begun would be chance. Refused where they are not known.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let clips = goldens::clips();
    let long: Vec<f32> = clips.iter().flat_map(|clip| clip.samples.clone()).collect();
    let silence = [0.0; 16_000];
    let clips = [&[][..], &silence, &clips[0].samples, &long[..480_000]];

    // Rings that wrap within a clip, and such as no clip fills.
    let (nano, large) = (Engine::nano(), Spec::variant('C'));
    let models = [nano, Engine::of(&large), in_blocks(&large)];
    assert_eq!(
        models.each_ref().map(|engine| engine.model().has_blocks()),
        [false, false, true]
    );
    for engine in &models {
        let options = Options {
            stop_at_end_of_text: false,
            ..engine.options(6)
        };
        // Once for what stack and heap need.
        engine.run(&options, &silence);
        for cache in [CacheType::F32, CacheType::Bf16, CacheType::Q8] {
            for samples in clips {
                let logits = false;
                check(
                    engine,
                    &Options {
                        cache,
                        logits,
                        ..options
                    },
                    samples,
                );
            }
        }
        // Passes of other widths: the decoder's reaches furthest, or the encoder's, or neither is full.
        for (chunk, batch) in [(1, 1), (3, 8), (200, 3)] {
            check(
                engine,
                &Options {
                    chunk,
                    batch,
                    ..options
                },
                &silence,
            );
        }
    }
}
