//! Generated models: directories with `params.json`, `tekken.json` and `consolidated.safetensors` of any dimensions.
//!
//! Every weight is a function of the seed, the tensor's name and the element's number, so a model of 400 kB or of
//! 8.9 GB is made in constant memory, by any number of threads, and is the same everywhere. With the dimensions of
//! the five golden variants the three files are, byte for byte, those from which the golden values were computed.

pub mod params;
pub mod safetensors;
pub mod tekken;
pub mod weights;

use crate::random::Stream;
use safetensors::{Dtype, Tensor};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use weights::TensorInfo;

/// Bytes of the published `tekken.json`.
pub const PUBLISHED_TEKKEN_BYTES: usize = 14_910_348;

/// Elements that one thread makes and writes at a time.
const PIECE: usize = 1 << 20;

/// Sizes of one transformer stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stack {
    /// Width of the residual stream.
    pub dim: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads; divides `n_heads`.
    pub n_kv_heads: usize,
    /// Width of one head; even.
    pub head_dim: usize,
    /// Width inside the feed-forward.
    pub hidden_dim: usize,
    /// Keys that a query sees, itself included.
    pub sliding_window: usize,
}

/// How the files are written where the format leaves a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Style {
    /// As the goldens were: tensors from the embedding to the last norm, JSON indented by 1, short filler pieces.
    Golden,
    /// As the published directory: tensors sorted by name, JSON indented by 2, filler pieces of natural length.
    Published,
}

/// Everything that determines a generated model.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The audio encoder.
    pub encoder: Stack,
    /// Whether wq, wv, wo and w2 of the encoder have biases (its convolutions always have).
    pub encoder_biases: bool,
    /// The text decoder; its `dim` is even.
    pub decoder: Stack,
    /// Width of the delay conditioning's hidden layer.
    pub ada_dim: usize,
    /// Rows of the token embedding: 1000 control ids and the usable pieces.
    pub vocab_size: usize,
    /// Pieces that `tekken.json` lists beyond the usable ones.
    pub extra_pieces: usize,
    /// Size to which `tekken.json` is filled up with white space.
    pub tekken_bytes: usize,
    /// Selects the weights.
    pub seed: u64,
    /// The delay in `tekken.json`, a multiple of 80.
    pub delay_ms: usize,
    /// Factor on the embedding row of `</s>`: 0.25 makes it as rare as other control ids, 1.6 lets it come.
    pub eos_gain: f64,
    /// The free choices of the formats.
    pub style: Style,
}

/// What is put behind the header of `consolidated.safetensors`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weights {
    /// The seeded weights, made by this many threads.
    Full(usize),
    /// Nothing: the file has its full length, and whatever the file system calls a hole.
    Sparse,
}

/// The encoder's sizes in the order dim, layers, heads, head size, hidden, window.
const fn encoder(sizes: [usize; 6]) -> Stack {
    let [dim, n_layers, n_heads, head_dim, hidden_dim, sliding_window] = sizes;
    Stack {
        dim,
        n_layers,
        n_heads,
        n_kv_heads: n_heads,
        head_dim,
        hidden_dim,
        sliding_window,
    }
}

/// The decoder's sizes in the order dim, layers, heads, key/value heads, head size, hidden, window.
const fn decoder(sizes: [usize; 7]) -> Stack {
    let [dim, n_layers, n_heads, n_kv_heads, head_dim, hidden_dim, sliding_window] = sizes;
    Stack {
        dim,
        n_layers,
        n_heads,
        n_kv_heads,
        head_dim,
        hidden_dim,
        sliding_window,
    }
}

impl Spec {
    /// A model in the goldens' style at a delay of 480 ms.
    pub const fn golden(encoder: Stack, decoder: Stack, ada_dim: usize, vocab_size: usize, seed: u64) -> Self {
        Spec {
            encoder,
            encoder_biases: true,
            decoder,
            ada_dim,
            vocab_size,
            extra_pieces: 40,
            tekken_bytes: 0,
            seed,
            delay_ms: 480,
            eos_gain: 0.25,
            style: Style::Golden,
        }
    }

    /// The model of golden variant `'A'` to `'E'`. Panics for another letter.
    pub fn variant(letter: char) -> Self {
        match letter {
            // Windows that fill and wrap within the shortest clip.
            'A' => Self::golden(
                encoder([64, 2, 4, 16, 128, 16]),
                decoder([96, 2, 4, 2, 32, 192, 32]),
                8,
                1400,
                10,
            ),
            // Four query heads to a key/value head, heads times head size unequal to the width, odd-ish sizes.
            'B' => Self::golden(
                encoder([80, 3, 6, 16, 200, 24]),
                decoder([112, 3, 8, 2, 24, 264, 40]),
                16,
                1432,
                11,
            ),
            // The published windows and conditioning width; run at several delays.
            'C' => Self::golden(
                encoder([64, 2, 4, 32, 160, 750]),
                decoder([96, 2, 4, 1, 32, 160, 8192]),
                32,
                1400,
                4,
            ),
            // The published head sizes.
            'D' => Self::golden(
                encoder([96, 2, 4, 64, 160, 40]),
                decoder([128, 2, 8, 2, 128, 192, 48]),
                32,
                1400,
                13,
            ),
            // `</s>` comes in the middle.
            'E' => Spec {
                eos_gain: 1.6,
                ..Self::golden(
                    encoder([64, 1, 4, 16, 96, 16]),
                    decoder([64, 1, 4, 2, 16, 96, 32]),
                    8,
                    1400,
                    19,
                )
            },
            _ => panic!("no golden variant {letter}"),
        }
    }

    /// The published 4B model's layout: 711 tensors, 8 859 462 744 bytes.
    pub const fn real() -> Self {
        Spec {
            extra_pieces: 150_000 - (131_072 - 1000),
            tekken_bytes: PUBLISHED_TEKKEN_BYTES,
            style: Style::Published,
            ..Self::golden(
                encoder([1280, 32, 32, 64, 5120, 750]),
                decoder([3072, 26, 32, 8, 128, 9216, 8192]),
                32,
                131_072,
                4,
            )
        }
    }

    /// A model of about 1 GB with the published proportions, for measurements on machines too small for the real one.
    pub const fn mid() -> Self {
        Spec {
            extra_pieces: 1000,
            style: Style::Published,
            ..Self::golden(
                encoder([640, 16, 16, 64, 2560, 750]),
                decoder([1536, 12, 16, 4, 128, 4608, 8192]),
                32,
                32_768,
                5,
            )
        }
    }

    /// Small random dimensions: one to three layers, one to eight query heads per key/value head, head sizes that are
    /// not powers of two, odd widths, windows from 1 key to never full, delays from one token on.
    pub fn random(seed: u64) -> Self {
        let mut r = Stream::new(seed);
        let stack = |r: &mut Stream, dim: usize, n_kv_heads: usize, ratio: usize| Stack {
            dim,
            n_layers: r.within(1..=3),
            n_heads: n_kv_heads * ratio,
            n_kv_heads,
            head_dim: 2 * r.within(1..=12),
            hidden_dim: r.within(8..=96),
            sliding_window: if r.one_in(6) { 8192 } else { r.within(1..=60) },
        };
        let width = r.within(8..=48);
        let heads = r.within(1..=4);
        let encoder = stack(&mut r, width, heads, 1);
        let width = 2 * r.within(4..=32);
        let (heads, ratio) = (r.within(1..=3), r.within(1..=8));
        let decoder = stack(&mut r, width, heads, ratio);
        Spec {
            encoder_biases: !r.one_in(8),
            extra_pieces: r.within(0..=50),
            delay_ms: 80 * if r.one_in(4) { 1 } else { r.within(1..=15) },
            eos_gain: if r.one_in(4) { 1.6 } else { 0.25 },
            style: if r.one_in(2) { Style::Published } else { Style::Golden },
            ..Self::golden(encoder, decoder, r.within(1..=12), 1256 + r.within(1..=200), seed)
        }
    }

    /// The delay of `tekken.json` in tokens.
    pub fn delay_tokens(&self) -> usize {
        self.delay_ms / 80
    }

    /// The bytes of `params.json`.
    pub fn params_json(&self) -> Vec<u8> {
        params::json(self)
    }

    /// The bytes of `tekken.json`.
    pub fn tekken_json(&self) -> Vec<u8> {
        tekken::json(self)
    }

    /// Name, shape and rule of every tensor in the order of the file.
    pub fn tensor_infos(&self) -> Vec<TensorInfo> {
        let mut infos = weights::table(self);
        if self.style == Style::Published {
            infos.sort_by(|a, b| a.name.cmp(&b.name));
        }
        infos
    }

    /// All tensors with their weights, to be changed and written by [`safetensors::file`].
    ///
    /// F32 holds the same values as BF16, F16 the nearest ones.
    pub fn tensors(&self, dtype: Dtype) -> Vec<Tensor> {
        let infos = self.tensor_infos();
        infos.into_iter().map(|info| self.tensor(info, dtype)).collect()
    }

    fn tensor(&self, info: TensorInfo, dtype: Dtype) -> Tensor {
        let mut bytes = vec![0; info.elements() * dtype.size()];
        weights::fill(self, &info, 0, dtype, &mut bytes);
        Tensor {
            name: info.name,
            dtype: dtype.name().into(),
            shape: info.shape,
            bytes,
        }
    }

    /// The bytes of `consolidated.safetensors`.
    pub fn safetensors(&self, dtype: Dtype) -> Vec<u8> {
        safetensors::file(&self.tensors(dtype))
    }

    /// [`Spec::safetensors`] in no more memory than the file's own size, made by some threads.
    pub fn safetensors_by(&self, threads: usize, dtype: Dtype) -> Vec<u8> {
        let (header, total) = self.header(dtype);
        let mut file = vec![0; usize::try_from(total).expect("the file fits the address space")];
        let (start, mut rest) = file.split_at_mut(header.len());
        start.copy_from_slice(&header);
        let infos = self.tensor_infos();
        let jobs: Vec<_> = pieces(&infos)
            .map(|(info, range)| {
                let (bytes, behind) = std::mem::take(&mut rest).split_at_mut(range.len() * dtype.size());
                rest = behind;
                (info, range.start, bytes)
            })
            .collect();
        let jobs = Mutex::new(jobs.into_iter());
        let next = || jobs.lock().expect("no writer panicked").next();
        let work = || {
            while let Some((info, first, bytes)) = next() {
                weights::fill(self, info, first, dtype, bytes);
            }
        };
        std::thread::scope(|scope| (0..threads.max(1)).for_each(|_| drop(scope.spawn(work))));
        file
    }

    /// Length word and header of `consolidated.safetensors`, and the length of the whole file.
    pub fn header(&self, dtype: Dtype) -> (Vec<u8>, u64) {
        let infos = self.tensor_infos();
        let entries = infos
            .iter()
            .map(|t| (t.name.as_str(), dtype.name(), &t.shape[..], t.elements() * dtype.size()));
        let header = safetensors::header(entries);
        let data: u64 = infos.iter().map(|t| (t.elements() * dtype.size()) as u64).sum();
        let total = header.len() as u64 + data;
        (header, total)
    }

    /// Writes the three files into `dir`, which is made if needed, in memory that does not depend on their size.
    pub fn write(&self, dir: &Path, dtype: Dtype, weights: Weights) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        fs::write(dir.join("params.json"), self.params_json())?;
        fs::write(dir.join("tekken.json"), self.tekken_json())?;
        let path = dir.join("consolidated.safetensors");
        let (header, total) = self.header(dtype);
        let mut file = File::create(&path)?;
        file.write_all(&header)?;
        file.set_len(total)?;
        match weights {
            Weights::Sparse => Ok(()),
            Weights::Full(threads) => self.write_data(&path, header.len() as u64, dtype, threads.max(1)),
        }
    }

    /// Fills the data of the file at `path` from `start` on. Threads take pieces in turn, each by its own handle.
    fn write_data(&self, path: &Path, start: u64, dtype: Dtype, threads: usize) -> io::Result<()> {
        let infos = self.tensor_infos();
        let mut offset = start;
        let pieces: Vec<(&TensorInfo, Range<usize>, u64)> = pieces(&infos)
            .map(|(info, range)| {
                let begin = offset;
                offset += (range.len() * dtype.size()) as u64;
                (info, range, begin)
            })
            .collect();
        let next = AtomicUsize::new(0);
        let work = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).open(path)?;
            let mut buffer = vec![0; PIECE * dtype.size()];
            while let Some((info, range, offset)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                let bytes = &mut buffer[..range.len() * dtype.size()];
                weights::fill(self, info, range.start, dtype, bytes);
                file.seek(SeekFrom::Start(*offset))?;
                file.write_all(bytes)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            handles
                .into_iter()
                .try_for_each(|handle| handle.join().expect("a writer panicked"))
        })
    }
}

/// The elements of all tensors in the order of the file, at most [`PIECE`] of one tensor at a time.
fn pieces(infos: &[TensorInfo]) -> impl Iterator<Item = (&TensorInfo, Range<usize>)> {
    infos.iter().flat_map(|info| {
        let starts = (0..info.elements()).step_by(PIECE);
        starts.map(move |first| (info, first..info.elements().min(first + PIECE)))
    })
}
