//! Tokens without logits: the same, in less memory.

use voxtral_core::kernels::Serial;
use voxtral_core::layout::{Item, Layout, Memory, Options};
use voxtral_core::model::LogitHash;
use voxtral_core::session::{Session, Step};
use voxtral_tests::engine::{Engine, Plan};
use voxtral_tests::goldens::{self, Case};

fn without(options: Options) -> Options {
    Options {
        logits: false,
        ..options
    }
}

fn items(layout: &Layout) -> Vec<Item> {
    let mut items = Vec::new();
    layout.items(|item| items.push(item));
    items
}

#[test]
fn tokens_are_those_of_the_largest_logits() {
    let engine = Engine::nano();
    for clip in goldens::clips().iter().take(4) {
        let options = engine.options(6);
        let with = engine.run(&options, &clip.samples);
        let run = Plan {
            record: true,
            ..Plan::default()
        }
        .run(&engine, &without(options), &clip.samples);
        assert_eq!(
            (run.tokens, run.positions),
            (with.tokens, with.positions),
            "{}",
            clip.file
        );
        assert_eq!(run.hash, LogitHash::default().value(), "a probe sees no logits");
    }
    for (letter, name) in [('A', "speech_a4"), ('E', "speech_b")] {
        let case = Case::read(letter, name);
        let engine = Engine::of(&case.spec());
        let options = engine.options(case.delay_tokens);
        for batch in [1, 5] {
            let options = Options {
                batch,
                ..without(options)
            };
            assert_eq!(engine.run(&options, &case.samples()).tokens, case.tokens);
        }
    }
}

#[test]
fn the_layout_has_no_room_for_them() {
    let engine = Engine::nano();
    let options = engine.options(6);
    let [with, without] = [options, without(options)].map(|options| Layout::new(&engine.params, &options).unwrap());
    let (kept, lacking): (Vec<Item>, Vec<Item>) = items(&with)
        .into_iter()
        .partition(|item| items(&without).contains(item));
    assert_eq!(kept, items(&without));
    assert_eq!(lacking.len(), 1);
    assert_eq!(
        (lacking[0].name, lacking[0].values),
        ("logits", options.batch * engine.params.decoder.vocab_size)
    );
    assert_eq!(with.state_len(), without.state_len());
    assert!(without.scratch_len() <= with.scratch_len());
}

#[test]
fn the_session_has_none_to_show() {
    let engine = Engine::nano();
    let layout = Layout::new(&engine.params, &without(engine.options(6))).unwrap();
    let (mut state, mut scratch) = (vec![f32::NAN; layout.state_len()], vec![f32::NAN; layout.scratch_len()]);
    let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
    let mut session = Session::new(&layout);
    session.finish();
    let mut tokens = 0;
    loop {
        match session.step(&engine.model(), &mut memory, &Serial).unwrap() {
            Step::Token(_) => tokens += 1,
            Step::Done => break,
            _ => {}
        }
        assert!(session.logits(&memory).is_none());
    }
    assert!(tokens > 0);
}
