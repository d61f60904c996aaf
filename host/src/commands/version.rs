//! `voxtral --version`.

use std::fmt::Write;
use std::sync::LazyLock;

use crate::{audio, kernels};

/// Version, target, the kernels that a run here gets, and what is built in.
pub(super) fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let features = match env!("VOXTRAL_FEATURES") {
            "" => "none",
            features => features,
        };
        let mut text = String::from(env!("CARGO_PKG_VERSION"));
        let formats = audio::formats().join(", ");
        let lines = [
            ("target", env!("VOXTRAL_TARGET")),
            ("instruction set", kernels::choose().name()),
            ("features", features),
            ("audio", &formats),
        ];
        for (name, value) in lines {
            // Into a String, which does not fail.
            let _ = write!(text, "\n{name:<16} {value}");
        }
        text
    });
    &TEXT
}
