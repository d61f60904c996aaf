//! How many positions to decode in one pass: as many as pay, by what passes cost here and how far guesses were right.

use std::time::Duration;

use voxtral_core::layout::MAX_BATCH;

/// What a new measurement counts against all before. A pass that took long was perhaps disturbed by other work of the
/// machine, one that took less was not.
const WEIGHT: f64 = 1.0 / 8.0;
const WEIGHT_OF_LONGER: f64 = 1.0 / 32.0;
const WEIGHT_OF_SHORTER: f64 = 1.0 / 2.0;
/// These widths are tried before any other: what others cost is then known roughly.
const FIRST: [usize; 3] = [1, 4, MAX_BATCH];
/// Every so many passes the width is tried that was not for the longest time, so that what was found out long ago, or
/// in a disturbed pass, is not believed for ever.
const TRIAL: u64 = 16;
/// What a position adds to the cost of a pass of one, and how often a guess is right, before more was measured.
const EXPECTED_COST: f64 = 0.2;
const EXPECTED_RIGHT: f64 = 0.8;

/// The width of the next pass. It decides about time only: results are equal for all.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// Seconds of a pass by its width less one.
    cost: [Option<f64>; MAX_BATCH],
    /// How often a pass brought more positions than so many.
    reached: [f64; MAX_BATCH],
    passes: u64,
    /// Passes before the last one by its width less one.
    tried: [u64; MAX_BATCH],
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            cost: [None; MAX_BATCH],
            reached: std::array::from_fn(|i| EXPECTED_RIGHT.powi(i as i32)),
            passes: 0,
            tried: [0; MAX_BATCH],
        }
    }
}

impl Pace {
    /// Takes a pass that was `width` wide and of which `counted` positions counted.
    pub(crate) fn learn(&mut self, width: usize, counted: usize, time: Duration) {
        let width = width.clamp(1, MAX_BATCH);
        let seconds = time.as_secs_f64();
        let cost = &mut self.cost[width - 1];
        *cost = Some(cost.map_or(seconds, |cost| {
            let weight = if seconds > cost {
                WEIGHT_OF_LONGER
            } else {
                WEIGHT_OF_SHORTER
            };
            cost + weight * (seconds - cost)
        }));
        for (i, reached) in self.reached.iter_mut().enumerate().take(width) {
            let now = if counted > i { 1.0 } else { 0.0 };
            *reached += WEIGHT * (now - *reached);
        }
        self.passes += 1;
        self.tried[width - 1] = self.passes;
    }

    /// The width that brings most positions for its time.
    pub(crate) fn width(&self) -> usize {
        if let Some(width) = FIRST.into_iter().find(|width| self.cost[width - 1].is_none()) {
            return width;
        }
        if self.passes % TRIAL == TRIAL - 1 {
            let longest = (1..=MAX_BATCH).min_by_key(|width| self.tried[width - 1]);
            return longest.unwrap_or(1);
        }
        let mut positions = 0.0;
        let rates = self.reached.iter().enumerate().map(|(i, reached)| {
            positions += reached;
            positions / self.expected_cost(i)
        });
        let best = rates.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        best.map_or(1, |(i, _)| i + 1)
    }

    /// The cost of a pass by its width less one, in seconds. What was not measured lies on the line through the two
    /// nearest that were, one on each side if there is one.
    fn expected_cost(&self, i: usize) -> f64 {
        if let Some(cost) = self.cost[i] {
            return cost;
        }
        let measured = |j: usize| Some((j as f64, self.cost[j]?));
        let mut narrower = (0..i).rev().filter_map(measured);
        let mut wider = (i + 1..MAX_BATCH).filter_map(measured);
        let (near, far) = (narrower.next(), wider.next().or_else(|| narrower.next()));
        let Some((x, cost)) = near else { return f64::INFINITY };
        let slope = match far {
            Some((far, other)) => ((other - cost) / (far - x)).max(0.0),
            None => EXPECTED_COST * cost,
        };
        cost + slope * (i as f64 - x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds passes of an engine whose guesses are right `right` of 16 times and whose positions cost `each` of a pass.
    fn settled(right: u64, each: f64) -> usize {
        let mut pace = Pace::default();
        let mut dice = 1u64;
        for _ in 0..2000 {
            let width = pace.width();
            let mut counted = 1;
            while counted < width {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if dice >> 60 >= right {
                    break;
                }
                counted += 1;
            }
            let time = 1e-2 * (1.0 + each * (width - 1) as f64);
            pace.learn(width, counted, Duration::from_secs_f64(time));
        }
        pace.width()
    }

    #[test]
    fn wide_where_guesses_are_right_and_positions_cost_little() {
        assert_eq!(settled(16, 0.05), MAX_BATCH);
        assert_eq!(settled(0, 0.05), 1);
        // Nothing is won by a second position that costs a pass of its own.
        assert_eq!(settled(15, 1.0), 1);
        let between = settled(12, 0.15);
        assert!((2..MAX_BATCH).contains(&between), "{between}");
    }
}
