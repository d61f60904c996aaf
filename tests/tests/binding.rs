//! Tensors to roles: what a model file may be, and how each wrong one is refused. Names S… are those of the case table.

use serde_json::Value;
use voxtral_core::format::params::Params;
use voxtral_core::format::safetensors::{self, Dtype, Entry};
use voxtral_core::kernels::Serial;
use voxtral_core::layout::{Layout, Memory};
use voxtral_core::model::{BindError, Binding, Model, Role, Slot};
use voxtral_core::session::{Session, SessionError, Step};
use voxtral_tests::engine::{Engine, Plan, Run};
use voxtral_tests::generator::safetensors::{self as file, Dtype as Stored, Tensor};
use voxtral_tests::generator::{Spec, Stack, Style};
use voxtral_tests::random;
use voxtral_tests::reference::Reference;

/// Every size is another one, so that hardly a transposed tensor has the right shape.
fn spec() -> Spec {
    let encoder = Stack {
        dim: 20,
        n_layers: 2,
        n_heads: 2,
        n_kv_heads: 2,
        head_dim: 6,
        hidden_dim: 28,
        sliding_window: 9,
    };
    let decoder = Stack {
        dim: 24,
        n_layers: 2,
        n_heads: 4,
        n_kv_heads: 2,
        head_dim: 10,
        hidden_dim: 36,
        sliding_window: 11,
    };
    Spec::golden(encoder, decoder, 8, 1300, 7)
}

/// A file, its parameters and what core bound of them.
struct Bound {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    binding: Binding,
}

fn bind(bytes: Vec<u8>, params: &Params) -> Result<Bound, BindError> {
    let mut entries = vec![Entry::default(); safetensors::count(&bytes).unwrap()];
    let header = safetensors::parse(&bytes, &mut entries).unwrap();
    let mut slots = vec![Slot::default(); Binding::slots(params)];
    let binding = Binding::new(&header, params, &mut slots)?;
    Ok(Bound { bytes, slots, binding })
}

fn params(spec: &Spec) -> Params {
    Params::parse(&spec.params_json()).unwrap()
}

/// The error that binding these tensors must end in.
#[track_caller]
fn refused(tensors: &[Tensor]) -> BindError {
    bind(file::file(tensors), &params(&spec())).err().expect("a refusal")
}

/// `tensor` of another shape, with as many zeros as that wants.
fn reshaped(tensor: &Tensor, shape: &[usize]) -> Tensor {
    Tensor {
        shape: shape.to_vec(),
        bytes: vec![0; shape.iter().product::<usize>() * 2],
        ..tensor.clone()
    }
}

/// A BF16 tensor as F32 of the same values.
fn widened(tensor: &Tensor) -> Tensor {
    assert_eq!(tensor.dtype, "BF16");
    let values = tensor.values();
    Tensor {
        dtype: "F32".into(),
        bytes: values.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect(),
        ..tensor.clone()
    }
}

fn engine(bytes: Vec<u8>) -> Engine {
    Engine::new(bytes, &spec().params_json(), spec().tekken_json())
}

/// A run long enough that rings wrap and several tokens are decided.
fn run(bytes: Vec<u8>) -> Run {
    run_of(&engine(bytes))
}

fn run_of(engine: &Engine) -> Run {
    engine.run(&engine.options(2), &samples())
}

fn samples() -> Vec<f32> {
    random::audio(3, 15_000)
}

/// The run, and f64's of the same tensors: tokens as long as they are no matter of rounding, and every logit until
/// then.
fn assert_agrees_with_reference(tensors: &[Tensor]) {
    let engine = engine(file::file(tensors));
    let plan = Plan {
        record: true,
        ..Plan::default()
    };
    let run = plan.run(&engine, &engine.options(2), &samples());
    let json: Value = serde_json::from_slice(&spec().params_json()).unwrap();
    let tensors = tensors.iter().map(|tensor| (tensor.name.clone(), tensor.clone()));
    let expected = Reference::new(&json, &tensors.collect()).run(&samples(), 2);
    let mut margins = expected.margins.iter();
    let sure = margins
        .position(|&margin| margin < 2e-3)
        .unwrap_or(expected.tokens.len());
    assert!(sure >= 5, "only {sure} tokens can be compared");
    assert_eq!(run.tokens[..sure], expected.tokens[..sure]);
    let logits = &run.stages["logits"][..sure * expected.logits.width];
    for (i, (&found, expected)) in logits.iter().zip(&expected.logits.data).enumerate() {
        assert!(
            (f64::from(found) - expected).abs() < 1e-3,
            "logit {i} is {found}, not {expected}"
        );
    }
}

/// S17: a tensor is missing, whichever it is.
#[test]
fn s17_every_missing_tensor_is_named() {
    let tensors = spec().tensors(Stored::Bf16);
    for missing in 0..tensors.len() {
        let mut rest = tensors.clone();
        let name = rest.remove(missing).name;
        let error = refused(&rest);
        let BindError::Missing { role } = error else {
            panic!("{name}: {error:?}")
        };
        assert_eq!(role.to_string(), name);
        assert_eq!(error.to_string(), format!("tensor {name} is missing"));
    }
    // An empty file is one where the first is missing.
    assert!(matches!(refused(&[]), BindError::Missing { .. }));
}

/// S17: every tensor, with its dimensions in another order, one of them off by one, or another number of them.
#[test]
fn s17_every_wrong_shape_is_told_with_the_right_one() {
    let tensors = spec().tensors(Stored::Bf16);
    let mut square = Vec::new();
    for wrong in 0..tensors.len() {
        let Tensor { name, shape, .. } = &tensors[wrong];
        let mut shapes: Vec<Vec<usize>> = Vec::new();
        let mut transposed = shape.clone();
        transposed.reverse();
        if transposed != *shape {
            shapes.push(transposed);
        } else if shape.len() > 1 {
            square.push(name.clone());
        }
        for dim in 0..shape.len() {
            for size in [shape[dim] - 1, shape[dim] + 1, 2 * shape[dim], 0] {
                let mut other = shape.clone();
                other[dim] = size;
                shapes.push(other);
            }
        }
        shapes.push(vec![]);
        shapes.push([&[1], &shape[..]].concat());
        shapes.push([&shape[..], &[1]].concat());
        shapes.push([&shape[..], &[1, 1, 1, 1]].concat());
        if shape.len() > 1 {
            shapes.push(vec![shape.iter().product()]);
        }
        for found in shapes {
            let mut changed = tensors.clone();
            changed[wrong] = reshaped(&tensors[wrong], &found);
            let error = refused(&changed);
            let BindError::WrongShape { role, .. } = error else {
                panic!("{name} {found:?}: {error:?}")
            };
            assert_eq!(role.to_string(), *name);
            let found = match found.len() {
                0..=4 => format!("{found:?}"),
                _ => format!("{:?}", &found[..4]).replace(']', ", …]"),
            };
            let expected = format!("tensor {name} has shape {found}, params.json makes it {shape:?}");
            assert_eq!(error.to_string(), expected);
        }
    }
    // Where nothing but the values could tell.
    assert_eq!(square.len(), 1, "{square:?}");
    assert!(square[0].ends_with("audio_language_projection.2.weight"));
}

/// S17: F32 that holds the values of BF16 gives the same bits.
#[test]
fn s17_f32_of_the_same_values_gives_the_same_bits() {
    let narrow = spec().tensors(Stored::Bf16);
    let wide: Vec<Tensor> = narrow.iter().map(widened).collect();
    assert_eq!(wide, spec().tensors(Stored::F32));
    let expected = run(file::file(&narrow));
    assert!(expected.tokens.len() >= 5);
    let found = run(file::file(&wide));
    assert_eq!(found.tokens, expected.tokens);
    assert_eq!(found.hash, expected.hash);
}

/// S17: F16 is computed with as what it is.
#[test]
fn s17_f16_agrees_with_the_reference() {
    let half = spec().tensors(Stored::F16);
    assert_agrees_with_reference(&half);
    // Its values are not those of BF16: some are rounded away.
    assert_ne!(run(file::file(&half)).hash, run(spec().safetensors(Stored::Bf16)).hash);
}

/// S17: every tensor may be stored in its own way.
#[test]
fn s17_each_tensor_may_have_its_own_dtype() {
    let narrow = spec().tensors(Stored::Bf16);
    let expected = run(file::file(&narrow));
    let mut draw = random::Stream::new(1);
    let mixed = |draw: &mut random::Stream, kinds: usize| -> Vec<Tensor> {
        let half = spec().tensors(Stored::F16);
        let tensors = narrow.iter().zip(half);
        let pick = |(tensor, half): (&Tensor, Tensor)| match draw.within(1..=kinds) {
            1 => tensor.clone(),
            2 => widened(tensor),
            _ => half,
        };
        tensors.map(pick).collect()
    };
    for _ in 0..8 {
        let found = run(file::file(&mixed(&mut draw, 2)));
        assert_eq!(found.hash, expected.hash);
    }
    for _ in 0..3 {
        assert_agrees_with_reference(&mixed(&mut draw, 3));
    }
}

/// The element types that the kernels do not know.
fn not_computable() -> impl Iterator<Item = Dtype> {
    let known = [Dtype::Bf16, Dtype::F16, Dtype::F32];
    Dtype::ALL.into_iter().filter(move |dtype| !known.contains(dtype))
}

/// `tensor` with elements of another type, all zero.
fn retyped(tensor: &Tensor, dtype: Dtype) -> Tensor {
    let bits = tensor.shape.iter().product::<usize>() * dtype.bits() as usize;
    assert_eq!(bits % 8, 0);
    Tensor {
        dtype: dtype.name().into(),
        bytes: vec![0; bits / 8],
        ..tensor.clone()
    }
}

/// S7: a known element type that cannot be computed with is an error where the model needs the tensor.
#[test]
fn s7_a_needed_tensor_of_another_dtype_is_named() {
    let tensors = spec().tensors(Stored::Bf16);
    assert_eq!(not_computable().count(), 19);
    for (i, dtype) in not_computable().enumerate() {
        // Every tensor as 8-bit integers, and a few of them in each of the other types.
        let some = (0..tensors.len()).filter(|&at| dtype == Dtype::I8 || at % 7 == i % 7);
        for at in some {
            let mut changed = tensors.clone();
            changed[at] = retyped(&tensors[at], dtype);
            let error = refused(&changed);
            let BindError::WrongDtype { role, found } = error else {
                panic!("{} {dtype}: {error:?}", tensors[at].name)
            };
            assert_eq!((role.to_string(), found), (tensors[at].name.clone(), dtype));
            let name = &tensors[at].name;
            let expected = format!("tensor {name} has dtype {dtype}, expected BF16, F16 or F32");
            assert_eq!(error.to_string(), expected);
        }
    }
}

/// S7: the same types are listed, range-checked and no error in tensors that the model does not need.
#[test]
fn s7_other_tensors_of_any_known_dtype_are_listed_and_ignored() {
    let tensors = spec().tensors(Stored::Bf16);
    let expected = run(file::file(&tensors));
    let extra = Tensor {
        name: "a.tensor.of.someone.else".into(),
        dtype: String::new(),
        shape: vec![4, 2],
        bytes: vec![],
    };
    let with_all: Vec<Tensor> = not_computable()
        .map(|dtype| Tensor {
            name: format!("{}.{dtype}", extra.name),
            ..retyped(&extra, dtype)
        })
        .chain(tensors.clone())
        .collect();
    let bytes = file::file(&with_all);
    let mut entries = vec![Entry::default(); with_all.len()];
    let header = safetensors::parse(&bytes, &mut entries).unwrap();
    for dtype in not_computable() {
        let listed = header.get(&format!("{}.{dtype}", extra.name)).unwrap();
        assert_eq!((listed.dtype(), listed.elements()), (dtype, 8));
    }
    assert_eq!(run(bytes).hash, expected.hash);

    for dtype in not_computable() {
        let mut short = retyped(&extra, dtype);
        short.bytes.pop();
        let bytes = file::file(&[short]);
        let error = safetensors::parse(&bytes, &mut entries).err();
        assert!(
            matches!(error, Some(safetensors::Error::TensorInvalidInfo { .. })),
            "{dtype}: {error:?}"
        );
    }
}

/// The name that a tensor has in the Hugging Face layout.
fn hugging_face_name(name: &str) -> String {
    const EMBEDDER: &str = "mm_streams_embeddings.embedding_module.";
    let map = |tower: &str, rest: &str, parts: [&str; 2]| {
        let (layer, rest) = rest.split_once('.').unwrap();
        let (module, leaf) = rest.rsplit_once('.').unwrap();
        let module = match module {
            "attention_norm" => parts[0],
            "ffn_norm" => parts[1],
            "attention.wq" => "self_attn.q_proj",
            "attention.wk" => "self_attn.k_proj",
            "attention.wv" => "self_attn.v_proj",
            "attention.wo" => "self_attn.o_proj",
            "feed_forward.w1" => "mlp.gate_proj",
            "feed_forward.w2" => "mlp.down_proj",
            "feed_forward.w3" => "mlp.up_proj",
            "ada_rms_norm_t_cond.0" => "ada_rms_norm.linear1",
            "ada_rms_norm_t_cond.2" => "ada_rms_norm.linear2",
            other => panic!("{other}"),
        };
        format!("model.{tower}.layers.{layer}.{module}.{leaf}")
    };
    if let Some(rest) = name.strip_prefix("layers.") {
        return map("language_model", rest, ["input_layernorm", "post_attention_layernorm"]);
    }
    match name.strip_prefix(EMBEDDER) {
        None => "model.language_model.norm.weight".into(),
        Some("tok_embeddings.weight") => "model.language_model.embed_tokens.weight".into(),
        Some("audio_language_projection.0.weight") => "model.multi_modal_projector.linear_1.weight".into(),
        Some("audio_language_projection.2.weight") => "model.multi_modal_projector.linear_2.weight".into(),
        Some("whisper_encoder.transformer.norm.weight") => "model.audio_tower.norm.weight".into(),
        Some(rest) => match rest.strip_prefix("whisper_encoder.transformer.layers.") {
            Some(rest) => map("audio_tower", rest, ["self_attn_layer_norm", "final_layer_norm"]),
            None => {
                let rest = rest.strip_prefix("whisper_encoder.conv_layers.").unwrap();
                let (conv, leaf) = rest.split_once(".conv.").unwrap();
                let conv = conv.parse::<usize>().unwrap() + 1;
                format!("model.audio_tower.embedder.conv{conv}.{leaf}")
            }
        },
    }
}

/// S19: a checkpoint in the Hugging Face layout is recognised, and the message tells the way to the right file.
#[test]
fn s19_the_hugging_face_layout_is_recognised() {
    assert_eq!(
        hugging_face_name("layers.0.attention.wq.weight"),
        "model.language_model.layers.0.self_attn.q_proj.weight"
    );
    let tensors = spec().tensors(Stored::Bf16);
    // As published, as a wrapper or an adapter saves it, and as a single tower or an older program would.
    let prefixes: [(&str, &[&str]); 4] = [
        ("model.", &["model."]),
        ("base_model.model.model.", &["model."]),
        ("modèle.", &["model."]),
        ("", &["model.language_model.", "model.audio_tower.", "model."]),
    ];
    for (prefix, instead_of) in prefixes {
        let mut renamed = tensors.clone();
        for tensor in &mut renamed {
            let name = hugging_face_name(&tensor.name);
            let rest = instead_of.iter().find_map(|start| name.strip_prefix(start)).unwrap();
            tensor.name = format!("{prefix}{rest}");
        }
        // The two towers share names without their prefix.
        renamed.sort_by(|a, b| a.name.cmp(&b.name));
        renamed.dedup_by(|a, b| a.name == b.name);
        let error = refused(&renamed);
        assert_eq!(error, BindError::HuggingFaceLayout, "{prefix:?}");
        let message = error.to_string();
        assert!(message.contains("Hugging Face layout"), "{message}");
        assert!(
            message.contains("get consolidated.safetensors from the same model repository"),
            "{message}"
        );
    }
    // One shard of several.
    let mut shard = tensors[tensors.len() - 12..].to_vec();
    shard.iter_mut().for_each(|t| t.name = hugging_face_name(&t.name));
    assert_eq!(refused(&shard), BindError::HuggingFaceLayout);
}

/// S19: one name that was not changed is enough: the rows of wq and wk would still lie in the other order.
#[test]
fn s19_a_partial_rename_is_refused() {
    let tensors = spec().tensors(Stored::Bf16);
    for kept in 0..tensors.len() {
        let name = hugging_face_name(&tensors[kept].name);
        // All but one renamed.
        let mut renamed = tensors.clone();
        renamed[kept].name = name.clone();
        assert_eq!(refused(&renamed), BindError::HuggingFaceLayout, "{name}");
        // All there, and one left over.
        let mut left_over = tensors.clone();
        left_over.push(Tensor {
            name: name.clone(),
            ..tensors[kept].clone()
        });
        assert_eq!(refused(&left_over), BindError::HuggingFaceLayout, "{name}");
    }
    // Its output head, which is the embedding once more.
    let mut head = tensors.clone();
    head.push(Tensor {
        name: "lm_head.weight".into(),
        ..tensors[0].clone()
    });
    assert_eq!(refused(&head), BindError::HuggingFaceLayout);
}

/// S10: data at every alignment, by the length of the header or by a tensor of one byte in front.
#[test]
fn s10_data_at_any_address_gives_the_same_bits() {
    let tensors = spec().tensors(Stored::Bf16);
    let expected = run(file::file(&tensors));
    for wide in [false, true] {
        let tensors: Vec<Tensor> = match wide {
            false => tensors.clone(),
            true => tensors.iter().map(widened).collect(),
        };
        let aligned = file::file(&tensors);
        let header = 8 + u64::from_le_bytes(aligned[..8].try_into().unwrap()) as usize;
        for shift in 0..8 {
            let text = std::str::from_utf8(&aligned[8..header]).unwrap();
            let bytes = file::raw_file(&format!("{text}{:shift$}", ""), &aligned[header..]);
            let engine = engine(bytes);
            let address = engine.weights.as_ptr() as usize + header + shift;
            assert_eq!(address % 8, shift, "the file itself is aligned");
            assert_eq!(run_of(&engine).hash, expected.hash, "header longer by {shift}");
        }
        let byte = Tensor {
            name: "a".into(),
            dtype: "U8".into(),
            shape: vec![1],
            bytes: vec![0xFF],
        };
        let behind_a_byte = [&[byte], &tensors[..]].concat();
        assert_eq!(run(file::file(&behind_a_byte)).hash, expected.hash);
    }
}

/// S13: too few slots, or entries; the error tells how many are needed. More than that do no harm.
#[test]
fn s13_too_few_slots_tell_the_number_needed() {
    let bytes = spec().safetensors(Stored::Bf16);
    let params = params(&spec());
    let count = safetensors::count(&bytes).unwrap();
    let mut entries = vec![Entry::default(); count];
    for given in [0, 1, count - 1] {
        let error = safetensors::parse(&bytes, &mut entries[..given]).err();
        assert_eq!(error, Some(safetensors::Error::TooManyTensors { needed: count, given }));
    }
    let header = safetensors::parse(&bytes, &mut entries).unwrap();
    let needed = Binding::slots(&params);
    let mut slots = vec![Slot::default(); needed + 1];
    for given in [0, 1, needed - 1] {
        let error = Binding::new(&header, &params, &mut slots[..given]).unwrap_err();
        assert_eq!(error, BindError::TooFewSlots { needed, given });
        let expected = format!("the model needs {needed} tensor slots, {given} were given");
        assert_eq!(error.to_string(), expected);
    }
    let exact = Binding::new(&header, &params, &mut slots[..needed]).unwrap();
    assert_eq!(Binding::new(&header, &params, &mut slots), Ok(exact));
    assert!(needed >= Role::all(&params).count());
}

/// Tensors of other names, wherever they lie, change nothing.
#[test]
fn extra_tensors_are_ignored() {
    let tensors = spec().tensors(Stored::Bf16);
    let expected = run(file::file(&tensors));
    let extra = |name: &str| Tensor {
        name: name.into(),
        dtype: "BF16".into(),
        shape: vec![3, 5],
        bytes: vec![0x7F; 30],
    };
    let mut more = vec![extra("")];
    for tensor in &tensors {
        more.push(tensor.clone());
        // Neighbours in the order of names.
        more.push(extra(&format!("{}\0", tensor.name)));
        more.push(extra(&tensor.name[..tensor.name.len() - 1]));
    }
    more.push(extra("layers.00.attention.wq.weight"));
    more.push(extra("another.norm.weight"));
    assert_eq!(run(file::file(&more)).hash, expected.hash);
}

/// A file with more than `params.json` tells of is the file of another model, and would be computed wrongly.
#[test]
fn layers_biases_and_a_head_without_a_place_are_refused() {
    let named = |tensors: &[Tensor], name: &str| {
        let error = refused(tensors);
        let BindError::Unexpected { role } = error else {
            panic!("{name}: {error:?}")
        };
        assert_eq!(role.to_string(), name);
        assert_eq!(
            error.to_string(),
            format!("tensor {name} is in the file, but params.json has no place for it")
        );
    };
    let mut larger = spec();
    larger.encoder.n_layers += 1;
    let first = "mm_streams_embeddings.embedding_module.whisper_encoder.transformer.layers.2.attention_norm.weight";
    named(&larger.tensors(Stored::Bf16), first);
    let mut larger = spec();
    larger.decoder.n_layers += 1;
    named(&larger.tensors(Stored::Bf16), "layers.2.attention_norm.weight");

    // Every single one of them.
    let tensors = spec().tensors(Stored::Bf16);
    let known = |name: &str| tensors.iter().any(|tensor| tensor.name == name);
    larger.encoder.n_layers += 1;
    let more = larger.tensors(Stored::Bf16).into_iter().filter(|t| !known(&t.name));
    let mut seen = 0;
    for tensor in more {
        let name = tensor.name.clone();
        named(&[&tensors[..], &[tensor]].concat(), &name);
        seen += 1;
    }
    assert_eq!(seen, 13 + 11);

    let without_biases = Spec {
        encoder_biases: false,
        ..spec()
    };
    let error = bind(file::file(&tensors), &params(&without_biases)).err().unwrap();
    assert!(error.to_string().contains("layers.0.attention.wq.bias"), "{error}");

    let head = Tensor {
        name: "output.weight".into(),
        ..tensors[0].clone()
    };
    let error = refused(&[&tensors[..], &[head]].concat());
    assert_eq!(error, BindError::OutputHead);
    assert!(error.to_string().contains("output.weight"), "{error}");
}

/// `params.json` of another model does not go with a file, however little it differs.
#[test]
fn the_parameters_of_another_model_are_refused() {
    let variants = ['A', 'B', 'C', 'D', 'E'].map(Spec::variant);
    for (i, file) in variants.iter().enumerate() {
        let bytes = file.safetensors(Stored::Bf16);
        for (j, other) in variants.iter().enumerate() {
            let bound = bind(bytes.clone(), &params(other));
            assert_eq!(bound.is_ok(), i == j, "file {i}, parameters {j}: {:?}", bound.err());
        }
    }

    let changes: [fn(&mut Spec); 18] = [
        |s| s.encoder.dim += 4,
        |s| s.encoder.n_layers += 1,
        |s| s.encoder.n_layers -= 1,
        |s| s.encoder.n_heads += 1,
        |s| s.encoder.head_dim += 2,
        |s| s.encoder.hidden_dim -= 1,
        |s| s.encoder_biases = false,
        |s| s.decoder.dim += 2,
        |s| s.decoder.n_layers += 1,
        |s| s.decoder.n_layers -= 1,
        |s| s.decoder.n_heads += 2,
        |s| s.decoder.n_kv_heads = 1,
        |s| s.decoder.n_kv_heads = 4,
        |s| s.decoder.head_dim -= 2,
        |s| s.decoder.hidden_dim += 1,
        |s| s.ada_dim += 1,
        |s| s.vocab_size += 1,
        |s| s.vocab_size -= 1,
    ];
    let bytes = spec().safetensors(Stored::Bf16);
    for (i, change) in changes.into_iter().enumerate() {
        let mut other = spec();
        change(&mut other);
        // Of an encoder, keys and values have as many heads as queries.
        other.encoder.n_kv_heads = other.encoder.n_heads;
        assert!(bind(bytes.clone(), &params(&other)).is_err(), "change {i}");
    }
}

/// Sizes, places, dtypes and the final norm each make another fingerprint; the same file has the same.
#[test]
fn fingerprints_tell_models_apart() {
    let fingerprint = |bytes: Vec<u8>, params: &Params| bind(bytes, params).ok().unwrap().binding.fingerprint();
    let own = params(&spec());
    let of = |spec: &Spec, stored| fingerprint(spec.safetensors(stored), &params(spec));
    let first = of(&spec(), Stored::Bf16);
    assert_eq!(of(&spec(), Stored::Bf16), first);

    let mut all = vec![first, of(&spec(), Stored::F16), of(&spec(), Stored::F32)];
    all.extend((100..110).map(|seed| of(&Spec { seed, ..spec() }, Stored::Bf16)));
    let published = Spec {
        style: Style::Published,
        ..spec()
    };
    all.push(of(&published, Stored::Bf16));
    let changes: [fn(&mut Params); 8] = [
        |p| p.encoder.sliding_window += 1,
        |p| p.encoder.rope_theta *= 2.0,
        |p| p.encoder.norm_eps *= 2.0,
        |p| p.decoder.sliding_window += 1,
        |p| p.decoder.rope_theta *= 2.0,
        |p| p.decoder.norm_eps *= 2.0,
        |p| p.global_log_mel_max += 0.5,
        |p| (p.encoder.n_heads, p.encoder.n_kv_heads, p.encoder.head_dim) = (3, 3, 4),
    ];
    for change in changes {
        let mut other = own;
        change(&mut other);
        all.push(fingerprint(spec().safetensors(Stored::Bf16), &other));
    }
    // One tensor of another dtype, everything at the same place.
    let bytes = spec().safetensors(Stored::Bf16);
    let entry = find(&bytes, b"layers.1.attention.wv.weight\":{\"dtype\":\"");
    let mut retyped = bytes.clone();
    let dtype = entry + find(&bytes[entry..], b"\"BF16\"");
    retyped[dtype..dtype + 6].copy_from_slice(b"\"F16\" ");
    all.push(fingerprint(retyped, &own));
    // One weight of the final norm, which is the last tensor.
    let mut retrained = bytes;
    *retrained.last_mut().unwrap() ^= 1;
    all.push(fingerprint(retrained, &own));

    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
}

fn find(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|window| window == what).unwrap()
}

/// Bytes that end too early: an error that names a tensor beyond their end, the same until a reset; then the right
/// bytes give the right result.
#[test]
fn bytes_that_are_cut_are_an_error_until_a_reset() {
    let whole = engine(spec().safetensors(Stored::Bf16));
    let expected = run_of(&whole);
    let mut cut = engine(whole.weights.clone());
    let layout = Layout::new(&whole.params, &whole.options(2)).unwrap();
    let mut state = vec![f32::NAN; layout.state_len()];
    let mut scratch = vec![f32::NAN; layout.scratch_len()];
    let mut session = Session::new(&layout);
    let mut entries = vec![Entry::default(); safetensors::count(&whole.weights).unwrap()];
    let header = safetensors::parse(&whole.weights, &mut entries).unwrap();
    let lengths = header
        .iter()
        .map(|tensor| tensor.range().end as usize - 1)
        .chain([0, 7]);
    for len in lengths {
        cut.weights = whole.weights[..len].to_vec();
        let plan = Plan::default();
        let error = plan
            .run_in(&cut, &layout, &mut session, &mut state, &mut scratch, &samples())
            .unwrap_err();
        let SessionError::Weights(weights) = error else {
            panic!("{len} bytes: {error:?}")
        };
        let name = weights.role.to_string();
        assert!(header.get(&name).unwrap().range().end as usize > len, "{name}");
        let message = format!("tensor {name} is not in these bytes: they are not the file that was bound");
        assert_eq!(error.to_string(), message);

        // The right bytes do not mend it.
        let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
        for _ in 0..2 {
            assert_eq!(session.step(&whole.model(), &mut memory, &Serial), Err(error));
        }
        session.reset();
        let found = plan
            .run_in(&whole, &layout, &mut session, &mut state, &mut scratch, &samples())
            .unwrap();
        assert_eq!((found.tokens, found.hash), (expected.tokens.clone(), expected.hash));
        session.reset();
    }
}

/// Other bytes of any kind, and slots of another binding: an error or nonsense, but nothing outside of the bytes;
/// after a reset that an error made necessary nothing of them is left.
#[test]
fn other_bytes_and_slots_lead_nowhere() {
    let whole = engine(spec().safetensors(Stored::Bf16));
    let expected = run_of(&whole);
    let len = whole.weights.len();
    let layout = Layout::new(&whole.params, &whole.options(2)).unwrap();
    let mut state = vec![f32::NAN; layout.state_len()];
    let mut scratch = vec![f32::NAN; layout.scratch_len()];
    let noise = |len| (0..len).map(|i| random::splitmix(5, i as u64) as u8).collect();
    let others: [(&str, Vec<u8>); 6] = [
        ("another model's", Spec::variant('B').safetensors(Stored::Bf16)),
        ("all zero", vec![0; len]),
        ("all NaN", vec![0xFF; len]),
        ("noise", noise(len)),
        ("a short file of noise", noise(len / 2)),
        ("one byte", vec![1]),
    ];
    let mut errors = 0;
    let mut other = engine(whole.weights.clone());
    for (what, bytes) in others {
        other.weights = bytes;
        let mut session = Session::new(&layout);
        let plan = Plan::default();
        let result = plan.run_in(&other, &layout, &mut session, &mut state, &mut scratch, &samples());
        if let Err(error) = result {
            let typed = matches!(error, SessionError::Weights(_) | SessionError::NotANumber { .. });
            assert!(typed, "{what}: {error:?}");
            errors += 1;
            session.reset();
            let found = plan
                .run_in(&whole, &layout, &mut session, &mut state, &mut scratch, &samples())
                .unwrap();
            assert_eq!(
                (found.tokens, found.hash),
                (expected.tokens.clone(), expected.hash),
                "{what}"
            );
        }
    }
    assert!(errors >= 3, "cut bytes, NaN and noise are noticed");

    let bound = bind(whole.weights.clone(), &whole.params).ok().unwrap();
    let foreign = bind(
        Spec::variant('B').safetensors(Stored::F32),
        &params(&Spec::variant('B')),
    )
    .ok()
    .unwrap();
    let nothing = vec![Slot::default(); bound.slots.len()];
    for slots in [&[][..], &bound.slots[..3], &nothing, &foreign.slots] {
        let model = Model::new(&bound.bytes, slots, &bound.binding);
        let mut session = Session::new(&layout);
        let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
        let error = loop {
            match session.step(&model, &mut memory, &Serial) {
                Err(error) => break error,
                Ok(Step::NeedAudio) => session.finish(),
                Ok(Step::Done) => panic!("nothing was noticed"),
                Ok(_) => {}
            }
        };
        assert!(matches!(error, SessionError::Weights(_)), "{error:?}");
    }
}

/// Weights by role are the bytes of the tensor of that name; what the model does not have is refused.
#[test]
fn weights_by_role_are_the_tensors_of_its_name() {
    use voxtral_core::model::{DecoderTensor, EncoderTensor};

    let bytes = spec().safetensors(Stored::Bf16);
    let bound = bind(bytes, &params(&spec())).unwrap();
    let mut entries = vec![Entry::default(); safetensors::count(&bound.bytes).unwrap()];
    let header = safetensors::parse(&bound.bytes, &mut entries).unwrap();
    let model = Model::new(&bound.bytes, &bound.slots, &bound.binding);
    for role in Role::all(model.params()) {
        let (weights, tensor) = (model.get(role).unwrap(), header.get(&role.to_string()).unwrap());
        assert!(std::ptr::eq(weights.bytes(), tensor.bytes().unwrap()), "{role}");
        let dims: Vec<u64> = tensor.shape().collect();
        let rows = if dims.len() == 1 { 1 } else { dims[0] };
        let cols = dims.iter().product::<u64>() / rows;
        assert_eq!((weights.rows() as u64, weights.cols() as u64), (rows, cols), "{role}");
    }
    for layer in [2, 3, u32::MAX] {
        for role in [
            Role::Encoder {
                layer,
                tensor: EncoderTensor::Wq,
            },
            Role::Decoder {
                layer,
                tensor: DecoderTensor::AttentionNorm,
            },
        ] {
            assert_eq!(model.get(role).err().map(|error| error.role), Some(role));
        }
    }
}
