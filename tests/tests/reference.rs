//! The f64 reference against the stored goldens, which another implementation computed in f64: what remains is the
//! rounding of the stored arrays to f32.

use sha2::{Digest, Sha256};
use std::fs;
use voxtral_tests::generator::Spec;
use voxtral_tests::goldens::{self, Case};
use voxtral_tests::npy;
use voxtral_tests::random;
use voxtral_tests::reference::{self, Reference, Rows};

/// Half a step of f32 at the largest values of any stored array (below 64), with room for the order of f64 sums.
const ROUNDING: f64 = 4e-6;

fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[track_caller]
fn assert_close(what: &str, a: &[f64], b: &[f64], tolerance: f64) {
    let difference = largest_difference(a, b);
    assert!(difference <= tolerance, "{what}: differs by {difference:e}");
}

fn sums(rows: &Rows) -> [f64; 2] {
    [rows.data.iter().sum(), rows.data.iter().map(|x| x.abs()).sum()]
}

/// Runs a stored case and compares everything that is stored of it.
fn check(model: &Reference, case: &Case) {
    let name = format!("{}/{}", case.variant, case.case);
    let samples = case.samples();
    let padded = reference::padded(&samples, case.delay_tokens);
    assert_eq!(padded.len(), case.padded_samples, "{name}");
    let bytes: Vec<u8> = padded.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
    let digest: Vec<u8> = Sha256::digest(&bytes).to_vec();
    assert_eq!(digest, goldens::hex(&case.padded_sha256), "{name}");
    assert_eq!(reference::prompt(case.delay_tokens), case.prompt_ids, "{name}");

    let run = model.run(&samples, case.delay_tokens);
    assert_eq!(run.mel.len(), case.mel_frames, "{name}");
    assert_eq!(run.adapter.len(), case.audio_tokens, "{name}");
    let mut stages = vec![
        ("conv_stem".to_string(), &run.conv_stem.data),
        ("enc_out".into(), &run.enc_out.data),
        ("adapter".into(), &run.adapter.data),
        ("t_cond".into(), &run.t_cond),
        ("ada".into(), &run.ada.data),
        ("logits".into(), &run.logits.data),
    ];
    stages.extend(
        run.enc_layers
            .iter()
            .enumerate()
            .map(|(i, rows)| (format!("enc_layer{i}"), &rows.data)),
    );
    for (stage, data) in stages {
        if let Some(array) = case.array(&stage) {
            // Of the logits the first steps are stored.
            let data = if stage == "logits" {
                &data[..array.data.len()]
            } else {
                data
            };
            assert_close(&format!("{name} {stage}"), data, &array.data, ROUNDING);
        }
    }
    assert_close(
        &format!("{name} adapter sums"),
        &sums(&run.adapter),
        &case.adapter_sums,
        1e-6,
    );
    assert_close(
        &format!("{name} encoder sums"),
        &sums(&run.enc_out),
        &case.enc_out_sums,
        1e-6,
    );

    assert_eq!(run.tokens, case.tokens, "{name}");
    assert_close(&format!("{name} margins"), &run.margins, &case.margin, 1e-7);
    let by_step = |f: fn(&[f64]) -> f64| run.logits.iter().map(f).collect::<Vec<f64>>();
    let largest = by_step(|step| step.iter().copied().fold(f64::MIN, f64::max));
    assert_close(&format!("{name} largest logits"), &largest, &case.max_logit, 1e-7);
    assert_close(
        &format!("{name} sums of logits"),
        &by_step(|step| step.iter().sum()),
        &case.logit_sum,
        1e-6,
    );
    let absolute = by_step(|step| step.iter().map(|x| x.abs()).sum());
    assert_close(
        &format!("{name} sums of absolute logits"),
        &absolute,
        &case.logit_abs_sum,
        1e-6,
    );
}

fn check_variant(letter: char) {
    let model = Reference::of(&Spec::variant(letter));
    let cases: Vec<Case> = Case::all().into_iter().filter(|case| case.variant == letter).collect();
    assert!(!cases.is_empty());
    cases.iter().for_each(|case| check(&model, case));
}

#[test]
fn variant_a_small_windows_and_the_long_run() {
    check_variant('A');
}

#[test]
fn variant_b_grouped_heads_and_the_shortest_audio() {
    check_variant('B');
}

#[test]
fn variant_c_delays() {
    check_variant('C');
}

#[test]
fn variant_d_published_head_sizes() {
    check_variant('D');
}

#[test]
fn variant_e_ends_by_itself() {
    check_variant('E');
    // And goes on when it is told to.
    let case = Case::read('E', "speech_b");
    let mut model = Reference::of(&case.spec());
    model.stops_at_end_of_text = false;
    let run = model.run(&case.samples(), case.delay_tokens);
    assert_eq!(run.tokens[..case.tokens.len()], case.tokens);
    assert_eq!(run.tokens.len(), case.audio_tokens - case.prompt_ids.len() + 1);
}

#[test]
fn ties_go_to_the_lowest_id() {
    assert_eq!(reference::arg_max(&[1.0, 3.0, 2.5, 3.0]), (1, 0.0));
    assert_eq!(reference::arg_max(&[0.0; 5]), (0, 0.0));
    assert_eq!(reference::arg_max(&[-2.0, -1.0, -4.0]), (1, 1.0));
}

#[test]
fn every_case_is_listed() {
    let mut found = 0;
    for letter in ['A', 'B', 'C', 'D', 'E'] {
        let entries = fs::read_dir(goldens::dir().join(format!("variant_{letter}"))).unwrap();
        found += entries
            .filter(|entry| entry.as_ref().unwrap().path().join("run.json").exists())
            .count();
    }
    assert_eq!(found, goldens::CASES.len());
}

#[test]
fn mel_filters_are_the_stored_ones() {
    let stored = npy::read(goldens::dir().join("mel/filters_201x128_f64.npy"));
    let filters = reference::mel_filters();
    assert_eq!([filters.len(), filters.width], stored.shape[..]);
    assert_close("filters", &filters.data, &stored.data, 1e-15);
}

#[test]
fn mel_frames_are_the_stored_ones() {
    let dir = goldens::dir().join("mel");
    let (mut raw, mut padded) = (0, 0);
    for entry in fs::read_dir(&dir).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let stem = file.trim_end_matches(".npy");
        let input = |name: &str| npy::read(dir.join(format!("in_{name}.npy"))).data;
        if let Some(name) = stem.strip_prefix("raw_") {
            let stored = npy::read(dir.join(&file));
            assert_close(&file, &reference::mel(&input(name), 1.5).data, &stored.data, 1e-6);
            raw += 1;
        } else if let Some((name, frames)) = stem.strip_prefix("padded_").and_then(|s| s.rsplit_once("_frames")) {
            let (first, end) = frames.split_once('_').unwrap();
            let (first, end): (usize, usize) = (first.parse().unwrap(), end.parse().unwrap());
            let samples: Vec<f32> = input(name).iter().map(|x| *x as f32).collect();
            let mel = reference::mel(&reference::padded(&samples, 6), 1.5);
            let stored = npy::read(dir.join(&file));
            assert_close(&file, &mel.data[first * 128..end * 128], &stored.data, 1e-6);
            let others = mel.data[..first * 128].iter().chain(&mel.data[end * 128..]);
            assert!(others.into_iter().all(|y| *y == -0.625), "{file}");
            padded += 1;
        }
    }
    assert_eq!((raw, padded), (6, 8));
    let speech = reference::mel(&reference::padded(&goldens::audio("speech_b"), 6), 1.5);
    assert_close(
        "speech_b",
        &speech.data,
        &npy::read(dir.join("padded_speech_b.npy")).data,
        1e-6,
    );
}

#[test]
fn the_small_model_says_what_pytorch_heard() {
    let file = |name: &str| fs::read(goldens::nano_dir().join(name)).unwrap();
    let model = Reference::from_files(&file("params.json"), &file("consolidated.safetensors"));
    let clips = goldens::clips();
    assert_eq!(clips.len(), 12);
    for clip in &clips {
        assert_eq!(clip.delays.len(), 2);
        for expected in &clip.delays {
            let run = model.run(&clip.samples, expected.delay_tokens);
            let name = format!("{} at delay {}", clip.file, expected.delay_tokens);
            assert_eq!(run.tokens, expected.tokens, "{name}");
            let smallest = run.margins.iter().copied().fold(f64::MAX, f64::min);
            // PyTorch ran in f32.
            assert_close(&name, &[smallest], &[expected.min_margin], 5e-3);
        }
    }
}

#[test]
fn random_models_do_not_say_the_same_all_the_time() {
    // A model stuck on one token would hide most mistakes from a comparison of tokens.
    let mut changes = 0;
    for seed in 0..20 {
        let spec = Spec::random(seed);
        let run = Reference::of(&spec).run(&random::audio(seed, 20_000), spec.delay_tokens());
        assert!(run.logits.data.iter().all(|x| x.is_finite()));
        changes += run.tokens.windows(2).filter(|pair| pair[0] != pair[1]).count();
    }
    assert!(changes > 40, "{changes} changes of token in 20 runs");
}
