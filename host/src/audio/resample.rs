//! Band-limited resampling to the rate of the model.
//!
//! Each output sample is one scalar product of the input around it with a windowed sinc (rubato's), which lets pass
//! what is below half of the lower rate and nothing above. Position is exact: output sample `j` is the signal at
//! `j / 16000` seconds, and `n` samples of input become `round(n * 16000 / rate)`, however long they are.

use std::ops::Range;

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{
    Async, FixedAsync, Resampler as _, SincInterpolationParameters, SincInterpolationType, WindowFunction,
    calculate_cutoff,
};
use voxtral_core::audio::SAMPLE_RATE;

/// Length of the filter in periods of the lower rate. With [`WINDOW`] what is above half of the lower rate is damped by
/// more than 80 dB, and what is below 0.9 of that passes.
const TAPS: usize = 256;
const WINDOW: WindowFunction = WindowFunction::Blackman2;

/// Up to so many positions between two input samples each have their own filter, and output falls on no others. All
/// usual rates are of this kind. Otherwise (44 101 Hz) it is interpolated between the filters of [`STEPS`] positions.
const MOST_PHASES: usize = 1024;
const STEPS: usize = 256;

/// Input is worked on in pieces of this fraction of a second.
const PIECES_PER_SECOND: u32 = 50;

/// Turns samples of one rate into samples of [`SAMPLE_RATE`], which it pulls through itself.
pub(super) struct Resampler {
    sinc: Async<f32>,
    rate: u64,
    input: Box<[f32]>,
    /// Zeros before the first sample of the input.
    lead: usize,
    output: Box<[f32]>,
    /// What of `output` has not been taken.
    ready: Range<usize>,
    /// Output samples that lie before the input.
    early: usize,
    /// Samples of input, and whether these are all.
    taken: u64,
    ended: bool,
    given: u64,
}

impl Resampler {
    /// `rate` is that of the input in Hz, 1000 to 768 000.
    pub(super) fn new(rate: u32) -> Self {
        let divisor = gcd(rate as usize, SAMPLE_RATE);
        // Output sample j is at j * step / phases input samples.
        let (step, phases) = (rate as usize / divisor, SAMPLE_RATE / divisor);
        let taps = (TAPS * rate as usize)
            .div_ceil(SAMPLE_RATE)
            .max(TAPS)
            .next_multiple_of(8);
        let (interpolation, steps) = if phases <= MOST_PHASES {
            (SincInterpolationType::Nearest, phases)
        } else {
            (SincInterpolationType::Cubic, STEPS)
        };
        let parameters = SincInterpolationParameters::new(taps, WINDOW)
            .f_cutoff(calculate_cutoff(TAPS, WINDOW))
            .oversampling_factor(steps)
            .interpolation(interpolation);
        let piece = rate.div_ceil(PIECES_PER_SECOND) as usize;
        let ratio = SAMPLE_RATE as f64 / f64::from(rate);
        let sinc = Async::new_sinc(ratio, 1.0, &parameters, piece, 1, FixedAsync::Input)
            .expect("the ratio is positive and pieces are not empty");

        // The first output lies half a filter before the first input, but for one step of output and one step
        // between the filters. So many zeros are put before the input that some output falls exactly on its beginning.
        let late = usize::from(interpolation_is_exact(steps, phases));
        let lead = (0..step)
            .find(|lead| (phases * (taps / 2 + lead) - late) % step == 0)
            .unwrap_or_default();
        let early = (phases * (taps / 2 + lead) - late) / step - 1;
        Self {
            output: vec![0.0; sinc.output_frames_max()].into(),
            sinc,
            rate: rate.into(),
            input: vec![0.0; piece].into(),
            lead,
            ready: 0..0,
            early,
            taken: 0,
            ended: false,
            given: 0,
        }
    }

    /// Fills `samples` from the start and says how many there are, 0 at the end. `source` fills a slice with samples of
    /// the input in the same manner.
    ///
    /// # Errors
    /// Those of the source.
    pub(super) fn read<E>(
        &mut self,
        samples: &mut [f32],
        mut source: impl FnMut(&mut [f32]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let mut written = 0;
        while written < samples.len() {
            let left = self.left();
            if left == 0 {
                break;
            }
            if self.ready.is_empty() {
                self.advance(&mut source)?;
                continue;
            }
            let most = usize::try_from(left).unwrap_or(usize::MAX);
            let count = self.ready.len().min(samples.len() - written).min(most);
            let from = self.ready.start;
            samples[written..written + count].copy_from_slice(&self.output[from..from + count]);
            self.ready.start += count;
            self.given += count as u64;
            written += count;
        }
        Ok(written)
    }

    /// Samples of output still to come, as far as this is known.
    fn left(&self) -> u64 {
        if self.ended {
            // Half a sample is rounded up.
            let out = SAMPLE_RATE as u64;
            let whole = self.taken / self.rate * out;
            let rest = self.taken % self.rate * out;
            whole + (2 * rest + self.rate) / (2 * self.rate) - self.given
        } else {
            u64::MAX
        }
    }

    /// Works on the next piece of input; zeros follow its end.
    fn advance<E>(&mut self, source: &mut impl FnMut(&mut [f32]) -> Result<usize, E>) -> Result<(), E> {
        let zeros = self.lead.min(self.input.len());
        self.lead -= zeros;
        self.input[..zeros].fill(0.0);
        let mut filled = zeros;
        while filled < self.input.len() && !self.ended {
            let read = source(&mut self.input[filled..])?;
            self.ended = read == 0;
            self.taken += read as u64;
            filled += read;
        }
        self.input[filled..].fill(0.0);

        let capacity = self.output.len();
        let input = InterleavedSlice::new(&self.input, 1, self.input.len()).expect("one channel");
        let mut output = InterleavedSlice::new_mut(&mut self.output, 1, capacity).expect("one channel");
        let (_, made) = self
            .sinc
            .process_into_buffer(&input, &mut output, None)
            .expect("the buffers have the sizes that it asked for");
        let early = self.early.min(made);
        self.early -= early;
        self.ready = early..made;
        Ok(())
    }
}

fn interpolation_is_exact(steps: usize, phases: usize) -> bool {
    steps == phases
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
