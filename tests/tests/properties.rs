//! Any sequence of session calls with any samples: nothing panics, a refused call changes nothing, and what comes out
//! is what a clean run of the accepted samples gives.

use proptest::prelude::*;
use voxtral_core::layout::Options;
use voxtral_core::session::MAX_SAMPLE;
use voxtral_tests::calls::{Bench, Call, Models, Sound};
use voxtral_tests::random::cases;

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let bad = prop::sample::select(vec![
        f32::NAN,
        -f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MAX,
        -1e9,
        MAX_SAMPLE * (1.0 + f32::EPSILON),
        -MAX_SAMPLE * (1.0 + f32::EPSILON),
    ]);
    let sound = prop_oneof![
        4 => Just(Sound::Audio),
        1 => Just(Sound::Extreme),
        2 => bad.prop_map(Sound::Bad),
    ];
    let call = prop_oneof![
        8 => (sound, 0usize..6000, any::<u64>()).prop_map(|(sound, len, seed)| Call::Feed { sound, len, seed }),
        8 => (1usize..20).prop_map(Call::Steps),
        1 => Just(Call::Finish),
        1 => Just(Call::Reset),
        1 => Just(Call::OtherMemory),
        1 => Just(Call::OtherModel),
        1 => Just(Call::CutModel),
        1 => Just(Call::Snapshot),
        1 => Just(Call::Restore),
    ];
    prop::collection::vec(call, 1..50)
}

#[test]
fn any_sequence_of_calls_with_any_samples() {
    let models = Models::new();
    let options = (1usize..6, 0usize..4, 1usize..4, any::<bool>());
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases(400))
    };
    // What the cases have been through: it must not be that nothing ever happens.
    let seen = std::cell::Cell::new([0u32; 4]);
    proptest!(config, |(calls in calls(), (chunk, left_pad_tokens, delay_tokens, stop_at_end_of_text) in options)| {
        let options = Options { chunk, left_pad_tokens, stop_at_end_of_text, ..models.own.options(delay_tokens) };
        let mut bench = Bench::new(&models, &options);
        let mut now = seen.get();
        for call in calls {
            bench.make(call);
            now[0] += u32::from(bench.now.failed.is_some());
            now[1] += u32::from(bench.now.stopped);
        }
        bench.conclude();
        now[2] += u32::from(bench.now.accepted.len() > 5000);
        now[3] += u32::from(bench.now.tokens.len() > 10);
        seen.set(now);
    });
    if cases(400) >= 400 {
        assert!(seen.get().iter().all(|&count| count > 0), "{:?}", seen.get());
    }
}
