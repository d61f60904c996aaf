//! Every tensor: as a table for people, as JSON for programs.

use std::fmt::{self, Write as _};
use std::io::{self, Write};

use serde_json::{Map, Value, json};
use voxtral_core::format::json::Str;
use voxtral_core::format::safetensors::Tensor;

use super::{Inspect, stored};
use crate::weights::WeightsFile;

/// A column is no wider than this for the sake of one long entry; nothing is cut.
const WIDEST: usize = 80;

/// Headings of the table.
const HEADINGS: [&str; 6] = ["name", "dtype", "shape", "elements", "bytes", "offset"];

/// Heading of what is added where weights are in blocks.
const BITS: &str = "bits/weight";

/// A name from a file, safe to print anywhere: as it is if it is plain, else in quotes with what does not show, what
/// steers a terminal and what turns the direction of writing escaped.
pub(super) struct Name<'a>(pub(super) Str<'a>);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| !c.is_whitespace() && !matches!(c, '"' | '\\') && shows(c);
        let mut chars = self.0.chars().peekable();
        if chars.peek().is_some() && chars.all(plain) {
            return write!(f, "{}", self.0);
        }
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                ' ' => f.write_char(c)?,
                c if c.is_whitespace() || !shows(c) => write!(f, "{}", c.escape_default())?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// Whether a character stands for itself on a terminal.
fn shows(c: char) -> bool {
    let invisible = matches!(c,
        '\u{AD}' | '\u{61C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}');
    !c.is_control() && !invisible
}

/// A shape as in the header, or that of the matrix in blocks.
struct Shape<'a>(Tensor<'a>);

impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(blocks) = stored::blocks(&self.0) {
            return write!(f, "[{}, {}]", blocks.rows, blocks.cols);
        }
        f.write_char('[')?;
        for (i, dimension) in self.0.shape().enumerate() {
            write!(f, "{}{dimension}", if i == 0 { "" } else { ", " })?;
        }
        f.write_char(']')
    }
}

/// The tensors of a file that were asked for, in the order of their data.
fn wanted<'a>(args: &'a Inspect, file: &'a WeightsFile) -> impl Iterator<Item = Tensor<'a>> {
    file.header().iter_by_offset().filter(|tensor| args.wants(tensor))
}

/// Writes the cells of a tensor's row: of blocks, what is in them.
fn cells(tensor: &Tensor<'_>, cells: &mut [String; 6]) {
    let range = tensor.range();
    let blocks = stored::blocks(tensor);
    let dtype = tensor.dtype();
    let values: [&dyn fmt::Display; 6] = [
        &Name(tensor.name()),
        blocks
            .as_ref()
            .map_or(&dtype as &dyn fmt::Display, |blocks| &blocks.label),
        &Shape(*tensor),
        &stored::elements(tensor),
        &(range.end - range.start),
        &range.start,
    ];
    for (cell, value) in cells.iter_mut().zip(values) {
        cell.clear();
        // Writing to a string succeeds.
        let _ = write!(cell, "{value}");
    }
}

/// One row per tensor in columns. Twice over the index, so that it is not held as text.
pub(super) fn table(args: &Inspect, files: &[WeightsFile], out: &mut dyn Write) -> io::Result<()> {
    let mut row: [String; 6] = Default::default();
    let mut widths = HEADINGS.map(str::len);
    let mut any_blocks = false;
    for tensor in files.iter().flat_map(|file| wanted(args, file)) {
        any_blocks |= stored::blocks(&tensor).is_some();
        cells(&tensor, &mut row);
        for (width, cell) in widths.iter_mut().zip(&row) {
            *width = cell.chars().count().min(WIDEST).max(*width);
        }
    }
    let print = |out: &mut dyn Write, row: [&str; 6], bits: &str| {
        let [name, dtype, shape, elements, bytes, offset] = row;
        let [n, d, s, e, b, o] = widths;
        write!(
            out,
            "{name:<n$}  {dtype:<d$}  {shape:<s$}  {elements:>e$}  {bytes:>b$}  {offset:>o$}"
        )?;
        if any_blocks {
            write!(out, "  {bits:>width$}", width = BITS.len())?;
        }
        writeln!(out)
    };
    print(out, HEADINGS, BITS)?;
    for file in files {
        if files.len() > 1 {
            writeln!(out, "{}:", file.path().display())?;
        }
        for tensor in wanted(args, file) {
            cells(&tensor, &mut row);
            let bits = format!("{:.3}", stored::bits_per_weight(&tensor));
            print(out, row.each_ref().map(String::as_str), &bits)?;
        }
    }
    Ok(())
}

/// The facts about a file that stand in every JSON.
pub(super) fn file_json(file: &WeightsFile) -> Map<String, Value> {
    let header = file.header();
    let metadata = header
        .metadata()
        .map(|(key, value)| (key.to_string(), Value::from(value.to_string())));
    let mut object = Map::new();
    object.insert("path".into(), file.path().to_string_lossy().into());
    object.insert("bytes".into(), file.len().into());
    object.insert("header_bytes".into(), header_bytes(file).into());
    object.insert("tensor_count".into(), header.len().into());
    object.insert("metadata".into(), Value::Object(metadata.collect()));
    object
}

/// Bytes of the header itself, without the number in front of it.
pub(super) fn header_bytes(file: &WeightsFile) -> u64 {
    file.header().data_start() - 8
}

/// `{"files": [{…, "tensors": [{"name", "dtype", "shape", "elements", "bytes", "offset"}]}]}`, a line per tensor. One in blocks
/// is told as the tensor of bytes that it is to any reader, and beside it `"blocks": {"scheme", "shape",
/// "bits_per_weight"}`.
pub(super) fn json(args: &Inspect, files: &[WeightsFile], out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{{\"files\":[")?;
    for (i, file) in files.iter().enumerate() {
        let facts = Value::Object(file_json(file)).to_string();
        let facts = facts.strip_suffix('}').unwrap_or(&facts);
        write!(out, "{}{facts},\"tensors\":[", if i == 0 { "" } else { "," })?;
        for (i, tensor) in wanted(args, file).enumerate() {
            let range = tensor.range();
            let mut value = json!({
                "name": tensor.name().to_string(),
                "dtype": tensor.dtype().name(),
                "shape": tensor.shape().collect::<Vec<_>>(),
                "elements": tensor.elements(),
                "bytes": range.end - range.start,
                "offset": range.start,
            });
            if let Some(blocks) = stored::blocks(&tensor) {
                value["blocks"] = json!({
                    "scheme": blocks.label.to_string(),
                    "shape": [blocks.rows, blocks.cols],
                    "bits_per_weight": stored::bits_per_weight(&tensor),
                });
            }
            write!(out, "{}\n{value}", if i == 0 { "" } else { "," })?;
        }
        write!(out, "]}}")?;
    }
    writeln!(out, "]}}")
}
