//! `voxtral compare`: what another storage of the same weights costs.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use voxtral_core::layout::Options;

use super::console::Console;
use super::options::{SessionOptions, ThreadOptions};
use crate::compare::Comparison;
use crate::error::Error;
use crate::model::Model;

/// Disagreements that the table lists.
const LISTED: usize = 20;

/// Compare two models of the same sizes over the same audio, the second following the tokens of the first
#[derive(Args, Debug)]
pub(super) struct Compare {
    /// Directory of the model that is right
    #[arg(value_name = "DIR_A")]
    a: PathBuf,
    /// Directory of the model that is measured, such as a quantised one
    #[arg(value_name = "DIR_B")]
    b: PathBuf,
    /// Audio files
    #[arg(value_name = "AUDIO", required = true)]
    audio: Vec<PathBuf>,
    #[command(flatten)]
    session: SessionOptions,
    #[command(flatten)]
    threads: ThreadOptions,
    /// Print JSON, with every text and every disagreement
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Compare) -> Result<ExitCode, Error> {
    let mut console = Console::new(false);
    let (a, b) = (Model::open(&args.a)?, Model::open(&args.b)?);
    let options = Options {
        logits: true,
        ..args.session.of(&a, &console)?
    };
    let pool = args.threads.pool();
    let names: [&Path; 2] = [&args.a, &args.b];
    console.begin_count("comparing", args.audio.len() as u64);
    let mut heard = 0;
    let comparison = Comparison::of([&a, &b], names, &args.audio, &options, &pool, |_| {
        console.progress(heard);
        heard += 1;
    })?;
    console.end_bar();
    for remark in &comparison.remarks {
        console.error(format_args!("{remark}"));
    }
    let text = if args.json {
        json(args, &comparison)
    } else {
        table(args, &comparison)
    };
    super::print(text.as_bytes())
}

fn table(args: &Compare, comparison: &Comparison) -> String {
    let mut out = String::new();
    // Writing to a string succeeds.
    let mut line = |line: std::fmt::Arguments<'_>| {
        let _ = writeln!(out, "{line}");
    };
    let divergence = comparison.divergence();
    let (words, errors) = comparison.words();
    line(format_args!("A  {}", args.a.display()));
    line(format_args!("B  {}", args.b.display()));
    line(format_args!(
        "{} audio files, {} positions, tokens of A\n",
        args.audio.len(),
        comparison.positions()
    ));
    line(format_args!("{:<28}  relative rms error", "stage"));
    for (stage, relative) in comparison.stages() {
        line(format_args!("{stage:<28}  {relative:.6}"));
    }
    line(format_args!("\nlogits"));
    line(format_args!(
        "  KL divergence, mean             {:.3e} nats",
        divergence.mean
    ));
    line(format_args!(
        "  KL divergence, 99th percentile {:.3e} nats",
        divergence.percentile99
    ));
    line(format_args!(
        "  KL divergence, largest          {:.3e} nats",
        divergence.largest
    ));
    line(format_args!(
        "  same best token                 {:.3} % ({} of {} differ)",
        100.0 * comparison.agreement(),
        comparison.disagreements.len(),
        comparison.positions()
    ));
    line(format_args!("\nB by itself"));
    let share = 100.0 * errors as f64 / words.max(1) as f64;
    line(format_args!(
        "  words that differ               {errors} of {words} ({share:.2} %)"
    ));
    let changed = comparison.texts.iter().filter(|text| text.a != text.b).count();
    line(format_args!(
        "  texts that differ               {changed} of {}",
        comparison.texts.len()
    ));
    if !comparison.disagreements.is_empty() {
        line(format_args!(
            "\nwhere they disagree: by how much the logit of each one's token is above the other's"
        ));
        line(format_args!(
            "{:>8}  {:>7}  {:>7}  {:>9}  {:>9}  audio",
            "position", "token A", "token B", "margin A", "margin B"
        ));
        for it in comparison.disagreements.iter().take(LISTED) {
            line(format_args!(
                "{:>8}  {:>7}  {:>7}  {:>9.4}  {:>9.4}  {}",
                it.position,
                it.a,
                it.b,
                it.margin_a,
                it.margin_b,
                args.audio[it.audio].display()
            ));
        }
        let more = comparison.disagreements.len().saturating_sub(LISTED);
        if more > 0 {
            line(format_args!("and {more} more"));
        }
    }
    out
}

fn json(args: &Compare, comparison: &Comparison) -> String {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let divergence = comparison.divergence();
    let (words, errors) = comparison.words();
    let stages = comparison
        .stages()
        .map(|(stage, relative)| json!({"stage": stage, "relative_rms_error": relative}));
    let disagreements = comparison.disagreements.iter().map(|it| {
        json!({"audio": path(&args.audio[it.audio]), "position": it.position, "token_a": it.a, "token_b": it.b,
               "margin_a": it.margin_a, "margin_b": it.margin_b})
    });
    let texts = comparison.texts.iter().map(|text| {
        json!({"audio": path(&text.audio), "a": text.a, "b": text.b, "words": text.words, "errors": text.errors})
    });
    let value = json!({
        "a": path(&args.a),
        "b": path(&args.b),
        "positions": comparison.positions(),
        "stages": stages.collect::<Vec<_>>(),
        "kl_mean": divergence.mean,
        "kl_99th_percentile": divergence.percentile99,
        "kl_largest": divergence.largest,
        "top1_agreement": comparison.agreement(),
        "disagreements": disagreements.collect::<Vec<_>>(),
        "words": words,
        "word_errors": errors,
        "texts": texts.collect::<Vec<_>>(),
    });
    format!("{value}\n")
}
