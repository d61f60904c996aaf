//! What was measured, as a table that grows line by line, or as JSON in the end.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::bench::limits::{self, Limit};
use crate::bench::memory::{self, Anonymous};
use crate::bench::realtime::Realtime;
use crate::bench::{Derived, Group, Measured, Spread};
use crate::error::Error;

/// Where the output goes, and what it looks like.
pub(super) enum Report {
    /// Lines, as soon as they are known.
    Table,
    /// One object, once everything is known.
    Json(Map<String, Value>),
}

impl Report {
    pub(super) fn new(json: bool) -> Self {
        if !json {
            return Self::Table;
        }
        let lists = ["notes", "limits", "operations", "passes", "derived"];
        let lists = lists.map(|list| (list, json!([]))).into_iter();
        let all = lists.chain([("memory", Value::Null)]);
        Self::Json(all.map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// What is measured.
    pub(super) fn machine(&mut self, model: &str, weights: usize, kernels: &str, cores: usize, threads: usize) {
        match self {
            // The table's first title says it.
            Self::Table => {
                let plural = if threads == 1 { "" } else { "s" };
                let _ = say(format_args!(
                    "{model}: {:.1} MB of weights; {kernels}, {threads} thread{plural} on {cores} cores",
                    weights as f64 * 1e-6
                ));
            }
            Self::Json(all) => {
                all.insert("version".into(), env!("CARGO_PKG_VERSION").into());
                all.insert("target".into(), env!("VOXTRAL_TARGET").into());
                all.insert("model".into(), model.into());
                all.insert("weights_bytes".into(), weights.into());
                all.insert("kernels".into(), kernels.into());
                all.insert("cores".into(), cores.into());
                all.insert("threads".into(), threads.into());
            }
        }
    }

    /// What a reader of the numbers must know. It is told on standard error, too.
    pub(super) fn note(&mut self, note: &str) {
        self.push("notes", note.into());
    }

    /// Begins a part; `what` says more about it.
    pub(super) fn title(&mut self, name: &str, what: &str) -> Result<(), Error> {
        match self {
            Self::Table => {
                say("")?;
                say(format_args!("{name} ({what})"))?;
                say(if name == "limits" {
                    format!(
                        "  {:<56} {:>8} {:>8} {:>8} {:>21}",
                        "", "min", "median", "max", "windows (lost)"
                    )
                } else {
                    format!(
                        "  {:<56} {:>7} {:>7} {:>7} {:>10} {:>14} {:>6} {:>6} {:>18}",
                        "", "min", "median", "max", "rate", "% min", "median", "max", "windows (lost)"
                    )
                })
            }
            Self::Json(all) => {
                if name == "limits" {
                    all.insert("arithmetic".into(), what.into());
                }
                Ok(())
            }
        }
    }

    /// The limits of some threads.
    pub(super) fn limits(&mut self, limits: &limits::Measured) -> Result<(), Error> {
        let limits::Measured {
            threads,
            streams,
            read,
            multiply_add,
        } = limits;
        if let Self::Json(_) = self {
            let value = |limit: &Limit, unit: &str| {
                json!({
                    "unit": unit,
                    "rate": limit.rate.map(spread),
                    "windows": limit.windows,
                    "discarded": limit.discarded,
                })
            };
            let mut reading = value(read, "GB/s");
            reading["streams"] = json!(streams);
            let multiplying = value(multiply_add, "GFLOP/s");
            let both = json!({"threads": threads, "read": reading, "multiply_add": multiplying});
            self.push("limits", both);
            return Ok(());
        }
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let threads = format!("{threads} thread{}", plural(*threads));
        let streams = format!("read, {threads}, {streams} stream{} each", plural(*streams));
        for (name, limit, unit) in [
            (streams, read, "GB/s"),
            (format!("multiply-add, {threads}"), multiply_add, "GFLOP/s"),
        ] {
            let rates = match limit.rate {
                Some(Spread { min, median, max }) => format!("{min:>8.1} {median:>8.1} {max:>8.1} {unit}"),
                None => "no undisturbed window".into(),
            };
            let windows = format!("{} ({})", limit.windows, limit.discarded);
            say(format_args!("  {name:<56} {rates:<34} {windows:>13}"))?;
        }
        Ok(())
    }

    /// An operation or a pass.
    pub(super) fn case(&mut self, group: Group, detail: &str, case: &Measured) -> Result<(), Error> {
        let list = match group {
            Group::Operation => "operations",
            Group::Whole => "passes",
        };
        if let Self::Json(_) = self {
            let of = |f: fn(&crate::bench::Told) -> Spread| case.told.as_ref().map(|told| spread(f(told)));
            let value = json!({
                "name": case.name,
                "detail": detail,
                "seconds": of(|told| told.seconds),
                "unit": case.resource.unit(),
                "rate": of(|told| told.rate),
                "limit": of(|told| told.limit),
                "fraction": of(|told| told.fraction),
                "windows": case.windows,
                "discarded": case.discarded,
            });
            self.push(list, value);
            return Ok(());
        }
        let name = format!("{}, {detail}", case.name);
        let windows = format!("{} ({})", case.windows, case.discarded);
        let Some(told) = case.told else {
            return say(format_args!(
                "  {name:<56} {:<63} {windows:>9}",
                "no undisturbed window"
            ));
        };
        let (scale, time_unit) = match told.seconds.median {
            s if s < 1e-3 => (1e6, "µs"),
            s if s < 1.0 => (1e3, "ms"),
            _ => (1.0, "s"),
        };
        let [time, part] = [(told.seconds, scale), (told.fraction, 100.0)].map(|(of, scale)| Spread {
            min: of.min * scale,
            median: of.median * scale,
            max: of.max * scale,
        });
        say(format_args!(
            "  {name:<56} {:>7.1} {:>7.1} {:>7.1} {time_unit:<2} {:>7.1} {:<7} {:>6.1} {:>6.1} {:>6.1} % {windows:>16}",
            time.min,
            time.median,
            time.max,
            told.rate.median,
            case.resource.unit(),
            part.min,
            part.median,
            part.max,
        ))
    }

    /// The memory of a transcription of `seconds` of audio.
    pub(super) fn memory(&mut self, seconds: usize, measured: &Anonymous) -> Result<(), Error> {
        let Anonymous { touched, grown } = *measured;
        if let Self::Json(all) = self {
            let value = json!({
                "seconds_of_audio": seconds,
                "state_bytes": touched.state,
                "scratch_bytes": touched.scratch,
                "touched_bytes": touched.total(),
                "measured_bytes": grown,
                "ratio": measured.ratio(),
                "voxtral_c_bytes": memory::VOXTRAL_C,
            });
            all.insert("memory".into(), value);
            return Ok(());
        }
        say("")?;
        say(format_args!(
            "{} (anonymous, in small pages, by a fresh session over {seconds} s of audio, caches in f32)",
            memory::NAME
        ))?;
        let line = |name: &str, bytes: u64| say(format_args!("  {name:<72} {:>8.1} MB", bytes as f64 * 1e-6));
        line("state that the layout says is touched", touched.state as u64)?;
        line("scratch that the layout says is touched", touched.scratch as u64)?;
        match grown {
            Some(grown) => line("growth of this process", grown)?,
            None => say("  growth of this process: not told by this system")?,
        }
        if let Some(ratio) = measured.ratio() {
            say(format_args!(
                "  {:<72} {ratio:>8.3}",
                "growth over what the layout says"
            ))?;
        }
        line(
            "for comparison: voxtral.c with the published model (measured elsewhere)",
            memory::VOXTRAL_C,
        )
    }

    /// What follows from them.
    pub(super) fn derived(&mut self, derived: &[Derived]) -> Result<(), Error> {
        match self {
            Self::Table if derived.is_empty() => Ok(()),
            Self::Table => {
                say("")?;
                say("derived (from medians)")?;
                derived
                    .iter()
                    .try_for_each(|Derived { name, value }| say(format_args!("  {name:<72} {value:>8.3}")))
            }
            Self::Json(_) => {
                for Derived { name, value } in derived {
                    self.push("derived", json!({"name": name, "value": value}));
                }
                Ok(())
            }
        }
    }

    /// Begins the table of `--realtime`, over so many seconds of audio.
    pub(super) fn realtime_title(&mut self, seconds: f64) -> Result<(), Error> {
        match self {
            Self::Table => {
                say("")?;
                say(format_args!(
                    "ms per second of audio, over {seconds} s of it (1000 or less in all keeps up)"
                ))?;
                say(
                    "  threads  at most in a pass  positions per pass      mel  encoder  decoder   in all  real-time factor",
                )
            }
            Self::Json(all) => {
                for list in ["limits", "operations", "passes", "derived", "memory"] {
                    all.remove(list);
                }
                all.insert("realtime".into(), json!([]));
                all.insert("seconds_of_audio".into(), seconds.into());
                Ok(())
            }
        }
    }

    /// A line of it.
    pub(super) fn realtime(&mut self, measured: &Realtime) -> Result<(), Error> {
        let Realtime {
            threads,
            batch,
            mel,
            encoder,
            decoder,
            each,
        } = *measured;
        let factor = measured.factor();
        if let Self::Json(_) = self {
            let value = json!({
                "threads": threads,
                "batch": batch,
                "positions_per_pass": each,
                "mel": mel,
                "encoder": encoder,
                "decoder": decoder,
                "real_time_factor": factor,
            });
            self.push("realtime", value);
            return Ok(());
        }
        let [mel, encoder, decoder, all] = [mel, encoder, decoder, factor].map(|seconds| seconds * 1e3);
        say(format_args!(
            "  {threads:>7}  {batch:>17}  {each:>18.2}  {mel:>7.1}  {encoder:>7.1}  {decoder:>7.1}  {all:>7.1}  {factor:>16.3}"
        ))
    }

    /// Everything is known.
    pub(super) fn end(self, elapsed: Duration) -> Result<(), Error> {
        match self {
            Self::Table => Ok(()),
            Self::Json(mut all) => {
                all.insert("elapsed_seconds".into(), elapsed.as_secs_f64().into());
                say(Value::Object(all))
            }
        }
    }

    fn push(&mut self, list: &str, value: Value) {
        if let Self::Json(all) = self {
            if let Some(Value::Array(list)) = all.get_mut(list) {
                list.push(value);
            }
        }
    }
}

fn spread(Spread { min, median, max }: Spread) -> Value {
    json!({"min": min, "median": median, "max": max})
}

/// Writes a line of data.
fn say(line: impl Display) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(Error::Output)
}
