//! `voxtral prime`, and the start that utterances share: sooner, with the same bits.

use std::fs;
use std::time::Duration;

use safetensors::SafeTensors;
use voxtral_tests::goldens;
use voxtral_tests::program::{MODEL_FILES, Ran, arg, clip, model, run};

/// Values behind a name in what `--debug` tells, one for each file.
fn told(ran: &Ran, name: &str) -> Vec<String> {
    let lines = ran.stderr.lines().filter_map(|line| line.split_once(name));
    lines.map(|(_, value)| value.to_owned()).collect()
}

/// Positions that went through the encoder, for each file.
fn encoded(ran: &Ran) -> Vec<u64> {
    let number = |text: String| text.split_once(" positions").unwrap().0.parse().unwrap();
    told(ran, "encoder: ")
        .into_iter()
        .map(|line| number(line.split_once("over ").unwrap().1.to_owned()))
        .collect()
}

#[test]
fn primed_runs_have_the_same_bits_and_less_to_do() {
    let directory = model();
    let dir = directory.path();
    let ((first, _), (second, _)) = (clip(0), clip(3));
    let args = |more: &[&'static str]| {
        let mut args = vec![arg(&first).to_owned(), arg(&second).to_owned(), "--debug".into()];
        args.extend(["-d".into(), arg(dir).to_owned()]);
        args.extend(more.iter().map(|&arg| arg.to_owned()));
        args
    };
    let run = |more: &[&'static str]| run(args(more).iter().map(String::as_str));
    let plain = run(&[]);
    let all = encoded(&plain);
    let alone = voxtral_tests::program::run([arg(&second), "--debug", "-d", arg(dir)]);
    // The second utterance of a process starts with what the first one kept.
    assert_eq!(encoded(&alone)[0], all[1] + 31);

    let primed = voxtral_tests::program::run(["prime", "-d", arg(dir)]);
    assert_eq!(primed.code, Some(0), "{primed:?}");
    assert!(primed.stderr.contains("31 of the 39 positions"), "{primed:?}");
    let fresh = run(&[]);
    assert_eq!(encoded(&fresh), [all[0] - 31, all[1]]);
    for name in ["logit hash ", ": positions "] {
        assert_eq!(told(&fresh, name), told(&plain, name));
    }
    assert_eq!(fresh.stdout, plain.stdout);

    // It is for one delay; another has none, which is nothing to tell.
    let other = run(&["--delay", "160"]);
    assert!(!other.stderr.contains("start-"), "{other:?}");
    let file = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let start = file.into_iter().find(|path| arg(path).contains("start-480ms")).unwrap();

    // Damaged, it is told and not taken.
    let mut bytes = fs::read(&start).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&start, &bytes).unwrap();
    let damaged = run(&[]);
    assert_eq!(told(&damaged, "logit hash "), told(&plain, "logit hash "));
    assert!(
        damaged.stderr.contains("damaged; it is computed instead"),
        "{damaged:?}"
    );
    // And written anew.
    assert_eq!(voxtral_tests::program::run(["prime", "-d", arg(dir)]).code, Some(0));
    bytes[last] ^= 1;
    assert_eq!(fs::read(&start).unwrap(), bytes);

    // The fingerprint of a model is of a part of its weights, so none may have changed since.
    let weights = fs::File::options()
        .append(true)
        .open(dir.join("consolidated.safetensors"))
        .unwrap();
    let later = fs::metadata(&start).unwrap().modified().unwrap() + Duration::from_secs(1);
    weights.set_modified(later).unwrap();
    let changed = run(&[]);
    assert!(changed.stderr.contains("older than the weights"), "{changed:?}");
    assert_eq!(encoded(&changed), all);

    // A link in its place may lead to the weights themselves.
    fs::remove_file(&start).unwrap();
    std::os::unix::fs::symlink("consolidated.safetensors", &start).unwrap();
    let before = fs::read(dir.join("consolidated.safetensors")).unwrap();
    let refused = voxtral_tests::program::run(["prime", "-d", arg(dir)]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains("not a regular file; remove it first"),
        "{refused:?}"
    );
    assert!(fs::read(dir.join("consolidated.safetensors")).unwrap() == before);
}

#[test]
fn the_built_in_model_needs_none() {
    let ran = run(["prime"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("-d DIR"), "{ran:?}");
}

/// Damaged weights of the decoder compute NaN, of which no start is made; the comparison says which model it is.
#[test]
fn damaged_weights_make_no_start() {
    let directory = model();
    let dir = directory.path();
    let weights = dir.join(MODEL_FILES[0]);
    let mut bytes = fs::read(&weights).unwrap();
    let damaged = {
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let data = tensors.tensor("layers.0.feed_forward.w2.weight").unwrap().data();
        data.as_ptr() as usize - bytes.as_ptr() as usize
    };
    let sound = bytes.clone();
    // The values are bfloat16: all ones is a NaN.
    bytes[damaged..damaged + 2].fill(0xFF);
    fs::write(&weights, bytes).unwrap();

    let image = dir.join("image.bin");
    let nano = goldens::nano_dir();
    let (file, _) = clip(0);
    for args in [
        &["prime", "-d", arg(dir)][..],
        &["pack", "--prime", arg(dir), arg(&image)],
        &["compare", arg(&nano), arg(dir), arg(&file)],
    ] {
        let ran = run(args.iter().copied());
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("the model computed NaN"), "{ran:?}");
        if args[0] == "compare" {
            assert!(ran.stderr.contains(&format!("{}: the model", dir.display())), "{ran:?}");
        }
    }

    // An infinite embedding makes an infinite logit, which is no NaN yet.
    let mut bytes = sound;
    let damaged = {
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let name = "mm_streams_embeddings.embedding_module.tok_embeddings.weight";
        tensors.tensor(name).unwrap().data().as_ptr() as usize - bytes.as_ptr() as usize
    };
    bytes[damaged..damaged + 2].copy_from_slice(&[0x80, 0xFF]);
    fs::write(&weights, bytes).unwrap();
    let ran = run(["prime", "-d", arg(dir)]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("or an infinity (Logits"), "{ran:?}");
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.count(), MODEL_FILES.len(), "nothing was written");
}
