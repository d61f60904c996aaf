//! What is told after the text: how long the audio was, where the time went, how much memory it took.

use std::path::Path;
use std::time::Duration;

use voxtral_core::audio::SAMPLE_RATE;

use super::console::Console;
use crate::timings::{Spent, Timings};
use crate::usage::Peak;

/// Of one input: `samples` of audio that took `wall` in all; of a live one the time of the work is told, since the
/// rest is waiting.
pub(super) fn times(console: &Console, path: &Path, samples: u64, wall: Option<Duration>, timings: &Timings) {
    if console.is_silent() {
        return;
    }
    let audio = samples as f64 / SAMPLE_RATE as f64;
    let seconds = wall.unwrap_or_else(|| timings.total()).as_secs_f64();
    let of_work = if wall.is_none() { " of work" } else { "" };
    let factor = if samples > 0 {
        format!(", real-time factor {:.3}", seconds / audio)
    } else {
        String::new()
    };
    console.note(format_args!(
        "{}: {audio:.2} s of audio in {seconds:.2} s{of_work}{factor}",
        path.display()
    ));
    let Timings {
        encoder,
        prefill,
        decoder,
        ..
    } = timings;
    console.note(format_args!(
        "encoder {}, prefill {}, {} steps {}, {}",
        spent(encoder),
        spent(prefill),
        decoder.positions,
        spent(decoder),
        passes(timings)
    ));
}

/// Positions per decoder pass behind the prompt, and how many of the guesses between were right.
pub(super) fn passes(timings: &Timings) -> String {
    let each = timings.decoder.positions as f64 / timings.decoder.passes.max(1) as f64;
    if timings.guessed == 0 {
        return format!("{each:.1} a pass");
    }
    let right = 100.0 * timings.guessed_right() as f64 / timings.guessed as f64;
    format!("{each:.1} a pass ({right:.0} % of guesses right)")
}

/// Time in all, and per position.
fn spent(spent: &Spent) -> String {
    let ms = spent.time.as_secs_f64() * 1e3;
    let each = ms / spent.positions.max(1) as f64;
    format!("{ms:.1} ms ({each:.2} ms each)")
}

/// Of the whole process.
pub(super) fn memory(console: &Console, peak: &Peak) {
    if let Some((resident, total)) = peak.get() {
        let mb = |bytes: u64| bytes as f64 * 1e-6;
        console.note(format_args!(
            "peak memory {:.1} MB: allocated {:.1} MB, mapped files {:.1} MB",
            mb(total),
            mb(resident.anonymous),
            mb(resident.file)
        ));
    }
}

/// Passes of every kind, with `--debug`.
pub(super) fn details(console: &Console, timings: &Timings) {
    for (name, spent) in [
        ("conditioning", &timings.conditioning),
        ("encoder", &timings.encoder),
        ("prefill", &timings.prefill),
        ("decoder", &timings.decoder),
    ] {
        console.note(format_args!(
            "{name}: {} passes over {} positions in {:.1} ms, the longest {:.2} ms",
            spent.passes,
            spent.positions,
            spent.time.as_secs_f64() * 1e3,
            spent.longest.as_secs_f64() * 1e3
        ));
    }
}
