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

#[cfg(test)]
mod tests {
    use super::*;

    /// One pair of frequency 1, so that the angle is the position: cos and sin from a table of radians.
    const FAR: [(u64, f64, f64); 4] = [
        (0, 1.0, 0.0),
        (1_000, 0.562_379_076_290_702_9, 0.826_879_540_532_002_6),
        (1_000_000, 0.936_752_127_533_144_7, -0.349_993_502_171_292_94),
        (100_000_000, -0.363_385_089_355_690_5, 0.931_639_027_109_726),
    ];

    /// The length of the audio costs no accuracy: 100 000 000 encoder frames are 23 days.
    #[test]
    fn far_positions_are_as_exact_as_near_ones() {
        for (position, cos, sin) in FAR {
            let mut row = [f32::NAN; 2];
            rotations(1e6, 2, position, &mut row);
            let worst = (f64::from(row[0]) - cos).abs().max((f64::from(row[1]) - sin).abs());
            assert!(worst < 1e-7, "position {position}: off by {worst:e}");
        }
    }

    /// However a run of positions is cut, the bits are the same.
    #[test]
    fn a_run_equals_its_parts() {
        let mut run = [0.0; 20 * 8];
        rotations(1e6, 8, 3_000, &mut run);
        for (row, position) in run.chunks_exact(8).zip(3_000..) {
            let mut alone = [0.0; 8];
            rotations(1e6, 8, position, &mut alone);
            assert_eq!(row, alone, "position {position}: depends on the run");
        }
    }
}
