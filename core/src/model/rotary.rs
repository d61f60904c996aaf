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

    /// cos and sin of the position and of a thousandth of it, in radians: with theta 1e6 and a width of 4 the
    /// frequencies are 1 and 1/1000. From decimal arithmetic with 60 digits, rounded to 9.
    const EXACT: [(u64, [f64; 4]); 4] = [
        (0, [1.0, 0.0, 1.0, 0.0]),
        (1_003, [-0.673_440_313, -0.739_241_601, 0.537_775_465, 0.843_088_103]),
        (1_000_003, [-0.877_986_492, 0.478_685_409, 0.559_895_911, 0.828_562_954]),
        (
            100_000_007,
            [-0.886_031_194, 0.463_625_629, -0.999_586_563, 0.028_752_454],
        ),
    ];

    /// The length of the audio costs no accuracy: 100 000 000 encoder frames are 23 days.
    #[test]
    fn far_positions_are_as_exact_as_near_ones() {
        for (position, exact) in EXACT {
            let mut row = [f32::NAN; 4];
            rotations(1e6, 4, position, &mut row);
            for (value, exact) in row.into_iter().zip(exact) {
                let off = (f64::from(value) - exact).abs();
                assert!(off < 1e-7, "position {position}: {value} is off by {off:e}");
            }
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
