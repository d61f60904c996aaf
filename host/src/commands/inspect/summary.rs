//! Sizes and counts.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use voxtral_core::format::json::Str;
use voxtral_core::format::safetensors::{Blocks, Tensor};

use super::list::{Name, file_json, header_bytes};
use super::{Inspect, stored};
use crate::weights::WeightsFile;

/// Most groups that are told apart, so that memory stays small whatever the names are.
const MOST_GROUPS: usize = 1000;

/// Most characters of a metadata value that are shown.
const SHOWN_CHARS: usize = 100;

/// Tensors counted.
#[derive(Clone, Copy, Default)]
struct Totals {
    tensors: u64,
    elements: u64,
    bytes: u64,
}

impl Totals {
    fn add(&mut self, tensor: &Tensor<'_>) {
        let range = tensor.range();
        self.tensors += 1;
        // Elements of 4 bits are more than bytes of a file, so only the sum of these may be too much.
        self.elements = self.elements.saturating_add(stored::elements(tensor));
        self.bytes += range.end - range.start;
    }
}

/// The group of a tensor: its name up to the number of its layer, or up to its last part (`weight`, `bias`).
fn group<'a>(name: &Str<'a>) -> Str<'a> {
    let raw = name.raw();
    let parts = raw.split(|&byte| byte == b'.');
    let number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let mut end = None;
    let mut at = 0;
    for part in parts {
        if at > 0 {
            end = Some(at - 1);
            if number(part) {
                break;
            }
        }
        at += part.len() + 1;
    }
    end.and_then(|end| raw.get(..end)).map_or(*name, Str::from_raw)
}

/// Prints the summary.
pub(super) fn run(args: &Inspect, files: &[WeightsFile], out: &mut dyn Write) -> io::Result<()> {
    let mut all = Totals::default();
    let mut groups: BTreeMap<Str<'_>, Totals> = BTreeMap::new();
    let mut others = Totals::default();
    let mut dtypes: BTreeMap<String, Totals> = BTreeMap::new();
    for file in files {
        for tensor in file.header().iter().filter(|tensor| args.wants(tensor)) {
            let group = group(&tensor.name());
            all.add(&tensor);
            let dtype = match stored::blocks(&tensor) {
                Some(blocks) => blocks.label.to_string(),
                None => tensor.dtype().name().into(),
            };
            // Labels are the file's, and may be any number.
            let told_apart = dtypes.len() < MOST_GROUPS || dtypes.contains_key(&dtype);
            let dtype = if told_apart {
                dtype
            } else {
                tensor.dtype().name().into()
            };
            dtypes.entry(dtype).or_default().add(&tensor);
            if groups.len() < MOST_GROUPS || groups.contains_key(&group) {
                groups.entry(group).or_default().add(&tensor);
            } else {
                others.add(&tensor);
            }
        }
    }
    if args.json {
        let totals = |key: &str, name: String, totals: &Totals| json!({key: name, "tensors": totals.tensors, "elements": totals.elements, "bytes": totals.bytes});
        let groups = groups
            .iter()
            .map(|(name, group)| totals("prefix", name.to_string(), group));
        let dtypes = dtypes
            .iter()
            .map(|(name, dtype)| totals("dtype", name.to_string(), dtype));
        let value = json!({
            "files": files.iter().map(|file| Value::Object(file_json(file))).collect::<Vec<_>>(),
            "tensors": all.tensors,
            "elements": all.elements,
            "bytes": all.bytes,
            "groups": groups.collect::<Vec<_>>(),
            "in_other_groups": others.tensors,
            "dtypes": dtypes.collect::<Vec<_>>(),
        });
        return writeln!(out, "{value}");
    }

    for file in files {
        let header = file.header();
        writeln!(out, "{}", file.path().display())?;
        writeln!(out, "  file      {:>13} bytes ({})", file.len(), binary(file.len()))?;
        writeln!(out, "  header    {:>13} bytes", header_bytes(file))?;
        writeln!(out, "  tensors   {:>13}", header.len())?;
        let told_with_tensors = |key: &Str<'_>| Blocks::KEY.chars().eq(key.chars().take(Blocks::KEY.len()));
        for (key, value) in header.metadata().filter(|(key, _)| !told_with_tensors(key)) {
            let mut shown = value.chars();
            let line: String = shown.by_ref().take(SHOWN_CHARS).collect();
            let line = line.escape_debug();
            match shown.count() {
                0 => writeln!(out, "  metadata  {}: \"{line}\"", Name(key))?,
                more => writeln!(
                    out,
                    "  metadata  {}: \"{line}…\" (and {more} characters more)",
                    Name(key)
                )?,
            }
        }
    }
    let row = |out: &mut dyn Write, totals: &Totals, name: &str| {
        let Totals {
            tensors,
            elements,
            bytes,
        } = totals;
        writeln!(out, "{tensors:>8}  {elements:>14}  {bytes:>14}  {name}")
    };
    writeln!(out, "\n{:>8}  {:>14}  {:>14}  group", "tensors", "elements", "bytes")?;
    for (name, totals) in &groups {
        // A group ends before a point that it does not show.
        let name = Name(*name).to_string();
        row(out, totals, &name)?;
    }
    if others.tensors > 0 {
        row(out, &others, "(in more groups than are told apart)")?;
    }
    writeln!(out, "\n{:>8}  {:>14}  {:>14}  dtype", "tensors", "elements", "bytes")?;
    for (name, totals) in &dtypes {
        row(out, totals, name)?;
    }
    row(out, &all, "all")
}

/// A size for people.
fn binary(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = (bytes.max(1).ilog2() / 10) as usize;
    let value = bytes as f64 / (1u64 << (10 * unit)) as f64;
    format!("{value:.*} {}", if unit == 0 { 0 } else { 2 }, units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_grouped_up_to_a_number_or_their_last_part() {
        for (name, expected) in [
            ("layers.10.attention.wq.weight", "layers"),
            ("a.transformer.layers.3.w1.weight", "a.transformer.layers"),
            ("a.transformer.norm.weight", "a.transformer.norm"),
            ("norm.weight", "norm"),
            ("weight", "weight"),
            ("", ""),
            (".", ""),
            ("0.weight", "0"),
            ("h.0", "h"),
            ("a..b", "a."),
        ] {
            assert_eq!(group(&Str::from_raw(name.as_bytes())), *expected, "{name}");
        }
    }
}
