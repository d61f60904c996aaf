//! What the small model makes of long pauses without a gate: what is lost in them is lost by the model, not by the
//! engine, since the plain f64 reference says the same tokens.

use std::fs;

use voxtral::core::layout::Options;
use voxtral::core::model::NoProbe;
use voxtral::{Decided, Error, Listener, Model, Pool, Text, Transcriber};
use voxtral_tests::goldens;
use voxtral_tests::program::clip;
use voxtral_tests::reference::Reference;

/// Decoder positions of 80 ms of the usual delay.
const DELAY_TOKENS: usize = 6;

#[derive(Default)]
struct Ids(Vec<u32>);

impl Listener for Ids {
    fn token(&mut self, token: &Decided<'_>) -> Result<(), Error> {
        self.0.push(token.id);
        Ok(())
    }
}

/// Quiet noise of an RMS of 10 of 32768.
fn noise(samples: usize) -> impl Iterator<Item = f32> {
    let amplitude = 10.0 * 3f32.sqrt() / 32768.0;
    let mut state = 1u32;
    (0..samples).map(move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        amplitude * ((state >> 8) as f32 / 8_388_608.0 - 1.0)
    })
}

/// Three clips with pauses of `seconds` of noise between them.
fn with_pauses(seconds: usize) -> Vec<f32> {
    let mut samples = Vec::new();
    for name in ["00-espeak", "04-flite", "06-flite"] {
        let clips = goldens::clips();
        let clip = clips.iter().find(|clip| clip.file.starts_with(name)).unwrap();
        if !samples.is_empty() {
            samples.extend(noise(seconds * 16_000));
        }
        samples.extend(&clip.samples);
    }
    samples
}

#[test]
fn long_pauses_are_heard_as_the_reference_hears_them() {
    let samples = with_pauses(5);
    let file = |name: &str| fs::read(goldens::nano_dir().join(name)).unwrap();
    let mut reference = Reference::from_files(&file("params.json"), &file("consolidated.safetensors"));
    reference.stops_at_end_of_text = false;
    let expected = reference.run(&samples, DELAY_TOKENS).tokens;

    let model = Model::embedded().unwrap();
    let pool = Pool::new(2);
    let mut options = Options::from(model.vocabulary());
    options.stop_at_end_of_text = false;
    let mut transcriber = Transcriber::new(&model, &options, &pool).unwrap();
    let mut ids = Ids::default();
    transcriber.push_to(&samples, &mut ids, &mut NoProbe).unwrap();
    transcriber.finish_to(&mut ids, &mut NoProbe).unwrap();
    assert_eq!(ids.0, expected);

    let (mut text, mut out) = (Text::new(&model), Vec::new());
    for &id in &ids.0 {
        text.push(id, &mut out).unwrap();
    }
    // All that the third clip says is lost.
    let heard = [clip(0).1, clip(4).1].join(" ");
    assert_eq!(String::from_utf8(out).unwrap(), heard);
    assert!(!clip(6).1.is_empty());
}
