//! Rotary position embedding: the rotations of a run of positions.

/// Fills `rotations`, `[n][head_dim / 2]` of (cos, sin), for the positions `first..first + n`.
///
/// Pair `j` turns by `position * theta^(-2j / head_dim)`. Angles are computed in f64 from the position itself: in
/// f32, or as a growing product, they would drift with the length of the audio.
pub(super) fn rotations(theta: f64, head_dim: usize, first: u64, rotations: &mut [f32]) {
    for j in 0..head_dim / 2 {
        let frequency = libm::pow(theta, -2.0 * j as f64 / head_dim as f64);
        for (row, position) in rotations.chunks_exact_mut(head_dim).zip(first..) {
            let (sin, cos) = libm::sincos(position as f64 * frequency);
            row[2 * j] = cos as f32;
            row[2 * j + 1] = sin as f32;
        }
    }
}
