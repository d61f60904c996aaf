//! The published layout: 711 tensors and 150 000 vocabulary entries, opened in place from a file without weights.
//!
//! Tables and times are printed with `--nocapture`. The test is alone in this file, because it measures the memory of
//! its process.

use std::fs;
use std::process::Command;
use std::time::Instant;

use voxtral::{Bytes, Mapper, Model};
use voxtral_core::format::params::Params;
use voxtral_core::format::safetensors::{self, Entry};
use voxtral_core::layout::{Item, Layout, Options, Region};
use voxtral_core::model::{Binding, Role, Slot};
use voxtral_tests::{goldens, proc};

/// Bytes of the state and of the scratch buffer for chunks of `c` positions, from the published sizes alone.
fn expected_bytes(c: usize) -> (usize, usize) {
    // 32 encoder layers with keys and values of 32 heads of 64, 26 decoder layers with those of 8 heads of 128. A
    // ring holds a window less the query, and a whole pass, in which the encoder has 4 frames to a position.
    let encoder_cache = 32 * 2 * 32 * 64 * (749 + 4 * c);
    // A decoder pass has up to 8 positions behind the prompt, each with its own logits.
    let (batch, rows) = (8, c.max(8));
    let decoder_cache = 26 * 2 * 8 * 128 * (8191 + rows);
    // A position has 1280 samples, the last window reaches 240 beyond its hop; of the past, the convolutions need two
    // frames of 128 and one of 1280.
    let carried = (1280 * c + 240) + 2 * 128 + 1280;
    let embeddings_and_scales = (c + 26) * 3072;
    let state = encoder_cache + decoder_cache + carried + embeddings_and_scales;

    // The residual stream and rotary angles of 4 frames to a position, beside each pass over the frames.
    let frames = 4 * c;
    let stream = frames * (1280 + 64);
    let stem = (2 * frames + 2) * 128 + 2 * frames * 3 * 128 + (2 * frames + 1) * 1280 + frames * 3 * 1280;
    // Of the widest input, for weights in blocks: 256 columns as bytes, with 16 values.
    let quantised = |cols: usize| cols / 256 * (64 + 16);
    let encoder = frames * (1280 + 4 * 2048 + 2 * 5120 + quantised(5120));
    let adapter = frames * 1280 + c * (3072 + quantised(5120));
    let layer = 3072 + 2 * 4096 + 2 * 1024 + 2 * 9216 + quantised(9216);
    let decoder = batch * (131_072 + 3072) + rows * (3072 + 128 + layer);
    let condition = 3072 + 32;
    let scratch = (stream + stem.max(encoder).max(adapter)).max(decoder).max(condition);
    (4 * state, 4 * scratch)
}

/// Prints every buffer at several chunk sizes, and holds the totals to [`expected_bytes`].
fn check_layout(params: &Params, options: &Options) {
    const CHUNKS: [usize; 5] = [1, 4, 25, 50, 200];
    let layouts = CHUNKS.map(|chunk| Layout::new(params, &Options { chunk, ..*options }).unwrap());
    let tables = layouts.map(|layout| {
        let mut items: Vec<Item> = Vec::new();
        layout.items(|item| items.push(item));
        items
    });
    let columns = |cells: &dyn Fn(usize) -> String| {
        let cells: Vec<String> = (0..CHUNKS.len()).map(|i| format!("{:>11}", cells(i))).collect();
        cells.concat()
    };
    println!(
        "{:<52}{}",
        "kB of memory, chunk of",
        columns(&|i| CHUNKS[i].to_string())
    );
    for (row, item) in tables[0].iter().enumerate() {
        let region = format!("{:?}", item.region);
        let cells = columns(&|i| {
            assert_eq!((tables[i][row].region, tables[i][row].name), (item.region, item.name));
            format!("{:.1}", tables[i][row].values as f64 * 4e-3)
        });
        println!("{region:<19}{:<33}{cells}", item.name);
    }
    let total = |name: &str, bytes: &dyn Fn(&Layout) -> usize| {
        let cells = columns(&|i| format!("{:.1}", bytes(&layouts[i]) as f64 * 1e-3));
        println!("{name:<52}{cells}");
    };
    total("state in all", &|layout| 4 * layout.state_len());
    total("scratch in all: the largest pass", &|layout| 4 * layout.scratch_len());

    for ((layout, items), chunk) in layouts.iter().zip(&tables).zip(CHUNKS) {
        let bytes = (4 * layout.state_len(), 4 * layout.scratch_len());
        assert_eq!(bytes, expected_bytes(chunk), "chunk {chunk}");
        let sum = |region: Region| {
            let items = items.iter().filter(|item| item.region == region);
            items.map(|item| 4 * item.values).sum::<usize>()
        };
        assert_eq!(sum(Region::State), bytes.0, "chunk {chunk}");
        let largest = items
            .iter()
            .map(|item| item.region)
            .filter(|r| *r != Region::State)
            .map(sum)
            .max();
        assert_eq!(largest, Some(bytes.1), "chunk {chunk}");
    }
}

/// The file of 8.9 GB and the vocabulary of 150 000 entries open in place, whichever way they are mapped: nothing is
/// read into memory of the program, and what a session needs is known before any weight is touched.
#[test]
fn the_real_layout_binds_in_place() {
    let dir = tempfile::tempdir().unwrap();
    // By another process: memory that this one had used before would hide what opening takes.
    let generated = Command::new(env!("CARGO_BIN_EXE_generate"))
        .args(["--real", "--sparse"])
        .arg(dir.path())
        .status();
    assert!(generated.unwrap().success());
    fs::copy(goldens::dir().join("real/params.json"), dir.path().join("params.json")).unwrap();

    // Core alone, on the mapped bytes.
    let params = Params::parse(&fs::read(dir.path().join("params.json")).unwrap()).unwrap();
    let weights = Bytes::open(&dir.path().join("consolidated.safetensors"), Mapper::default()).unwrap();
    assert_eq!(safetensors::count(&weights), Ok(711));
    let mut entries = vec![Entry::default(); 711];
    let header = safetensors::parse(&weights, &mut entries).unwrap();
    assert_eq!(Role::all(&params).count(), 711, "every tensor of the file has a role");
    let mut slots = vec![Slot::default(); Binding::slots(&params)];
    let binding = Binding::new(&header, &params, &mut slots).unwrap();
    drop(weights);

    // The program's way. Only Linux tells how much memory is not backed by files.
    let anonymous = || proc::bytes("/proc/self/status", "RssAnon");
    for mapper in [Mapper::Rustix, Mapper::Memmap2] {
        let before = anonymous();
        let started = Instant::now();
        let model = Model::open_with(dir.path(), mapper).unwrap();
        let seconds = started.elapsed().as_secs_f64();
        let grown = anonymous()
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        match grown {
            Some(bytes) => {
                println!(
                    "{mapper:?}: opened in {seconds:.3} s, {:.2} MB of anonymous memory",
                    bytes as f64 / 1e6
                );
                assert!(bytes < 8_000_000, "{mapper:?}: anonymous memory grew by {bytes} bytes");
            }
            None => println!("{mapper:?}: opened in {seconds:.3} s; this system does not tell anonymous memory"),
        }
        assert_eq!(model.params(), &params);
        assert_eq!(model.view().fingerprint(), binding.fingerprint());
        let vocabulary = model.vocabulary();
        assert_eq!((vocabulary.n_special, vocabulary.vocab_size), (1000, 131_072));
        assert_eq!((vocabulary.left_pad_tokens, vocabulary.delay_tokens), (32, 6));
        if mapper == Mapper::Rustix {
            check_layout(&params, &Options::from(vocabulary));
        }
    }
}
