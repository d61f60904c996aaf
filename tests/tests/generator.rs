//! The model generator makes the very files from which the goldens come, and files of the published sizes.

use sha2::{Digest, Sha256};
use std::fs;
use voxtral_tests::generator::safetensors::{self, Dtype};
use voxtral_tests::generator::{PUBLISHED_TEKKEN_BYTES, Spec, Style, Weights, tekken, weights};
use voxtral_tests::goldens::{self, Case};
use voxtral_tests::random::{fnv1a, splitmix, uniform};

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn keys_and_bits_have_their_published_check_values() {
    assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(fnv1a(b"norm.weight"), 0xe45e_8831_76c5_ce0f);
    let first: Vec<u64> = (0..3).map(|i| splitmix(0, i)).collect();
    assert_eq!(
        first,
        [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]
    );
    assert_eq!(uniform(0, 0), f64::from(0xe220a8) / f64::from(1 << 23) - 1.0);
}

#[test]
fn variant_a_begins_with_the_known_bits() {
    let tensors = safetensors::read(&Spec::variant('A').safetensors(Dtype::Bf16));
    let bits = |name: &str| -> Vec<u16> {
        tensors[name]
            .bytes
            .chunks_exact(2)
            .take(6)
            .map(|b| u16::from_le_bytes([b[0], b[1]]))
            .collect()
    };
    assert_eq!(bits("norm.weight"), [0x3f5f, 0x3f93, 0x3f48, 0x3f89, 0x3f5d, 0x3f70]);
    assert_eq!(
        bits("layers.0.attention.wq.weight"),
        [0xbd38, 0xbe96, 0x3e92, 0xbec6, 0x3c1c, 0x3bab]
    );
}

#[test]
fn files_of_every_variant_are_those_of_the_goldens() {
    let report = goldens::json(goldens::dir().join("report.json"));
    for letter in ['A', 'B', 'C', 'D', 'E'] {
        let spec = Spec::variant(letter);
        let files = [
            ("params.json", spec.params_json()),
            ("tekken.json", spec.tekken_json()),
            ("consolidated.safetensors", spec.safetensors(Dtype::Bf16)),
        ];
        for (file, bytes) in files {
            let expected = &report["model_files"][letter.to_string()][file];
            assert_eq!(bytes.len() as u64, expected["bytes"], "variant {letter}: {file}");
            assert_eq!(sha256(&bytes), expected["sha256"], "variant {letter}: {file}");
        }
    }
}

#[test]
fn a_model_has_the_same_bytes_for_any_number_of_threads() {
    // Tensors longer than one piece, so that threads really share one.
    let mut spec = Spec::variant('B');
    spec.vocab_size = 21_000;
    for dtype in Dtype::ALL {
        let bytes = spec.safetensors(dtype);
        for threads in [1, 3] {
            assert!(
                spec.safetensors_by(threads, dtype) == bytes,
                "{dtype:?} by {threads} threads in memory"
            );
            let dir = tempfile::tempdir().unwrap();
            spec.write(dir.path(), dtype, Weights::Full(threads)).unwrap();
            let written = fs::read(dir.path().join("consolidated.safetensors")).unwrap();
            assert!(written == bytes, "{dtype:?} by {threads} threads");
            assert_eq!(fs::read(dir.path().join("params.json")).unwrap(), spec.params_json());
            assert_eq!(fs::read(dir.path().join("tekken.json")).unwrap(), spec.tekken_json());
        }
    }
}

#[test]
fn a_part_of_a_tensor_can_be_made_alone() {
    let spec = Spec::variant('A');
    for info in spec.tensor_infos() {
        let mut whole = vec![0; info.elements() * 2];
        weights::fill(&spec, &info, 0, Dtype::Bf16, &mut whole);
        for first in [1, info.elements() / 3, info.elements() - 1] {
            let mut part = vec![0; (info.elements() - first).min(1000) * 2];
            weights::fill(&spec, &info, first, Dtype::Bf16, &mut part);
            assert_eq!(
                part,
                whole[first * 2..first * 2 + part.len()],
                "{} from {first}",
                info.name
            );
        }
    }
}

#[test]
fn other_types_hold_the_same_weights() {
    let spec = Spec::random(1);
    let [bf16, f16, f32] = Dtype::ALL.map(|dtype| spec.tensors(dtype));
    for ((a, b), c) in bf16.iter().zip(&f16).zip(&f32) {
        assert_eq!(a.values(), c.values(), "{}", a.name);
        for (a, b) in a.values().iter().zip(b.values()) {
            // Halves are exact for bf16 values down to 2^-17, and have steps of 2^-24 below.
            assert!((a - b).abs() <= 2f64.powi(-25), "{a} and {b}");
        }
    }
}

#[test]
fn the_writer_and_the_reader_of_test_files_agree() {
    let tensors = Spec::random(2).tensors(Dtype::F32);
    let read = safetensors::read(&safetensors::file(&tensors));
    assert_eq!(read.len(), tensors.len());
    assert!(tensors.iter().all(|tensor| read[&tensor.name] == *tensor));
}

#[test]
fn pieces_spell_the_texts_of_the_goldens() {
    for case in Case::all() {
        let spec = case.spec();
        let pieces = tekken::pieces(spec.vocab_size - tekken::CONTROL_IDS, Style::Golden);
        assert_eq!(
            tekken::text(&pieces, &case.tokens),
            case.text_bytes,
            "{}/{}",
            case.variant,
            case.case
        );
    }
}

#[test]
fn the_real_layout_has_the_published_names_shapes_and_sizes() {
    let spec = Spec::real();
    assert_eq!(
        spec.params_json(),
        fs::read(goldens::dir().join("real/params.json")).unwrap()
    );

    let published = goldens::json(goldens::dir().join("real/full_tensors.json"));
    let infos = spec.tensor_infos();
    let published = published["tensors"].as_array().unwrap();
    assert_eq!((infos.len(), published.len()), (711, 711));
    for (info, published) in infos.iter().zip(published) {
        assert_eq!(info.name, published["name"]);
        assert_eq!(serde_json::json!(info.shape), published["shape"], "{}", info.name);
    }
}

#[test]
fn the_sparse_real_directory_has_the_published_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec::real();
    spec.write(dir.path(), Dtype::Bf16, Weights::Sparse).unwrap();
    let path = dir.path().join("consolidated.safetensors");
    assert_eq!(fs::metadata(&path).unwrap().len(), 8_859_462_744);
    let mut start = vec![0; 8 + 104_016];
    std::io::Read::read_exact(&mut fs::File::open(&path).unwrap(), &mut start).unwrap();
    assert_eq!(start, spec.header(Dtype::Bf16).0);
    let header: serde_json::Value = serde_json::from_slice(&start[8..]).unwrap();
    assert_eq!(header.as_object().unwrap().len(), 711);
    assert_eq!(header["norm.weight"]["data_offsets"][1], 8_859_358_720_u64);

    let tekken = fs::read(dir.path().join("tekken.json")).unwrap();
    assert_eq!(tekken.len(), PUBLISHED_TEKKEN_BYTES);
    let parsed: serde_json::Value = serde_json::from_slice(&tekken).unwrap();
    assert_eq!(parsed["vocab"].as_array().unwrap().len(), 150_000);
    assert_eq!(parsed["special_tokens"].as_array().unwrap().len(), 1000);
    // The size comes from entries, not from the white space that makes it exact.
    let spaces = tekken.iter().rev().skip(1).take_while(|b| **b == b' ').count();
    assert!(spaces < 150_000, "{spaces} spaces");
}

#[test]
fn random_models_cover_what_the_engine_must_bear() {
    let specs: Vec<Spec> = (0..200).map(Spec::random).collect();
    assert_eq!(specs, (0..200).map(Spec::random).collect::<Vec<_>>());
    let some = |what: &str, holds: &dyn Fn(&Spec) -> bool| assert!(specs.iter().any(holds), "no model with {what}");
    for ratio in 1..=8 {
        some("this ratio of heads", &|s| {
            s.decoder.n_heads == ratio * s.decoder.n_kv_heads
        });
    }
    some("one layer each", &|s| {
        s.encoder.n_layers == 1 && s.decoder.n_layers == 1
    });
    some("a head size that is no power of two", &|s| {
        !s.decoder.head_dim.is_power_of_two()
    });
    some("an odd width", &|s| s.encoder.dim % 2 == 1);
    some("a decoder window below the prompt", &|s| s.decoder.sliding_window < 34);
    some("a window of one", &|s| {
        s.encoder.sliding_window == 1 || s.decoder.sliding_window == 1
    });
    some("a delay of one token", &|s| s.delay_tokens() == 1);
    some("no encoder biases", &|s| !s.encoder_biases);
    for spec in &specs {
        assert!(spec.decoder.dim % 2 == 0 && spec.encoder.head_dim % 2 == 0 && spec.decoder.head_dim % 2 == 0);
        let params: serde_json::Value = serde_json::from_slice(&spec.params_json()).unwrap();
        assert_eq!(params["dim"], spec.decoder.dim);
        let biased = spec.tensor_infos().iter().any(|t| t.name.ends_with("wq.bias"));
        assert_eq!(biased, spec.encoder_biases);
    }
}
