//! How likely a token was, and what it might have been instead.

/// Most other tokens that are told of one.
pub const ALTERNATIVES: usize = 2;

/// A token that might have been decided.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Candidate {
    /// Its id.
    pub id: u32,
    /// Its probability among all ids.
    pub probability: f32,
}

/// The probability of `chosen`, and the likeliest other ids with text (`n_special` and above), the likeliest first;
/// those that do not exist have no probability.
pub(crate) fn nearest(logits: &[f32], chosen: u32, n_special: u32) -> (f32, [Candidate; ALTERNATIVES]) {
    let best = logits.get(chosen as usize).copied().unwrap_or(0.0);
    // The chosen one is the largest: no overflow, and its own term is 1.
    let odds = |logit: f32| libm::exp(f64::from(logit) - f64::from(best));
    let sum: f64 = logits.iter().map(|&logit| odds(logit)).sum();
    let probability = 1.0 / sum.max(1.0);
    let mut others = [Candidate::default(); ALTERNATIVES];
    for (id, &logit) in (0u32..).zip(logits).skip(n_special as usize) {
        let mut next = Candidate {
            id,
            probability: (odds(logit) * probability) as f32,
        };
        if id == chosen || others.iter().all(|other| other.probability >= next.probability) {
            continue;
        }
        for place in &mut others {
            if next.probability > place.probability {
                core::mem::swap(place, &mut next);
            }
        }
    }
    (probability as f32, others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_come_first_and_control_tokens_do_not() {
        let (probability, others) = nearest(&[9.0, 1.0, 3.0, 2.0, 0.0], 0, 1);
        assert_eq!(others.map(|other| other.id), [2, 3]);
        assert!(probability > 0.99 && others[0].probability > others[1].probability);
        let (probability, others) = nearest(&[0.0, 0.0], 1, 1);
        assert_eq!((probability, others), (0.5, Default::default()));
    }
}
