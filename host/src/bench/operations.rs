//! Every operation of the model, at the model's shapes.

use std::hint::black_box;

use voxtral_core::kernels::{CacheType, Heads, Matrix, Ring, activations_len};
use voxtral_core::model::{DecoderTensor, EncoderTensor, Role};

use super::{Bencher, Call, Case, Group, Work};
use crate::error::Error;
use crate::zeroed::Zeroed;

/// Columns that decoder matrices are multiplied with: positions in one pass.
const COLUMNS: [usize; 4] = [1, 2, 4, 8];
/// Positions in one pass of the encoder: the usual 2 s, and 6 s.
pub(super) const CHUNKS: [usize; 2] = [25, 75];
/// Cached positions that decoding is measured at.
const FILLS: [usize; 3] = [0, 1000, 8192];
/// Both kinds of cache.
pub(super) const CACHES: [(CacheType, &str); 2] = [(CacheType::F32, "f32"), (CacheType::Bf16, "bf16")];
/// Memory that operations take in turns, so that what they read does not come from the processor's own caches; and the
/// most that weights are copied into.
const LARGE: usize = 256 << 20;
/// Positions long after the start, when every cache is full.
pub(super) const LATER: u64 = 1 << 20;

/// The fills that a window allows.
pub(super) fn fills(window: usize) -> Vec<usize> {
    let mut fills = FILLS.map(|fill| fill.min(window)).to_vec();
    fills.dedup();
    fills
}

/// Positions that a query sees at a fill, itself included.
pub(super) fn seen(fill: usize, window: usize) -> usize {
    (fill + 1).min(window)
}

pub(super) fn cases<'a>(bench: &'a Bencher<'_>) -> Vec<Case<'a>> {
    let maker = Maker { bench };
    let mut cases = maker.decoder_products();
    cases.extend(maker.encoder_products());
    cases.extend(maker.attention());
    cases.extend(maker.elements());
    cases
}

/// Values for activations: small, and no two neighbours alike.
pub(super) fn values(count: usize) -> Result<Zeroed, Error> {
    let mut values = Zeroed::new(count)?;
    for (i, value) in values.iter_mut().enumerate() {
        *value = (i % 17) as f32 * 0.01 - 0.05;
    }
    Ok(values)
}

/// Matrices of one role in all layers, taken in turns: what was read one turn ago is no longer in a cache, as in decoding.
struct Turns<'a> {
    matrices: Vec<Matrix<'a>>,
    next: usize,
}

impl<'a> Turns<'a> {
    fn next(&mut self) -> &Matrix<'a> {
        self.next = (self.next + 1) % self.matrices.len();
        &self.matrices[self.next]
    }
}

#[derive(Clone, Copy)]
struct Maker<'a, 'm> {
    bench: &'a Bencher<'m>,
}

impl<'a, 'm> Maker<'a, 'm> {
    fn case(
        self,
        name: String,
        detail: String,
        work: Work,
        prepare: impl FnOnce() -> Result<Call<'a>, Error> + 'a,
    ) -> Case<'a> {
        Case {
            group: Group::Operation,
            name,
            detail,
            work,
            seconds_of_audio: 1.0,
            prepare: Box::new(prepare),
        }
    }

    fn matrices(self, roles: Vec<Role>) -> Vec<Matrix<'m>> {
        // A role that is not there was refused when the model was opened.
        roles
            .into_iter()
            .filter_map(|role| self.bench.model.get(role).ok())
            .collect()
    }

    /// Matrices of equal shape times `columns` columns.
    fn product(self, name: String, matrices: Vec<Matrix<'m>>, columns: usize) -> Option<Case<'a>> {
        let first = *matrices.first()?;
        let (rows, cols) = (first.rows(), first.cols());
        let storage = format!("{:?}", first.storage()).to_lowercase();
        let work = Work {
            flop: 2.0 * (rows * cols * columns) as f64,
            bytes: first.bytes().len() as f64,
        };
        let plural = if columns == 1 { "" } else { "s" };
        let name = format!("{name}, {columns} column{plural}");
        Some(self.case(name, format!("{rows}x{cols} {storage}"), work, move || {
            let ops = self.bench.ops();
            let (x, mut y) = (values(columns * cols)?, Zeroed::new(columns * rows)?);
            let mut scratch = Zeroed::new(activations_len(columns, cols).unwrap_or(0))?;
            let mut turns = Turns { matrices, next: 0 };
            Ok(Box::new(move || {
                ops.linear(turns.next(), None, &x, &mut scratch, &mut y);
                Ok(())
            }))
        }))
    }

    fn decoder_products(self) -> Vec<Case<'a>> {
        use DecoderTensor as T;
        let layers = self.bench.model.params().decoder.n_layers as u32;
        let of = |tensor| (0..layers).map(|layer| Role::Decoder { layer, tensor }).collect();
        let kinds: [(&str, Vec<Role>); 6] = [
            ("wq", of(T::Wq)),
            ("wk", of(T::Wk)),
            ("wo", of(T::Wo)),
            ("w1", of(T::W1)),
            ("w2", of(T::W2)),
            ("head", vec![Role::TokenEmbeddings]),
        ];
        let mut cases: Vec<_> = COLUMNS
            .into_iter()
            .flat_map(|columns| {
                let product = move |(name, roles): &(&str, Vec<Role>)| {
                    self.product(format!("decoder {name}"), self.matrices(roles.clone()), columns)
                };
                kinds.iter().filter_map(product).collect::<Vec<_>>()
            })
            .collect();
        cases.extend(self.copied(self.matrices(of(T::W1))));
        cases
    }

    /// One column of the largest matrices from memory of this process instead of the mapped file.
    fn copied(self, matrices: Vec<Matrix<'m>>) -> Option<Case<'a>> {
        let size = matrices.first()?.bytes().len();
        let count = (LARGE / size.max(1)).clamp(1, matrices.len());
        let mut case = self.product("decoder w1 copied to memory".into(), matrices.clone(), 1)?;
        case.prepare = Box::new(move || {
            let ops = self.bench.ops();
            let (rows, cols, storage) = (matrices[0].rows(), matrices[0].cols(), matrices[0].storage());
            let mut bytes = Vec::new();
            bytes
                .try_reserve_exact(count * size)
                .map_err(|_| Error::Memory { bytes: count * size })?;
            matrices[..count]
                .iter()
                .for_each(|w| bytes.extend_from_slice(w.bytes()));
            let (x, mut y) = (values(cols)?, Zeroed::new(rows)?);
            let mut scratch = Zeroed::new(activations_len(1, cols).unwrap_or(0))?;
            let mut next = 0;
            Ok(Box::new(move || {
                next = (next + 1) % count;
                if let Some(w) = Matrix::new(&bytes[next * size..][..size], rows, cols, storage) {
                    ops.linear(&w, None, &x, &mut scratch, &mut y);
                }
                Ok(())
            }))
        });
        Some(case)
    }

    fn encoder_products(self) -> Vec<Case<'a>> {
        use EncoderTensor as T;
        let params = self.bench.model.params();
        let layers = params.encoder.n_layers as u32;
        let of = |tensor| (0..layers).map(|layer| Role::Encoder { layer, tensor }).collect();
        let mut cases = vec![];
        for positions in CHUNKS {
            let frames = positions * params.downsample_factor;
            let kinds: [(&str, Vec<Role>, usize); 9] = [
                ("encoder conv0", vec![Role::Conv0Weight], 2 * frames),
                ("encoder conv1", vec![Role::Conv1Weight], frames),
                ("encoder wq", of(T::Wq), frames),
                ("encoder wk", of(T::Wk), frames),
                ("encoder wo", of(T::Wo), frames),
                ("encoder w1", of(T::W1), frames),
                ("encoder w2", of(T::W2), frames),
                ("adapter in", vec![Role::AdapterIn], positions),
                ("adapter out", vec![Role::AdapterOut], positions),
            ];
            let product =
                |(name, roles, columns): (&str, _, _)| self.product(name.into(), self.matrices(roles), columns);
            cases.extend(kinds.into_iter().filter_map(product));
        }
        cases
    }

    fn attention(self) -> Vec<Case<'a>> {
        let params = self.bench.model.params();
        let mut cases = vec![];
        for (cache, cache_name) in CACHES {
            let d = &params.decoder;
            let heads = Heads {
                n_heads: d.n_heads,
                n_kv_heads: d.n_kv_heads,
                head_dim: d.head_dim,
            };
            for fill in fills(d.sliding_window) {
                let name = format!("decoder attention, {fill} cached, {cache_name}");
                cases.push(self.attend(name, heads, seen(fill, d.sliding_window), 1, cache));
            }
            let e = &params.encoder;
            let heads = Heads {
                n_heads: e.n_heads,
                n_kv_heads: e.n_kv_heads,
                head_dim: e.head_dim,
            };
            for positions in CHUNKS {
                let frames = positions * params.downsample_factor;
                let name = format!("encoder attention, {frames} frames, {cache_name}");
                cases.push(self.attend(name, heads, e.sliding_window, frames, cache));
            }
        }
        cases
    }

    /// `n` queries over a full window, in rings that take turns.
    fn attend(self, name: String, heads: Heads, window: usize, n: usize, cache: CacheType) -> Case<'a> {
        let capacity = window - 1 + n;
        let width = heads.n_kv_heads * heads.head_dim;
        let (n_heads, head_dim) = (heads.n_heads, heads.head_dim);
        let element = if cache == CacheType::F32 { 4 } else { 2 };
        let work = Work {
            flop: 4.0 * (n * n_heads * head_dim * window) as f64,
            bytes: 2.0 * (capacity * width * element) as f64,
        };
        let detail = format!("{n_heads}/{} heads of {head_dim}", heads.n_kv_heads);
        self.case(name, detail, work, move || {
            let ops = self.bench.ops();
            let len = (capacity * width * element).div_ceil(size_of::<f32>());
            let layers = self.bench.model.params().decoder.n_layers;
            let rings = (LARGE / (2 * len * size_of::<f32>())).clamp(1, layers);
            let mut held = Zeroed::new(2 * rings * len)?;
            let new = values(capacity * width)?;
            for ring in held.chunks_exact_mut(len) {
                ops.ring_store(heads, cache, capacity, LATER, &new, ring);
            }
            let q = values(n * n_heads * head_dim)?;
            let mut y = Zeroed::new(q.len())?;
            let mut next = 0;
            Ok(Box::new(move || {
                next = (next + 1) % rings;
                let (keys, values) = held[2 * next * len..][..2 * len].split_at(len);
                let ring = Ring {
                    keys,
                    values,
                    capacity,
                    first: 0,
                    cache,
                };
                // The last position that the ring was filled up to is that of the last query.
                let first = LATER + (capacity - n) as u64;
                ops.attention(heads, window, first, &q, ring, &mut y);
                Ok(())
            }))
        })
    }

    fn elements(self) -> Vec<Case<'a>> {
        let params = self.bench.model.params();
        let (e, d) = (&params.encoder, &params.decoder);
        let frames = CHUNKS[0] * params.downsample_factor;
        let mut cases = vec![];
        let towers = [
            (
                "encoder",
                frames,
                e.dim,
                e.hidden_dim,
                e.n_heads,
                e.head_dim,
                Role::EncoderNorm,
            ),
            (
                "decoder",
                1,
                d.dim,
                d.hidden_dim,
                d.n_heads,
                d.head_dim,
                Role::DecoderNorm,
            ),
        ];
        for (tower, rows, dim, hidden_dim, n_heads, head_dim, norm) in towers {
            cases.extend(self.matrices(vec![norm]).pop().map(|weight| {
                // Each value is squared, summed, and multiplied twice; read and written.
                self.element(tower, "rms_norm", rows, dim, 4.0, 8.0, move || {
                    let ops = self.bench.ops();
                    let (x, mut y) = (values(rows * dim)?, Zeroed::new(rows * dim)?);
                    Ok(Box::new(move || {
                        ops.rms_norm(&weight, 1e-5, &x, &mut y);
                        Ok(())
                    }))
                })
            }));
            // A rotation by the same angle again and again keeps the size of its pair.
            cases.push(
                self.element(tower, "rope", rows, n_heads * head_dim, 3.0, 8.0, move || {
                    let ops = self.bench.ops();
                    let rotations = [0.8, 0.6].repeat(rows * head_dim / 2);
                    let mut x = values(rows * n_heads * head_dim)?;
                    Ok(Box::new(move || {
                        ops.rope(&rotations, n_heads, head_dim, &mut x);
                        Ok(())
                    }))
                }),
            );
            // In place; a gate of -0.5 is the product with 1 + e^0.5 again, and what is near it comes nearer.
            cases.push(self.element(tower, "silu_mul", rows, hidden_dim, 5.0, 12.0, move || {
                let ops = self.bench.ops();
                let mut gate = vec![-0.5; rows * hidden_dim];
                let up = vec![1.0 + 0.5f32.exp(); rows * hidden_dim];
                Ok(Box::new(move || {
                    ops.silu_mul(&mut gate, &up);
                    Ok(())
                }))
            }));
        }
        // In place; values this large stay what they are.
        cases.push(self.element("encoder", "gelu", frames, e.dim, 5.0, 8.0, move || {
            let ops = self.bench.ops();
            let mut x = values(frames * e.dim)?;
            x.iter_mut().for_each(|x| *x += 7.0);
            Ok(Box::new(move || {
                ops.gelu(&mut x);
                Ok(())
            }))
        }));
        cases.push(self.element("head", "arg-max", 1, d.vocab_size, 1.0, 4.0, move || {
            let ops = self.bench.ops();
            let x = values(d.vocab_size)?;
            Ok(Box::new(move || {
                // So that no call can be left out.
                black_box(ops.argmax(black_box(&x)));
                Ok(())
            }))
        }));
        cases
    }

    /// An operation on each value of `rows` rows; `flop` and `bytes` are for one.
    #[allow(clippy::too_many_arguments)]
    fn element(
        self,
        tower: &str,
        name: &str,
        rows: usize,
        width: usize,
        flop: f64,
        bytes: f64,
        prepare: impl FnOnce() -> Result<Call<'a>, Error> + 'a,
    ) -> Case<'a> {
        let count = (rows * width) as f64;
        let work = Work {
            flop: count * flop,
            bytes: count * bytes,
        };
        self.case(format!("{tower} {name}"), format!("{rows}x{width}"), work, prepare)
    }
}
