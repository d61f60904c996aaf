//! A session under any calls.

use std::sync::OnceLock;

use voxtral_core::layout::Options;

use crate::calls::{Bench, Call, Models, Sound};

/// Calls that one input makes at most: together with the lengths below they bound the time of a run.
const MOST_CALLS: usize = 20;
/// Samples that one call feeds at most.
const MOST_SAMPLES: usize = 2000;

/// The generated models, made once.
pub(super) fn models() -> &'static Models {
    static MODELS: OnceLock<Models> = OnceLock::new();
    MODELS.get_or_init(Models::new)
}

/// The first two bytes are options; then each four are a call. At the end the tokens and logits must be those of a
/// clean run of the samples that were accepted.
pub fn session(data: &[u8]) {
    let [sizes, pads, calls @ ..] = data else {
        return;
    };
    let models = models();
    let options = Options {
        chunk: usize::from(sizes % 6) + 1,
        batch: usize::from(sizes / 18 % 8) + 1,
        left_pad_tokens: usize::from(pads % 4),
        stop_at_end_of_text: pads & 64 != 0,
        ..models.own.options(usize::from(sizes / 6 % 3) + 1)
    };
    let mut bench = Bench::new(models, &options);
    for call in calls.chunks_exact(4).take(MOST_CALLS) {
        bench.make(decoded([call[0], call[1], call[2], call[3]]));
    }
    bench.conclude();
}

fn decoded([kind, a, b, c]: [u8; 4]) -> Call {
    let len = usize::from(u16::from_le_bytes([a, b])) % MOST_SAMPLES;
    let feed = |sound| Call::Feed {
        sound,
        len,
        seed: c.into(),
    };
    match kind % 12 {
        0 | 1 => feed(Sound::Audio),
        2 => feed(Sound::Extreme),
        // Any number that cannot be a sample, by its upper bits.
        3 => match f32::from_bits(u32::from_be_bytes([c, b, a, 0])) {
            value if value.abs() <= voxtral_core::session::MAX_SAMPLE => feed(Sound::Audio),
            value => feed(Sound::Bad(value)),
        },
        4 | 5 => Call::Steps(usize::from(a % 20) + 1),
        6 => Call::Finish,
        7 => Call::Reset,
        8 => Call::OtherMemory,
        9 if a % 2 == 0 => Call::OtherModel,
        9 => Call::CutModel,
        10 => Call::Snapshot,
        _ => Call::Restore,
    }
}
