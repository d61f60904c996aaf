//! `voxtral memory`: what a session needs, before anything runs.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use voxtral_core::layout::{Layout, Pass, Region};

use super::console::Console;
use super::options::{ModelOptions, SessionOptions};
use crate::error::Error;

/// Print the memory that a transcription needs, as a table, without running it
#[derive(Args, Debug)]
pub(super) struct Memory {
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    session: SessionOptions,
}

pub(super) fn run(args: &Memory) -> Result<ExitCode, Error> {
    let console = Console::new(false);
    let model = args.model.open(&console)?;
    let options = args.session.of(&model, &console)?;
    let layout = Layout::new(model.params(), &options)?;
    let mut table = Table(String::new());

    table.title(format_args!("Memory for {}", args.model.name()));
    table.title("mapped: read in place as it is used, given back when others need room");
    table.line(1, "weights", model.weights_len());
    table.line(1, "vocabulary", model.tekken().len());

    let mut region = None;
    let bytes = |values: usize| values * size_of::<f32>();
    layout.items(|item| {
        if region != Some(item.region) {
            region = Some(item.region);
            match item.region {
                Region::State => table.title("state: kept from one step to the next"),
                Region::Scratch(pass) => {
                    if pass == Pass::Condition {
                        table.sum("state", bytes(layout.state_len()));
                        table.title("scratch: of one pass at a time, as large as its largest");
                    }
                    table.heading(name(pass));
                }
            }
        }
        let depth = if item.region == Region::State { 1 } else { 2 };
        table.line(depth, item.name, bytes(item.values));
    });
    table.sum("scratch", bytes(layout.scratch_len()));

    let index = model.vocabulary().index_len() * size_of::<u32>();
    table.title("text");
    table.line(1, "index from token ids to text", index);

    table.title("");
    let allocated = bytes(layout.state_len()) + bytes(layout.scratch_len()) + index;
    table.line(0, "allocated", allocated);
    table.line(0, "mapped", model.weights_len() + model.tekken().len());
    super::print(table.0.as_bytes())
}

fn name(pass: Pass) -> &'static str {
    match pass {
        Pass::Condition => "delay conditioning",
        Pass::Stem => "mel frames and convolution stem",
        Pass::Encoder => "encoder layers",
        Pass::Adapter => "adapter",
        Pass::Decoder => "decoder and output head",
    }
}

/// Lines of names, bytes and megabytes. Writing into a String does not fail.
struct Table(String);

impl Table {
    fn title(&mut self, title: impl std::fmt::Display) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        let _ = write!(self.0, "{gap}{title}");
        self.0.push('\n');
    }

    fn heading(&mut self, name: &str) {
        let _ = writeln!(self.0, "  {name}");
    }

    fn line(&mut self, depth: usize, name: &str, bytes: usize) {
        let name = format!("{:depth$}{name}", "", depth = 2 * depth);
        let megabytes = bytes as f64 * 1e-6;
        let _ = writeln!(self.0, "{name:<44} {bytes:>14} bytes {megabytes:>10.3} MB");
    }

    fn sum(&mut self, name: &str, bytes: usize) {
        self.line(1, &format!("{name} in all"), bytes);
    }
}
