//! What blocks of 4 bits cost, in several forms of about one size: the relative rms error of decoded weights, on random
//! numbers and on the small model's matrices. It tells why [`Storage::Q4`] is what it is.
//!
//! Every form gets a search for its scales of about the same effort. All see the same groups of 256 weights.
//!
//! `cargo bench -p voxtral-tests --bench blocks`

use half::f16;
use voxtral_core::format::params::Params;
use voxtral_core::kernels::{Matrix, Storage, encode_row};
use voxtral_core::model::Role;
use voxtral_tests::generator::safetensors;
use voxtral_tests::goldens::nano_dir;

const GROUP: usize = 256;
const BLOCK: usize = 32;

fn rounded(x: f32) -> f32 {
    f16::from_f32(x).to_f32()
}

fn error(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum()
}

/// The best of some decodings.
fn best(weights: &[f32], decodings: impl Iterator<Item = Vec<f32>>) -> Vec<f32> {
    decodings
        .min_by(|a, b| error(weights, a).total_cmp(&error(weights, b)))
        .expect("candidates")
}

fn largest(weights: &[f32]) -> f32 {
    weights
        .iter()
        .fold(0.0, |a: f32, &b| if b.abs() > a.abs() { b } else { a })
}

/// Levels -8 to 7 times a scale: 4.5 bits.
fn symmetric(weights: &[f32]) -> Vec<f32> {
    let decoded = |scale: f32| -> Vec<f32> {
        let scale = rounded(scale);
        let level = |w: &f32| (w / scale).round_ties_even().clamp(-8.0, 7.0);
        let decode = |scale: f32| weights.iter().map(|w| scale * level(w)).collect::<Vec<f32>>();
        let (products, squares) = weights
            .iter()
            .fold((0.0, 0.0), |(p, s), w| (p + w * level(w), s + level(w).powi(2)));
        let better = decode(rounded(products / squares));
        let plain = decode(scale);
        if error(weights, &better) < error(weights, &plain) {
            better
        } else {
            plain
        }
    };
    let largest = largest(weights);
    let scales = (0..20).flat_map(|i| [largest / -8.0, largest / 7.0].map(|scale| scale * (0.8 + 0.02 * i as f32)));
    best(weights, scales.map(decoded))
}

/// Candidates for a scale and a least value of levels 0 to 15.
fn ranges(weights: &[f32]) -> impl Iterator<Item = (f32, f32)> {
    let low = weights.iter().copied().fold(0.0, f32::min);
    let high = weights.iter().copied().fold(0.0, f32::max);
    (0..8).flat_map(move |i| {
        (0..8).map(move |j| {
            let (low, high) = (low * (1.0 - 0.04 * i as f32), high * (1.0 - 0.04 * j as f32));
            ((high - low) / 15.0, low)
        })
    })
}

fn with_least(weights: &[f32], scale: f32, least: f32) -> Vec<f32> {
    let level = |w: f32| {
        if scale == 0.0 {
            0.0
        } else {
            ((w - least) / scale).round_ties_even().clamp(0.0, 15.0)
        }
    };
    weights.iter().map(|&w| scale * level(w) + least).collect()
}

/// Levels 0 to 15 times a scale, plus a least value, both in half precision: 5 bits.
fn scale_and_least(weights: &[f32]) -> Vec<f32> {
    best(
        weights,
        ranges(weights).map(|(scale, least)| with_least(weights, rounded(scale), rounded(least))),
    )
}

/// The same with 6 bits for each scale and least value, relative to those of a group in half precision: 4.5 bits.
fn nested(group: &[f32]) -> Vec<f32> {
    let found: Vec<(f32, f32)> = group
        .chunks(BLOCK)
        .map(|weights| {
            let of = |&(scale, least): &(f32, f32)| error(weights, &with_least(weights, scale, least));
            ranges(weights)
                .min_by(|a, b| of(a).total_cmp(&of(b)))
                .expect("candidates")
        })
        .collect();
    let scale = rounded(found.iter().map(|f| f.0).fold(0.0, f32::max) / 63.0);
    let least = rounded(found.iter().map(|f| -f.1).fold(0.0, f32::max) / 63.0);
    let near = |x: f32, unit: f32| {
        let level = if unit == 0.0 { 0.0 } else { (x / unit).round() };
        [-1.0, 0.0, 1.0].map(|step| (level + step).clamp(0.0, 63.0) * unit)
    };
    let blocks = group.chunks(BLOCK).zip(&found).map(|(weights, &(s, l))| {
        let pairs = near(s, scale)
            .into_iter()
            .flat_map(|s| near(-l, least).map(|l| (s, -l)));
        best(weights, pairs.map(|(s, l)| with_least(weights, s, l)))
    });
    blocks.flatten().collect()
}

fn by_core(storage: Storage, group: &[f32]) -> Vec<f32> {
    let mut bytes = vec![0; storage.row_bytes(GROUP).expect("a whole group")];
    encode_row(storage, group, None, &mut bytes).expect("finite weights");
    let mut out = vec![0.0; GROUP];
    Matrix::new(&bytes, 1, GROUP, storage)
        .expect("one row")
        .widen_row(0, &mut out);
    out
}

fn in_blocks(group: &[f32], form: fn(&[f32]) -> Vec<f32>) -> Vec<f32> {
    group.chunks(BLOCK).flat_map(form).collect()
}

/// The small model's matrices, one behind the other.
fn small_model() -> Vec<f32> {
    let file = |name: &str| std::fs::read(nano_dir().join(name)).expect(name);
    let params = Params::parse(&file("params.json")).expect("params.json");
    let tensors = safetensors::read(&file("consolidated.safetensors"));
    let roles = Role::all(&params).filter(|role| role.takes_blocks());
    roles
        .flat_map(|role| tensors[&role.to_string()].values())
        .map(|w| w as f32)
        .collect()
}

/// From a group to what its encoding decodes to.
type Form = fn(&[f32]) -> Vec<f32>;

fn main() {
    let mut state = 1u64;
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32 + 0.5) / (1u64 << 24) as f32
    };
    let count = 2000 * GROUP;
    let normal: Vec<f32> = (0..count)
        .map(|_| (-2.0 * uniform().ln()).sqrt() * (std::f32::consts::TAU * uniform()).cos())
        .collect();
    let laplace: Vec<f32> = (0..count)
        .map(|_| uniform().ln() * if uniform() < 0.5 { 1.0 } else { -1.0 })
        .collect();
    let small = small_model();
    let sets = [("normal", normal), ("Laplace", laplace), ("small model", small)];
    let forms: [(&str, f64, Form); 5] = [
        ("levels -8..7 and a scale per 32", 4.5, |g| in_blocks(g, symmetric)),
        ("levels 0..15, scale and least per 32", 5.0, |g| {
            in_blocks(g, scale_and_least)
        }),
        ("the same, of 6 bits, in groups of 256", 4.5, nested),
        ("Q4: a table of levels, a scale per 32", 4.5, |g| {
            by_core(Storage::Q4, g)
        }),
        ("Q8", 8.5, |g| by_core(Storage::Q8, g)),
    ];
    println!(
        "{:<40} {:>5} {:>10} {:>10} {:>12}",
        "relative rms error", "bits", sets[0].0, sets[1].0, sets[2].0
    );
    for (name, bits, form) in forms {
        print!("{name:<40} {bits:5.1}");
        for (width, (_, weights)) in [10, 10, 12].into_iter().zip(&sets) {
            let groups = weights.chunks_exact(GROUP);
            let squares: f64 = weights.iter().map(|w| f64::from(*w).powi(2)).sum();
            let errors: f64 = groups.map(|group| error(group, &form(group))).sum();
            print!(" {:width$.5}", (errors / squares).sqrt());
        }
        println!();
    }
}
