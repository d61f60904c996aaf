//! What follows from the measurements: how columns and caches add to a step, and where the encoder's time goes.

use std::collections::HashMap;

use voxtral_core::format::params::Params;

use super::operations::CHUNKS;
use super::whole::Parts;
use super::{Measured, Told};

/// One such number.
#[derive(Clone, Debug)]
pub(crate) struct Derived {
    /// What it is.
    pub(crate) name: String,
    /// A ratio; a share is one, too.
    pub(crate) value: f64,
}

/// Everything whose measurements are there.
pub(super) fn derive(params: &Params, measured: &[Measured], passes: &[(usize, Parts)]) -> Vec<Derived> {
    let told = measured
        .iter()
        .filter_map(|measured| Some((measured.name.as_str(), measured.told?)))
        .collect();
    let times = Times { params, told };
    let mut derived = times.columns();
    derived.extend(times.fills(measured));
    derived.extend(times.copied());
    derived.extend(times.encoder(passes));
    derived
}

struct Times<'a> {
    params: &'a Params,
    /// Measurements by name.
    told: HashMap<&'a str, Told>,
}

impl Times<'_> {
    /// Median of the seconds.
    fn get(&self, name: &str) -> Option<f64> {
        self.told.get(name).map(|told| told.seconds.median)
    }

    /// All products of one decoder pass, with the head.
    fn decoder_products(&self, columns: usize) -> Option<f64> {
        let plural = if columns == 1 { "" } else { "s" };
        let of = |name| self.get(&format!("decoder {name}, {columns} column{plural}"));
        // wv has the shape of wk, and w3 that of w1.
        let layer = of("wq")? + 2.0 * of("wk")? + of("wo")? + 2.0 * of("w1")? + of("w2")?;
        Some(self.params.decoder.n_layers as f64 * layer + of("head")?)
    }

    fn columns(&self) -> Vec<Derived> {
        let ratio = |columns| {
            Some(Derived {
                name: format!("decoder products, {columns} columns in one pass over 1"),
                value: self.decoder_products(columns)? / self.decoder_products(1)?,
            })
        };
        [2, 4, 8].into_iter().filter_map(ratio).collect()
    }

    fn fills(&self, measured: &[Measured]) -> Vec<Derived> {
        let ratio = |step: &Measured| {
            let rest = step.name.strip_prefix("decode step, ")?;
            let (fill, cache) = rest.split_once(" cached, ")?;
            let empty = self.get(&format!("decode step, 0 cached, {cache}"))?;
            (fill != "0").then_some(())?;
            Some(Derived {
                name: format!("decode step, {fill} cached over 0, {cache}"),
                value: self.get(&step.name)? / empty,
            })
        };
        measured.iter().filter_map(ratio).collect()
    }

    /// Beside the limit, because the two were not measured at the same time.
    fn copied(&self) -> Option<Derived> {
        let fraction = |name| self.told.get(name).map(|told| told.fraction.median);
        Some(Derived {
            name: "decoder w1, speed from the mapped file over that from a copy".into(),
            value: fraction("decoder w1, 1 column")? / fraction("decoder w1 copied to memory, 1 column")?,
        })
    }

    /// Shares of a pass over the usual chunk. Stages are measured in the pass itself; what is in the layers is added up
    /// from single operations, as shares of the layers' time.
    fn encoder(&self, passes: &[(usize, Parts)]) -> Vec<Derived> {
        let positions = CHUNKS[0];
        let of_chunk: Vec<_> = passes
            .iter()
            .filter(|pass| pass.0 == positions)
            .map(|pass| pass.1)
            .collect();
        let share = |part: fn(&Parts) -> f64| {
            let shares = of_chunk.iter().map(|parts| part(parts) / parts.all().as_secs_f64());
            super::Spread::of(shares).map(|spread| spread.median)
        };
        let mut derived = vec![];
        let mut tell = |name: &str, value: Option<f64>| {
            let named = |value| Derived {
                name: format!("encoder, share of {name}"),
                value,
            };
            derived.extend(value.map(named));
        };
        let stem = share(|parts| parts.stem.as_secs_f64());
        let layers = share(|parts| parts.layers.as_secs_f64());
        tell("mel", share(|parts| parts.mel.as_secs_f64()));
        tell("convolution stem", stem);
        tell("layers", layers);
        tell("adapter", share(|parts| parts.adapter.as_secs_f64()));
        if let (Some(stem), Some(layers), Some([products, attention, elements])) = (stem, layers, self.encoder_layer())
        {
            let in_layers = layers / (products + attention + elements);
            tell("layers' products", Some(in_layers * products));
            tell("layers' attention", Some(in_layers * attention));
            tell("layers' norms, rotations and activations", Some(in_layers * elements));
            let beside = stem + in_layers * (attention + elements);
            tell("stem, attention, norms and activations together", Some(beside));
        }
        derived
    }

    /// Products, attention, and operations by element of one layer.
    fn encoder_layer(&self) -> Option<[f64; 3]> {
        let frames = CHUNKS[0] * self.params.downsample_factor;
        let of = |name| self.get(&format!("encoder {name}, {frames} columns"));
        let products = of("wq")? + 2.0 * of("wk")? + of("wo")? + 2.0 * of("w1")? + of("w2")?;
        let attention = self.get(&format!("encoder attention, {frames} frames, f32"))?;
        let e = &self.params.encoder;
        // Of queries and of keys.
        let rotations = self.get("encoder rope")? * (1.0 + e.n_kv_heads as f64 / e.n_heads as f64);
        let elements = 2.0 * self.get("encoder rms_norm")? + rotations + self.get("encoder silu_mul")?;
        Some([products, attention, elements])
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Spread;
    use super::super::limits::Resource;
    use super::*;
    use crate::Model;

    fn measured(name: &str, seconds: f64) -> Measured {
        let spread = |median| Spread {
            min: median,
            median,
            max: median,
        };
        Measured {
            name: name.into(),
            resource: Resource::Memory,
            told: Some(Told {
                seconds: spread(seconds),
                rate: spread(1.0),
                limit: spread(1.0),
                fraction: spread(1.0 / seconds),
            }),
            windows: 1,
            discarded: 0,
        }
    }

    fn value(derived: &[Derived], name: &str) -> f64 {
        let found = derived.iter().find(|derived| derived.name == name);
        found.unwrap_or_else(|| panic!("{name} is not in {derived:?}")).value
    }

    #[test]
    fn ratios_and_shares_are_those_of_the_medians() {
        let model = Model::embedded().unwrap();
        let mut params = *model.params();
        params.decoder.n_layers = 10;
        let mut all = vec![];
        for (columns, time) in [("1 column", 1.0), ("4 columns", 1.5)] {
            for name in ["wq", "wk", "wo", "w1", "w2"] {
                all.push(measured(&format!("decoder {name}, {columns}"), time));
            }
        }
        all.push(measured("decoder head, 1 column", 30.0));
        all.push(measured("decoder head, 4 columns", 55.0));
        all.push(measured("decoder w1 copied to memory, 1 column", 0.75));
        all.push(measured("decode step, 0 cached, bf16", 2.0));
        all.push(measured("decode step, 96 cached, bf16", 3.0));
        let derived = derive(&params, &all, &[]);
        // (10 * 7 * 1.5 + 55) / (10 * 7 + 30)
        assert_eq!(value(&derived, "decoder products, 4 columns in one pass over 1"), 1.6);
        assert_eq!(value(&derived, "decode step, 96 cached over 0, bf16"), 1.5);
        assert_eq!(
            value(&derived, "decoder w1, speed from the mapped file over that from a copy"),
            0.75
        );
        assert_eq!(derived.len(), 3, "{derived:?}");

        for name in ["wq", "wk", "wo", "w1", "w2"] {
            all.push(measured(&format!("encoder {name}, 100 columns"), 1.0));
        }
        all.push(measured("encoder attention, 100 frames, f32", 2.0));
        let of_one_head = params.encoder.n_kv_heads as f64 / params.encoder.n_heads as f64;
        all.push(measured("encoder rope", 0.2 / (1.0 + of_one_head)));
        all.push(measured("encoder rms_norm", 0.25));
        all.push(measured("encoder silu_mul", 0.3));
        let ms = Duration::from_millis;
        let parts = Parts {
            mel: ms(5),
            stem: ms(10),
            layers: ms(80),
            adapter: ms(5),
        };
        let other = Parts { mel: ms(1000), ..parts };
        let derived = derive(&params, &all, &[(75, other), (25, parts)]);
        let share = |name: &str| value(&derived, &format!("encoder, share of {name}"));
        assert!((share("mel") - 0.05).abs() < 1e-9);
        assert!((share("layers") - 0.8).abs() < 1e-9);
        // Of 10 units in the layers 7 are products.
        assert!((share("layers' products") - 0.56).abs() < 1e-9);
        assert!((share("stem, attention, norms and activations together") - 0.34).abs() < 1e-9);
    }
}
