//! The values of one tensor, read through the mapping from one end to the other.

use std::io::{self, Write};

use serde_json::json;
use voxtral_core::model::blocks_label;

use super::list::Name;
use super::{Inspect, stored};
use crate::error::Error;
use crate::weights::WeightsFile;

/// Bars of the histogram.
const BARS: usize = 16;

/// Characters of the longest bar.
const WIDTH: u64 = 50;

/// What is told of a tensor's values. NaN and infinities are counted and left out of the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Stats {
    elements: u64,
    nan: u64,
    positive_infinite: u64,
    negative_infinite: u64,
    zeros: u64,
    finite: u64,
    min: f32,
    max: f32,
    mean: f64,
    rms: f64,
    /// Finite values from `min` to `max` in steps of equal size; a value on an edge is in the upper one.
    histogram: [u64; BARS],
}

impl Stats {
    /// Reads all values twice: the bars lie between the extremes.
    fn of(values: impl Iterator<Item = f32> + Clone) -> Self {
        let mut stats = Stats {
            min: f32::INFINITY,
            max: f32::NEG_INFINITY,
            ..Self::default()
        };
        // Squares of f32 fit f64 with room for the sum of as many as there can be.
        let (mut sum, mut squares) = (0.0, 0.0);
        for value in values.clone() {
            stats.elements += 1;
            if value.is_nan() {
                stats.nan += 1;
            } else if value == f32::INFINITY {
                stats.positive_infinite += 1;
            } else if value == f32::NEG_INFINITY {
                stats.negative_infinite += 1;
            } else {
                stats.finite += 1;
                stats.zeros += u64::from(value == 0.0);
                stats.min = stats.min.min(value);
                stats.max = stats.max.max(value);
                sum += f64::from(value);
                squares += f64::from(value) * f64::from(value);
            }
        }
        if stats.finite == 0 {
            return Stats {
                min: f32::NAN,
                max: f32::NAN,
                mean: f64::NAN,
                rms: f64::NAN,
                ..stats
            };
        }
        stats.mean = sum / stats.finite as f64;
        stats.rms = (squares / stats.finite as f64).sqrt();
        let scale = BARS as f64 / (f64::from(stats.max) - f64::from(stats.min));
        if scale.is_finite() {
            for value in values.filter(|value| value.is_finite()) {
                let bar = (f64::from(value) - f64::from(stats.min)) * scale;
                stats.histogram[(bar as usize).min(BARS - 1)] += 1;
            }
        } else {
            // All values are one.
            stats.histogram[0] = stats.finite;
        }
        stats
    }

    /// Where a bar begins; that of one bar too many is the end.
    fn edge(&self, bar: usize) -> f64 {
        let (min, max) = (f64::from(self.min), f64::from(self.max));
        min + (max - min) * bar as f64 / BARS as f64
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "  elements  {}", self.elements)?;
        writeln!(out, "  min       {}", self.min)?;
        writeln!(out, "  max       {}", self.max)?;
        writeln!(out, "  mean      {:.6e}", self.mean)?;
        writeln!(out, "  rms       {:.6e}", self.rms)?;
        writeln!(out, "  zero      {}", self.zeros)?;
        writeln!(out, "  NaN       {}", self.nan)?;
        writeln!(
            out,
            "  infinite  {} +, {} -",
            self.positive_infinite, self.negative_infinite
        )?;
        let most = self.histogram.iter().copied().max().unwrap_or(0);
        if most == 0 || self.min == self.max {
            return Ok(());
        }
        writeln!(out)?;
        for (bar, &count) in self.histogram.iter().enumerate() {
            let (from, to) = (self.edge(bar), self.edge(bar + 1));
            // At least one mark for any value at all.
            let length = (u128::from(count) * u128::from(WIDTH)).div_ceil(u128::from(most)) as usize;
            writeln!(
                out,
                "  {from:>12.4e} … {to:>11.4e}  {count:>12}  {}",
                "#".repeat(length)
            )?;
        }
        Ok(())
    }
}

/// Prints the statistics of the tensor of that name.
pub(super) fn run(args: &Inspect, files: &[WeightsFile], name: &str, out: &mut dyn Write) -> Result<(), Error> {
    let found = files.iter().find_map(|file| Some((file, file.header().get(name)?)));
    let Some((file, tensor)) = found else {
        return Err(Error::NoTensor {
            path: args.path.clone(),
            name: name.into(),
        });
    };
    let (stats, storage, shape) = match stored::matrix(file, &tensor)? {
        Some(matrix) => {
            let label = blocks_label(matrix.storage()).unwrap_or_default();
            let shape = vec![matrix.rows() as u64, matrix.cols() as u64];
            (Stats::of(stored::values(matrix)), label, shape)
        }
        None => {
            let values = tensor.values().map_err(|source| file.refusal(source))?;
            (Stats::of(values), tensor.dtype().name(), tensor.shape().collect())
        }
    };
    let print = |out: &mut dyn Write| {
        if !args.json {
            writeln!(out, "{}  {storage}  {shape:?}", Name(tensor.name()))?;
            return stats.print(out);
        }
        // What is not finite has no number in JSON and becomes null.
        let value = json!({
            "name": name,
            "dtype": storage,
            "shape": shape,
            "elements": stats.elements,
            "min": f64::from(stats.min),
            "max": f64::from(stats.max),
            "mean": stats.mean,
            "rms": stats.rms,
            "zero": stats.zeros,
            "nan": stats.nan,
            "positive_infinite": stats.positive_infinite,
            "negative_infinite": stats.negative_infinite,
            "histogram": stats.histogram,
        });
        writeln!(out, "{value}")
    };
    print(out).map_err(Error::Output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_not_numbers_are_counted_and_left_out() {
        let values = [
            1.0,
            f32::NAN,
            -3.0,
            f32::INFINITY,
            0.0,
            -0.0,
            f32::NEG_INFINITY,
            f32::INFINITY,
        ];
        let stats = Stats::of(values.into_iter());
        assert_eq!((stats.elements, stats.finite, stats.zeros), (8, 4, 2));
        assert_eq!((stats.nan, stats.positive_infinite, stats.negative_infinite), (1, 2, 1));
        assert_eq!((stats.min, stats.max, stats.mean), (-3.0, 1.0, -0.5));
        assert_eq!(stats.rms, 2.5f64.sqrt());
        // Steps of a quarter: -3, 0 twice, 1 at the end.
        let mut expected = [0; BARS];
        (expected[0], expected[12], expected[15]) = (1, 2, 1);
        assert_eq!(stats.histogram, expected);
    }

    #[test]
    fn nothing_and_all_the_same_have_statistics() {
        let none = Stats::of([f32::NAN].into_iter());
        assert!(none.min.is_nan() && none.mean.is_nan() && none.rms.is_nan());
        assert_eq!(none.histogram, [0; BARS]);
        let same = Stats::of([2.0; 5].into_iter());
        assert_eq!((same.min, same.max, same.mean, same.rms), (2.0, 2.0, 2.0, 2.0));
        assert_eq!(same.histogram[0], 5);
    }

    /// The extremes of f32 do not overflow.
    #[test]
    fn the_largest_values_have_statistics() {
        let stats = Stats::of([f32::MAX, f32::MIN, 0.0].into_iter());
        assert_eq!(stats.mean, 0.0);
        assert!(stats.rms.is_finite());
        assert_eq!((stats.histogram[0], stats.histogram[8], stats.histogram[15]), (1, 1, 1));
    }
}
