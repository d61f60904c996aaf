//! Laws of `Layout::touched` over random models and options. That it is right is measured in `anonymous.rs`.

use proptest::prelude::*;
use voxtral_core::format::params::Params;
use voxtral_core::kernels::CacheType;
use voxtral_core::layout::{Layout, Options};
use voxtral_core::session::Schedule;
use voxtral_tests::generator::Spec;
use voxtral_tests::random;

/// Bytes of state and scratch in whole pages.
fn touched(layout: &Layout, positions: u64, blocks: bool, page: usize) -> [usize; 2] {
    let touched = layout.touched(positions, blocks, page);
    assert_eq!(touched.total(), touched.state + touched.scratch);
    [touched.state, touched.scratch]
}

fn allocated(layout: &Layout) -> [usize; 2] {
    [layout.state_len(), layout.scratch_len()].map(|values| values * size_of::<f32>())
}

/// A layout of a random model, and whether its weights count as lying in blocks.
fn layouts() -> impl Strategy<Value = (Layout, bool)> {
    let caches = [CacheType::F32, CacheType::Bf16, CacheType::Q8].map(Just);
    let cache = prop_oneof![caches[0], caches[1], caches[2]];
    let sizes = (any::<u64>(), 1..=15usize, 1..=60usize, 1..=8usize);
    (sizes, cache, any::<bool>(), any::<bool>()).prop_map(
        |((seed, delay_tokens, chunk, batch), cache, logits, blocks)| {
            let params = Params::parse(&Spec::random(seed).params_json()).unwrap();
            let options = Options {
                delay_tokens,
                left_pad_tokens: 32,
                chunk,
                batch,
                decoder_window: None,
                cache,
                logits,
                stop_at_end_of_text: false,
                bos: 1,
                eos: 2,
                streaming_pad: 32,
            };
            (Layout::new(&params, &options).unwrap(), blocks)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(random::cases(128)))]

    /// More audio never needs less, and pages hold all that is written, of what is there.
    #[test]
    fn it_grows_with_the_audio_up_to_what_is_allocated(
        (layout, blocks) in layouts(),
        samples in 0..2_000_000u64,
        more in 0..400_000u64,
        page in (0..=16u32).prop_map(|bits| 1usize << bits),
    ) {
        let schedule = Schedule::new(layout.options());
        let [positions, later] = [samples, samples + more].map(|samples| schedule.positions(samples));
        let bytes = touched(&layout, positions, blocks, 1);
        let pages = touched(&layout, positions, blocks, page);
        let grown = touched(&layout, later, blocks, page);
        for (region, allocated) in allocated(&layout).into_iter().enumerate() {
            prop_assert!(0 < bytes[region] && bytes[region] <= pages[region]);
            prop_assert!(pages[region] <= grown[region]);
            prop_assert!(grown[region] <= allocated.next_multiple_of(page));
            prop_assert_eq!(pages[region] % page, 0);
        }
    }

    /// A stream that has filled its rings has written the whole state, but for gaps behind elements of less than 4
    /// bytes; and the widest passes the whole scratch, where the decoder has some as wide.
    #[test]
    fn a_long_stream_needs_all_of_it((layout, blocks) in layouts()) {
        let [state, scratch] = touched(&layout, u64::MAX, blocks, 1);
        let [all, scratch_of_all] = allocated(&layout);
        let (e, d) = (&layout.params().encoder, &layout.params().decoder);
        let gaps = match layout.options().cache {
            CacheType::F32 => 0,
            CacheType::Bf16 | CacheType::Q8 => 3 * 2 * (e.n_layers + d.n_layers),
        };
        prop_assert!((all - gaps..=all).contains(&state));
        let Options { chunk, batch, .. } = *layout.options();
        if blocks && batch <= chunk && chunk <= 32 {
            prop_assert_eq!(scratch, scratch_of_all);
        }
        let [_, without] = touched(&layout, u64::MAX, false, 1);
        prop_assert!(without <= scratch);
    }
}
