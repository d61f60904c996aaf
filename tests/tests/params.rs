//! `params.json`: right values from every known file, and an error that names the key for every wrong one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};
use voxtral_core::format::fields::{Expected, FieldError, Found};
use voxtral_core::format::params::{DecoderParams, EncoderParams, Error, MAX_SIZE, Params};
use voxtral_tests::random::cases;

const ENCODER: &str = "multimodal.whisper_model_args.encoder_args";
const AUDIO: &str = "multimodal.whisper_model_args.encoder_args.audio_encoding_args";

/// Keys of the published file that change nothing here, whatever they say.
const IGNORED: [&str; 5] = [
    "model_parallel",
    "model_max_length",
    "multimodal.whisper_model_args.encoder_args.vocab_size",
    "multimodal.whisper_model_args.encoder_args.use_cache",
    "multimodal.whisper_model_args.encoder_args.max_source_positions",
];
/// Keys that may be absent or null.
const OPTIONAL: [&str; 3] = [
    "tied_embeddings",
    "multimodal.whisper_model_args.encoder_args.audio_encoding_args.chunk_length_s",
    "multimodal.whisper_model_args.encoder_args.audio_encoding_args.transcription_format",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> Vec<u8> {
    let path = root().join(path);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn real() -> Value {
    serde_json::from_slice(&read("tests/goldens/real/params.json")).unwrap()
}

fn parse(value: &Value) -> Result<Params, Error> {
    Params::parse(value.to_string().as_bytes())
}

fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

/// Every dotted path of the document, objects included.
fn paths(value: &Value, at: &str, out: &mut Vec<String>) {
    if let Value::Object(map) = value {
        for (key, value) in map {
            let path = if at.is_empty() {
                key.clone()
            } else {
                format!("{at}.{key}")
            };
            out.push(path.clone());
            paths(value, &path, out);
        }
    }
}

fn all_paths() -> Vec<String> {
    let mut out = Vec::new();
    paths(&real(), "", &mut out);
    assert_eq!(out.len(), 48);
    out
}

fn with(path: &str, value: Value) -> Value {
    let mut document = real();
    let old = document.pointer_mut(&pointer(path)).expect(path);
    assert_ne!(*old, value, "{path}: the edit changes nothing");
    *old = value;
    document
}

fn without(path: &str) -> Value {
    let mut document = real();
    let (object, key) = path.rsplit_once('.').unwrap_or(("", path));
    let object = if object.is_empty() {
        &mut document
    } else {
        document.pointer_mut(&pointer(object)).unwrap()
    };
    object.as_object_mut().unwrap().remove(key).expect(path);
    document
}

/// The key that an error names.
fn key(error: Error) -> &'static str {
    match error {
        Error::Field(
            FieldError::Missing { key } | FieldError::Duplicate { key, .. } | FieldError::Value { key, .. },
        ) => {
            assert!(error.to_string().contains(key), "{error}");
            key
        }
        _ => panic!("the error names no key: {error}"),
    }
}

/// The members of an object.
type Members = Vec<(String, Value)>;

/// Writes the document with the members of each object in the order that `order` gives them.
fn write(value: &Value, at: &str, order: &mut dyn FnMut(&str, &mut Members)) -> String {
    let Value::Object(map) = value else {
        return value.to_string();
    };
    let mut members: Vec<_> = map.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    order(at, &mut members);
    let members: Vec<_> = members
        .iter()
        .map(|(key, value)| {
            let path = if at.is_empty() {
                key.clone()
            } else {
                format!("{at}.{key}")
            };
            format!("{}:{}", Value::from(key.as_str()), write(value, &path, order))
        })
        .collect();
    format!("{{{}}}", members.join(" ,\n"))
}

#[test]
fn the_published_file() {
    let params = Params::parse(&read("tests/goldens/real/params.json")).unwrap();
    let expected = Params {
        encoder: EncoderParams {
            dim: 1280,
            n_layers: 32,
            n_heads: 32,
            n_kv_heads: 32,
            head_dim: 64,
            hidden_dim: 5120,
            sliding_window: 750,
            rope_theta: 1e6,
            norm_eps: 1e-5,
            use_biases: true,
        },
        decoder: DecoderParams {
            dim: 3072,
            n_layers: 26,
            n_heads: 32,
            n_kv_heads: 8,
            head_dim: 128,
            hidden_dim: 9216,
            sliding_window: 8192,
            rope_theta: 1e6,
            norm_eps: 1e-5,
            vocab_size: 131_072,
            ada_dim: 32,
        },
        downsample_factor: 4,
        global_log_mel_max: 1.5,
    };
    assert_eq!(params, expected);
}

/// Every file at hand, against a plain reading of it by serde_json.
#[test]
fn every_known_file() {
    let variants = ["A", "B", "C", "D", "E"].map(|v| format!("tests/goldens/variant_{v}/model/params.json"));
    for path in variants
        .iter()
        .map(String::as_str)
        .chain(["tests/goldens/real/params.json", "host/nano/params.json"])
    {
        let bytes = read(path);
        let params = Params::parse(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"));
        let d: Value = serde_json::from_slice(&bytes).unwrap();
        let e = d.pointer(&pointer(ENCODER)).unwrap();
        let size = |v: &Value, key: &str| usize::try_from(v[key].as_u64().unwrap()).unwrap();
        let expected = Params {
            encoder: EncoderParams {
                dim: size(e, "dim"),
                n_layers: size(e, "n_layers"),
                n_heads: size(e, "n_heads"),
                n_kv_heads: size(e, "n_kv_heads"),
                head_dim: size(e, "head_dim"),
                hidden_dim: size(e, "hidden_dim"),
                sliding_window: size(e, "sliding_window"),
                rope_theta: e["rope_theta"].as_f64().unwrap(),
                norm_eps: e["norm_eps"].as_f64().unwrap() as f32,
                use_biases: e["use_biases"].as_bool().unwrap(),
            },
            decoder: DecoderParams {
                dim: size(&d, "dim"),
                n_layers: size(&d, "n_layers"),
                n_heads: size(&d, "n_heads"),
                n_kv_heads: size(&d, "n_kv_heads"),
                head_dim: size(&d, "head_dim"),
                hidden_dim: size(&d, "hidden_dim"),
                sliding_window: size(&d, "sliding_window"),
                rope_theta: d["rope_theta"].as_f64().unwrap(),
                norm_eps: d["norm_eps"].as_f64().unwrap() as f32,
                vocab_size: size(&d, "vocab_size"),
                ada_dim: size(&d, "ada_rms_norm_t_cond_dim"),
            },
            downsample_factor: 4,
            global_log_mel_max: 1.5,
        };
        assert_eq!(params, expected, "{path}");
    }
}

#[test]
fn a_missing_key_is_named() {
    let plain = parse(&real()).unwrap();
    for path in all_paths() {
        let result = parse(&without(&path));
        if IGNORED.contains(&path.as_str()) || OPTIONAL.contains(&path.as_str()) {
            assert_eq!(result, Ok(plain), "{path}");
        } else {
            let error = result.expect_err(&path);
            assert!(
                matches!(error, Error::Field(FieldError::Missing { .. })),
                "{path}: {error}"
            );
            assert_eq!(key(error), path);
        }
    }
    // Of an object that is missing, the object is named and not what would be in it.
    assert_eq!(
        parse(&without(AUDIO)).unwrap_err().to_string(),
        format!("{AUDIO} is missing")
    );
}

/// Null, text, a container, nothing, too much, less than nothing: refused for every key that is used.
#[test]
fn a_wrong_value_is_named() {
    let plain = parse(&real()).unwrap();
    let wrong = [
        json!(null),
        json!("gelu"),
        json!([4]),
        json!({"dim": 4}),
        json!(0),
        json!(-1),
        json!(-8),
        json!(0.3),
        json!(1u64 << 53),
        json!(u64::MAX),
        json!(1e300),
    ];
    // What these keys may also be: the mel maximum is any moderate number, theta's and eps's range is tested below.
    let may_be = |path: &str, value: &Value| {
        let optional = OPTIONAL.contains(&path) && value.is_null();
        let mel_max = path.ends_with("global_log_mel_max") && value.as_f64().is_some_and(|x| x.abs() < 100.0);
        let eps = path.ends_with("norm_eps") && value == &json!(0.3);
        optional || mel_max || eps
    };
    let mut refused = BTreeSet::new();
    for path in all_paths() {
        for value in &wrong {
            if real().pointer(&pointer(&path)) == Some(value) {
                continue;
            }
            let result = parse(&with(&path, value.clone()));
            if IGNORED.contains(&path.as_str()) {
                assert_eq!(result, Ok(plain), "{path}: {value}");
            } else if may_be(&path, value) {
                assert!(result.is_ok(), "{path}: {value}");
            } else if value.is_object()
                && path.contains("multimodal")
                && real().pointer(&pointer(&path)).unwrap().is_object()
            {
                // The right kind, but what it should hold is missing.
                assert!(key(result.unwrap_err()).starts_with(&path), "{path}: {value}");
            } else {
                let error = result.expect_err(&path);
                assert!(
                    matches!(error, Error::Field(FieldError::Value { .. })),
                    "{path}: {value}: {error}"
                );
                assert_eq!(key(error), path, "{value}");
                refused.insert(path.clone());
            }
        }
    }
    assert_eq!(refused.len(), 48 - IGNORED.len());
}

#[test]
fn expected_and_found_are_told() {
    let line = |path: &str, value: Value| {
        let error = parse(&with(path, value)).unwrap_err().to_string();
        error.rsplit_once(" (at byte ").expect("a place").0.to_owned()
    };
    let of = |path: &str, rest: &str| format!("{path} {rest}");
    assert_eq!(
        line("dim", json!(null)),
        "dim must be an integer from 1 to 16777216, but is null"
    );
    assert_eq!(
        line("n_layers", json!(0)),
        "n_layers must be an integer from 1 to 1024, but is 0"
    );
    assert_eq!(
        line("head_dim", json!(127)),
        "head_dim must be a multiple of two (2), but is 127"
    );
    assert_eq!(
        line("dim", json!(3071)),
        "dim must be a multiple of two (2), but is 3071"
    );
    assert_eq!(
        line("n_heads", json!(33)),
        "n_heads must be a multiple of n_kv_heads (8), but is 33"
    );
    assert_eq!(line("causal", json!(false)), "causal must be true, but is false");
    assert_eq!(line("use_biases", json!(true)), "use_biases must be false, but is true");
    assert_eq!(
        line("tied_embeddings", json!(false)),
        "tied_embeddings must be true, but is false"
    );
    assert_eq!(
        line("norm_eps", json!(0)),
        "norm_eps must be a number from 1.1754943508222875e-38 to 1.0, but is 0"
    );
    assert_eq!(
        line("rope_theta", json!(-1.0)),
        "rope_theta must be a number from 1.0 to 1000000000000.0, but is -1.0"
    );
    let path = format!("{ENCODER}.ffn_type");
    assert_eq!(
        line(&path, json!("gelu")),
        of(&path, r#"must be "swiglu", but is "gelu""#)
    );
    assert_eq!(
        line(&path, json!("swi\nglu")),
        of(&path, r#"must be "swiglu", but is "swi\nglu""#)
    );
    let path = format!("{ENCODER}.pos_embed");
    let long = "é".repeat(40);
    assert_eq!(
        line(&path, json!(long)),
        of(&path, &format!("must be \"rope\", but is \"{}…\"", "é".repeat(16)))
    );
    let path = format!("{AUDIO}.frame_rate");
    assert_eq!(line(&path, json!(25)), of(&path, "must be 12.5, but is 25"));
    let path = format!("{AUDIO}.chunk_length_s");
    assert_eq!(line(&path, json!(30.0)), of(&path, "must be null, but is 30.0"));
    assert_eq!(
        line("multimodal", json!([])),
        "multimodal must be an object, but is an array"
    );
    assert_eq!(
        Params::parse(b" [1]").unwrap_err().to_string(),
        "the document must be an object, but is an array (at byte 1)"
    );
}

#[test]
fn the_place_is_that_of_the_value() {
    let text = String::from_utf8(read("tests/goldens/real/params.json")).unwrap();
    let text = text.replacen("\"hidden_dim\": 9216", "\"hidden_dim\": \"9216\"", 1);
    match Params::parse(text.as_bytes()) {
        Err(Error::Field(FieldError::Value {
            key: "hidden_dim",
            offset,
            expected,
            found: Found::String(found),
        })) => {
            assert_eq!(text[offset..].get(..6), Some("\"9216\""));
            assert_eq!(expected, Expected::Integer { min: 1, max: MAX_SIZE });
            assert_eq!(found.as_str(), "9216");
        }
        other => panic!("{other:?}"),
    }
}

/// Each size is possible by itself; what they make together is not. A machine of 32 bits can address less, and refuses
/// other products first.
#[cfg(target_pointer_width = "64")]
#[test]
fn products_are_bounded() {
    let max = MAX_SIZE;
    let encoder = |name: &str| format!("{ENCODER}.{name}");
    let cases = [
        (vec![("head_dim".to_owned(), max)], "n_heads * head_dim"),
        (vec![(encoder("head_dim"), max)], "encoder n_heads * head_dim"),
        (vec![(encoder("dim"), max)], "encoder dim * downsample_factor"),
        (vec![(encoder("dim"), max / 4)], "encoder dim * dim * 3"),
        (
            vec![(encoder("dim"), 1 << 18), (encoder("hidden_dim"), max)],
            "encoder dim * hidden_dim",
        ),
        (
            vec![(encoder("dim"), 1 << 18), ("dim".to_owned(), max)],
            "encoder dim * downsample_factor * dim",
        ),
        (vec![("dim".to_owned(), 1 << 21)], "dim * dim"),
        (
            vec![("dim".to_owned(), 1 << 20), ("head_dim".to_owned(), 1 << 18)],
            "dim * n_heads * head_dim",
        ),
        (
            vec![("dim".to_owned(), 1 << 19), ("hidden_dim".to_owned(), max)],
            "dim * hidden_dim",
        ),
        (
            vec![("dim".to_owned(), 1 << 19), ("ada_rms_norm_t_cond_dim".to_owned(), max)],
            "dim * ada_rms_norm_t_cond_dim",
        ),
        (
            vec![("dim".to_owned(), 1 << 19), ("vocab_size".to_owned(), max)],
            "vocab_size * dim",
        ),
        (
            vec![(encoder("dim"), 1 << 18), (encoder("head_dim"), 1 << 19)],
            "encoder dim * n_heads * head_dim",
        ),
    ];
    for (edits, name) in cases {
        let mut document = real();
        for (path, value) in &edits {
            *document.pointer_mut(&pointer(path)).unwrap() = json!(value);
        }
        match parse(&document) {
            Err(error @ Error::TooLarge { what, max, found }) => {
                assert_eq!(what, name, "{edits:?}");
                assert!(found > max);
                assert_eq!(
                    error.to_string(),
                    format!("{name} is {found}, but at most {max} is possible")
                );
            }
            other => panic!("{edits:?}: {other:?}"),
        }
    }
}

#[test]
fn the_limits_themselves_are_accepted() {
    for (path, value) in [
        ("dim", json!(2)),
        ("n_layers", json!(1)),
        ("n_layers", json!(1024)),
        ("head_dim", json!(2)),
        ("n_kv_heads", json!(1)),
        ("n_kv_heads", json!(32)),
        ("vocab_size", json!(1)),
        ("sliding_window", json!(1)),
        ("sliding_window", json!(MAX_SIZE)),
        ("rope_theta", json!(10_000)),
        ("rope_theta", json!(1.0)),
        ("norm_eps", json!(1e-30)),
    ] {
        assert!(parse(&with(path, value.clone())).is_ok(), "{path}: {value}");
    }
    let most = parse(&with("vocab_size", json!(MAX_SIZE)));
    if cfg!(target_pointer_width = "64") {
        assert!(most.is_ok(), "{most:?}");
    } else {
        let what = "vocab_size * dim";
        assert!(
            matches!(most, Err(Error::TooLarge { what: found, .. }) if found == what),
            "{most:?}"
        );
    }
    assert!(
        parse(&with("norm_eps", json!(1e-46))).is_err(),
        "an eps that is zero in f32"
    );
    // A head width that is no power of two.
    assert_eq!(parse(&with("head_dim", json!(24))).unwrap().decoder.head_dim, 24);
}

#[test]
fn a_key_twice_is_refused() {
    for path in all_paths() {
        let (object, name) = path.rsplit_once('.').unwrap_or(("", &path));
        let text = write(&real(), "", &mut |at, members| {
            if at == object {
                let again = members.iter().find(|(key, _)| key == name).unwrap().clone();
                members.push(again);
            }
        });
        let result = Params::parse(text.as_bytes());
        if IGNORED.contains(&path.as_str()) {
            assert!(result.is_ok(), "{path}");
        } else {
            let error = result.expect_err(&path);
            assert!(
                matches!(error, Error::Field(FieldError::Duplicate { .. })),
                "{path}: {error}"
            );
            assert_eq!(key(error), path);
        }
    }
    // Also when one of the two is written with an escape.
    let text = real().to_string().replacen('{', r#"{"d\u0069m": 3072,"#, 1);
    assert!(matches!(
        Params::parse(text.as_bytes()),
        Err(Error::Field(FieldError::Duplicate { key: "dim", .. }))
    ));
}

#[test]
fn unknown_keys_are_skipped() {
    let text = write(&real(), "", &mut |at, members| {
        // Not in what is inserted here.
        if !at.is_empty() && real().pointer(&pointer(at)).is_none() {
            return;
        }
        let odd =
            json!({"dim": 1, "multimodal": {"whisper_model_args": null}, "list": [[{"n_layers": 0}], null, -1e-9]});
        members.insert(0, ("future".to_owned(), odd.clone()));
        members.push((" ".to_owned(), odd));
        members.push(("multimodal.whisper_model_args".to_owned(), json!(3)));
    });
    assert_eq!(Params::parse(text.as_bytes()), parse(&real()));
}

#[test]
fn every_prefix_of_the_file_is_refused() {
    let bytes = read("tests/goldens/real/params.json");
    let end = bytes.iter().rposition(|&byte| byte == b'}').unwrap();
    for len in 0..=end {
        assert!(
            matches!(Params::parse(&bytes[..len]), Err(Error::Field(FieldError::Json(_)))),
            "{len}"
        );
    }
    let mut twice = bytes.clone();
    twice.extend_from_slice(&bytes);
    assert!(matches!(Params::parse(&twice), Err(Error::Field(FieldError::Json(_)))));
}

fn values() -> impl Strategy<Value = Value> {
    let others = [
        json!(null),
        json!(true),
        json!(false),
        json!("rope"),
        json!([]),
        json!({}),
    ];
    prop_oneof![
        4 => (0..70u64).prop_map(Value::from),
        4 => (0..66u32, -1..2i64).prop_map(|(bit, more)| json!(2f64.powi(bit as i32) + more as f64)),
        4 => (0..64u32, -1..2i64).prop_map(|(bit, more)| json!((1u64 << bit).wrapping_add_signed(more))),
        2 => any::<f64>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => prop::sample::select(others.to_vec()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(128), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_keys_reads_alike(seed in any::<u64>()) {
        let mut state = seed;
        let text = write(&real(), "", &mut |_, members| {
            for i in (1..members.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                members.swap(i, (state >> 33) as usize % (i + 1));
            }
        });
        prop_assert_eq!(Params::parse(text.as_bytes()), parse(&real()));
    }

    /// Any values in any places of the real file: what is accepted is within bounds, and read as others read it.
    #[test]
    fn any_values(edits in proptest::collection::vec((any::<prop::sample::Index>(), values()), 1..5)) {
        let (mut file, paths) = (real(), all_paths());
        for (index, value) in edits {
            // Unless an earlier edit has taken its object away.
            if let Some(place) = file.pointer_mut(&pointer(&paths[index.index(paths.len())])) {
                *place = value;
            }
        }
        voxtral_tests::fuzzing::params(file.to_string().as_bytes());
    }

    #[test]
    fn any_bytes_end_in_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Params::parse(&bytes).is_err());
    }

    /// The real file with some bytes exchanged for bytes that mean something to JSON.
    #[test]
    fn damaged_bytes_end_in_an_answer(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), prop::sample::select(&b"{}[]\":,\\0-9.eEn\x00\xff "[..])), 1..6),
    ) {
        let mut bytes = read("tests/goldens/real/params.json");
        for (index, byte) in edits {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(params) = Params::parse(&bytes) {
            prop_assert!(params.encoder.n_heads * params.encoder.head_dim <= MAX_SIZE as usize);
            prop_assert!(params.decoder.n_heads * params.decoder.head_dim <= MAX_SIZE as usize);
        }
    }
}
