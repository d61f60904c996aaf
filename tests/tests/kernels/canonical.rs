//! The canonical order, written once more from its description.

use voxtral_core::kernels::Class;

pub fn mac(class: Class, a: f32, b: f32, acc: f32) -> f32 {
    match class {
        Class::Fused => a.mul_add(b, acc),
        Class::Separate => acc + a * b,
    }
}

pub fn tree(l: [f32; 8]) -> f32 {
    ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

pub fn canonical_dot(class: Class, a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 8];
    for k in 0..a.len() {
        lanes[k % 8] = mac(class, a[k], b[k], lanes[k % 8]);
    }
    tree(lanes)
}

/// Attention of one query over all keys and values of its head since position 0, each a row and what it is multiplied
/// by, as documented.
pub fn canonical_attention(
    class: Class,
    q: &[f32],
    keys: &[(Vec<f32>, f32)],
    values: &[(Vec<f32>, f32)],
    visible: std::ops::RangeInclusive<usize>,
) -> Vec<f32> {
    let scale = 1.0 / libm::sqrtf(q.len() as f32);
    let (mut m, mut l, mut o) = (f32::NEG_INFINITY, 0.0f32, vec![0.0f32; q.len()]);
    for block in visible.start() / 64..=visible.end() / 64 {
        let places: Vec<usize> = (64 * block..64 * block + 64).filter(|j| visible.contains(j)).collect();
        let scores: Vec<f32> = places
            .iter()
            .map(|&j| canonical_dot(class, q, &keys[j].0) * keys[j].1 * scale)
            .collect();
        let m_new = scores.iter().fold(m, |a, &b| a.max(b));
        let shrink = voxtral_core::kernels::exp(m - m_new);
        m = m_new;
        let mut lanes = [0.0f32; 8];
        o.iter_mut().for_each(|o| *o *= shrink);
        for (&j, s) in places.iter().zip(scores) {
            let p = voxtral_core::kernels::exp(s - m);
            lanes[j % 8] += p;
            let p = p * values[j].1;
            for (o, &v) in o.iter_mut().zip(&values[j].0) {
                *o = mac(class, p, v, *o);
            }
        }
        l = l * shrink + tree(lanes);
    }
    o.iter().map(|o| o / l).collect()
}

pub fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}
