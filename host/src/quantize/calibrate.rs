//! Which columns of the weights matter: the mean square of what they are multiplied with, over some audio.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use voxtral_core::audio::SAMPLE_RATE;
use voxtral_core::kernels::Executor;
use voxtral_core::layout::Options;
use voxtral_core::model::{DecoderTensor, EncoderTensor, Probe, Role, Stage};

use crate::audio::AudioFile;
use crate::error::Error;
use crate::model::Model;
use crate::transcriber::{Decided, Listener, Transcriber};

/// Mean squares by the name of the role whose input they are of; nothing without audio.
#[derive(Default)]
pub(crate) struct Activations {
    means: HashMap<String, Vec<f32>>,
    /// What was odd about the audio, each with its file.
    pub(crate) remarks: Vec<String>,
}

impl Activations {
    /// Runs the model over all the audio. `watch` is told of each file, and of the seconds heard in it.
    ///
    /// # Errors
    /// Those of [`Transcriber`] and [`AudioFile`], and of `watch`.
    pub(crate) fn gather(
        model: &Model,
        files: &[PathBuf],
        executor: &dyn Executor,
        mut watch: impl FnMut(&Path, u64) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        // Passes over guesses would count what is refused afterwards.
        let options = Options {
            batch: 1,
            logits: false,
            ..Options::from(model.vocabulary())
        };
        let mut transcriber = Transcriber::new(model, &options, executor)?;
        transcriber.set_interrupt(crate::interrupt::flag());
        let mut sums = Sums::default();
        let mut remarks = Vec::new();
        let mut samples = vec![0.0; SAMPLE_RATE];
        for path in files {
            let mut audio = AudioFile::open(path)?;
            transcriber.reset();
            for second in 0.. {
                let read = audio.read(&mut samples)?;
                if read == 0 {
                    break;
                }
                transcriber.push_to(&samples[..read], &mut Silent, &mut sums)?;
                watch(path, second)?;
            }
            transcriber.finish_to(&mut Silent, &mut sums)?;
            remarks.extend(audio.remarks_on(path)?);
        }
        let mean = |(name, (rows, squares)): (String, (u64, Vec<f64>))| {
            let means = squares.into_iter().map(|square| (square / rows as f64) as f32);
            (name, means.collect())
        };
        Ok(Self {
            means: sums
                .0
                .into_iter()
                .map(|(role, sum)| mean((role.to_string(), sum)))
                .collect(),
            remarks,
        })
    }

    /// The mean square of each column's input, if it is known.
    pub(super) fn of(&self, role: Option<Role>) -> Option<&[f32]> {
        self.means.get(&input(role?).to_string()).map(Vec::as_slice)
    }
}

/// The role that stands for all of its input; see [`Probe::input`].
fn input(role: Role) -> Role {
    match role {
        Role::Encoder { layer, tensor } => {
            let tensor = match tensor {
                EncoderTensor::Wk | EncoderTensor::Wv => EncoderTensor::Wq,
                EncoderTensor::W3 => EncoderTensor::W1,
                other => other,
            };
            Role::Encoder { layer, tensor }
        }
        Role::Decoder { layer, tensor } => {
            let tensor = match tensor {
                DecoderTensor::Wk | DecoderTensor::Wv => DecoderTensor::Wq,
                DecoderTensor::W3 => DecoderTensor::W1,
                other => other,
            };
            Role::Decoder { layer, tensor }
        }
        single => single,
    }
}

/// Rows and sums of squares, by role. A list: roles are few, and come in the same order in every pass.
#[derive(Default)]
struct Sums(Vec<(Role, (u64, Vec<f64>))>);

impl Probe for Sums {
    fn stage(&mut self, _stage: Stage, _first: u64, _values: &[f32]) {}

    fn input(&mut self, role: Role, cols: usize, values: &[f32]) {
        let index = self.0.iter().position(|(known, _)| *known == role).unwrap_or_else(|| {
            self.0.push((role, (0, vec![0.0; cols])));
            self.0.len() - 1
        });
        let (rows, squares) = &mut self.0[index].1;
        for row in values.chunks_exact(cols.max(1)) {
            *rows += 1;
            for (sum, value) in squares.iter_mut().zip(row) {
                *sum += f64::from(*value) * f64::from(*value);
            }
        }
    }
}

/// Wants no tokens.
struct Silent;

impl Listener for Silent {
    fn token(&mut self, _token: &Decided<'_>) -> Result<(), Error> {
        Ok(())
    }
}
