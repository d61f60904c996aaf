//! Measuring this computer, and the model on it: what `voxtral bench` prints.
//!
//! A model on a CPU is bound by two limits: how fast memory is read, since every decoded position reads all weights of
//! the decoder, and how fast the processor multiplies, since the encoder has much to multiply for each second of audio.
//! Both are measured here, over the model's own file and with the instructions that the kernels use. Every operation
//! then runs in short windows ([`windows`]) that take turns with windows of the limit it is held against, because
//! neighbours and clock rates change both alike. A window in which a thread had no processor for a while is thrown away.
//!
//! In the order of the work: [`limits`] (by the loops of [`peak`]), [`operations`] at the shapes of the model, and
//! [`whole`] passes; then the [`memory`] of a transcription. [`realtime`] is by itself. Each of `operations` and `whole`
//! is a list of [`Case`]s, which cost nothing before they are prepared.

mod derived;
pub(crate) mod limits;
pub(crate) mod memory;
mod operations;
mod peak;
pub(crate) mod realtime;
mod whole;
mod windows;

use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use voxtral_core::kernels::{Kernels, Ops};
use voxtral_core::model;

use crate::error::Error;
use crate::interrupt;
pub(crate) use derived::Derived;
use limits::{Limits, Resource};
use windows::Crew;
pub(crate) use windows::Spread;

/// Least length of a window.
const WINDOW: Duration = Duration::from_micros(1500);
/// A window of a limit is this part of one call of what is held against it, if that is longer than [`WINDOW`], but no
/// longer than [`LONGEST_LIMIT`].
const LIMIT_PART: u32 = 8;
const LONGEST_LIMIT: Duration = Duration::from_millis(30);
/// Windows that count, at most.
const MOST_WINDOWS: usize = 41;
/// Windows that count, at least, if there are so many.
const LEAST_WINDOWS: usize = 3;
/// How many times its share of the time a case may take while too few of its windows counted.
const PATIENCE: u32 = 3;
/// How far the slower of the two windows of a limit may be behind the other. Beyond it something else went on in between.
const ALIKE: f64 = 0.8;

/// What a case computes and reads, in one call.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    /// Operations of the plain formula, a multiply-add being two.
    flop: f64,
    /// Bytes of weights, of caches, and for operations by element of values, that have to be read or written.
    bytes: f64,
}

/// One call of what is measured.
type Call<'a> = Box<dyn FnMut() -> Result<(), Error> + 'a>;

/// Something to measure.
pub(crate) struct Case<'a> {
    /// What part of the bench it belongs to.
    pub(crate) group: Group,
    /// What it is called, for any model.
    pub(crate) name: String,
    /// Its sizes in this model.
    pub(crate) detail: String,
    work: Work,
    /// Seconds of audio that one call is for; 1 for what does not depend on it.
    seconds_of_audio: f64,
    prepare: Box<dyn FnOnce() -> Result<Call<'a>, Error> + 'a>,
}

/// The parts of the bench behind the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Single operations.
    Operation,
    /// Passes through the model.
    Whole,
}

/// What was measured of a case.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// See [`Case::name`].
    pub(crate) name: String,
    /// What it was held against.
    pub(crate) resource: Resource,
    /// What the windows that counted told; `None` if there were none.
    pub(crate) told: Option<Told>,
    /// Windows that counted.
    pub(crate) windows: usize,
    /// Windows that others disturbed.
    pub(crate) discarded: usize,
}

/// Of all windows that counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// Seconds of one call, or of one second of audio.
    pub(crate) seconds: Spread,
    /// GB/s or GFLOP/s.
    pub(crate) rate: Spread,
    /// The same of the limit, in the windows beside.
    pub(crate) limit: Spread,
    /// One over the other, window by window.
    pub(crate) fraction: Spread,
}

/// What there is to measure, and how.
pub(crate) struct Bencher<'m> {
    model: model::Model<'m>,
    weights: &'m [u8],
    crew: Crew,
    limits: Limits<'m>,
    /// Time that each case gets.
    share: Duration,
    /// When no further case is begun.
    deadline: Instant,
    /// Whether weights come from a disk: its delays are no disturbance then.
    from_disk: bool,
    /// Where the time of encoder passes went, by the positions of the pass.
    passes: RefCell<Vec<(usize, whole::Parts)>>,
}

/// What the caller chooses.
pub(crate) struct Settings {
    /// What computes.
    pub(crate) kernels: Kernels,
    /// Threads that compute.
    pub(crate) threads: usize,
    /// Time to aim at.
    pub(crate) time: Duration,
    /// Whether the weights do not fit into memory.
    pub(crate) from_disk: bool,
}

impl<'m> Bencher<'m> {
    /// Over a model and the bytes of its weights.
    pub(crate) fn new(model: model::Model<'m>, weights: &'m [u8], settings: &Settings) -> Self {
        Self {
            model: model.with_kernels(settings.kernels),
            weights,
            crew: Crew::new(settings.threads),
            limits: Limits::new(settings.kernels, weights),
            share: settings.time,
            deadline: Instant::now() + Duration::from_secs(60) + 4 * settings.time,
            from_disk: settings.from_disk,
            passes: RefCell::default(),
        }
    }

    /// All cases with `word` in their names, in the order of the model.
    pub(crate) fn cases(&self, word: Option<&str>) -> Vec<Case<'_>> {
        let mut cases = operations::cases(self);
        cases.extend(whole::cases(self));
        cases.retain(|case| word.is_none_or(|word| case.name.contains(word)));
        cases
    }

    /// Shares the time out.
    pub(crate) fn set_cases(&mut self, count: usize) {
        self.share /= count.max(1) as u32;
    }

    /// Threads that compute.
    pub(crate) fn threads(&self) -> usize {
        self.crew.threads()
    }

    /// The limits; measured by [`Bencher::measure_limits`].
    pub(crate) fn limits(&self) -> &Limits<'m> {
        &self.limits
    }

    /// Measures the limits of `threads` threads; those of [`Bencher::threads`] are what cases are held against.
    pub(crate) fn measure_limits(&mut self, threads: usize) -> Result<limits::Measured, Error> {
        let budget = self.share.max(WINDOW);
        if threads == self.threads() {
            let measured = self.limits.measure(&self.crew, budget, self.from_disk)?;
            self.limits.hold(&measured);
            Ok(measured)
        } else {
            self.limits.measure(&Crew::new(threads), budget, self.from_disk)
        }
    }

    /// Reads all weights once, so that they are in memory. `told` is called with the bytes so far.
    ///
    /// It ends early when half of the time is up; then it says so by `false`.
    pub(crate) fn read_weights(&self, told: &mut dyn FnMut(usize)) -> Result<bool, Error> {
        const PIECE: usize = 256 << 20;
        let until = Instant::now() + self.deadline.saturating_duration_since(Instant::now()) / 2;
        for (index, piece) in self.weights.chunks(PIECE).enumerate() {
            check_interrupt()?;
            if Instant::now() > until {
                return Ok(false);
            }
            self.limits.read_piece(&self.crew, piece);
            told(index * PIECE + piece.len());
        }
        Ok(true)
    }

    /// What follows from everything that was measured.
    pub(crate) fn derive(&self, measured: &[Measured]) -> Vec<Derived> {
        derived::derive(self.model.params(), measured, &self.passes.borrow())
    }

    fn ops(&self) -> Ops<'_> {
        Ops::new(self.model.kernels(), &self.crew)
    }

    /// Measures a case, or `None` if the time is up.
    pub(crate) fn measure(&self, case: Case<'_>) -> Result<Option<Measured>, Error> {
        check_interrupt()?;
        if Instant::now() > self.deadline {
            return Ok(None);
        }
        let mut call = (case.prepare)()?;
        let Work { flop, bytes } = case.work;
        let resource = self.limits.binding(flop, bytes);
        let amount = 1e-9
            * match resource {
                Resource::Memory => bytes,
                Resource::Arithmetic => flop,
            };

        // Once for the caches, and to know how long it takes; what comes from a disk is not read twice for that.
        let start = Instant::now();
        let mut result = Ok(());
        let mut call = || {
            if result.is_ok() {
                result = call();
            }
        };
        if !self.from_disk {
            call();
        }
        let beside = (start.elapsed() / LIMIT_PART).clamp(WINDOW, LONGEST_LIMIT.max(WINDOW));

        let (mut seconds, mut rates, mut limits, mut fractions) = (vec![], vec![], vec![], vec![]);
        let mut discarded = 0;
        let start = Instant::now();
        loop {
            let before = self.limits.window(&self.crew, resource, beside);
            let during = self.crew.window(WINDOW, &mut call);
            let after = self.limits.window(&self.crew, resource, beside);
            let disturbed = [before.1, during, after.1].iter().any(|window| window.disturbed);
            let alike = before.0.min(after.0) >= ALIKE * before.0.max(after.0);
            if (disturbed || !alike) && !self.from_disk {
                discarded += 1;
            } else {
                let (rate, limit) = (amount / during.seconds, (before.0 + after.0) / 2.0);
                seconds.push(during.seconds / case.seconds_of_audio);
                rates.push(rate);
                limits.push(limit);
                fractions.push(rate / limit);
            }
            check_interrupt()?;
            let (spent, enough) = (start.elapsed(), seconds.len() >= LEAST_WINDOWS);
            let over =
                spent > self.share && (enough || self.from_disk) || spent > PATIENCE * self.share && discarded >= 5;
            if over || seconds.len() == MOST_WINDOWS || Instant::now() > self.deadline {
                break;
            }
        }
        result?;
        let windows = seconds.len();
        let told = || {
            Some(Told {
                seconds: Spread::of(seconds)?,
                rate: Spread::of(rates)?,
                limit: Spread::of(limits)?,
                fraction: Spread::of(fractions)?,
            })
        };
        Ok(Some(Measured {
            name: case.name,
            resource,
            told: told(),
            windows,
            discarded,
        }))
    }
}

fn check_interrupt() -> Result<(), Error> {
    if interrupt::flag().load(Ordering::Relaxed) {
        Err(Error::Interrupted)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;

    fn settings(time: Duration, from_disk: bool) -> Settings {
        Settings {
            kernels: Kernels::detect(),
            threads: 1,
            time,
            from_disk,
        }
    }

    /// Waiting for a disk is what such a model costs: nothing is thrown away for it, and nothing is done thrice.
    #[test]
    fn a_model_on_a_disk_is_measured_once_and_as_it_is() {
        let model = Model::embedded().unwrap();
        let mut bencher = Bencher::new(model.view(), model.weights(), &settings(Duration::ZERO, true));
        let limits = bencher.measure_limits(1).unwrap();
        assert!(limits.read.windows > 0 && limits.read.discarded == 0, "{limits:?}");
        let calls = RefCell::new(0);
        let case = Case {
            group: Group::Whole,
            name: "a nap".into(),
            detail: String::new(),
            work: Work { flop: 0.0, bytes: 1e6 },
            seconds_of_audio: 1.0,
            prepare: Box::new(|| {
                Ok(Box::new(|| {
                    *calls.borrow_mut() += 1;
                    std::thread::sleep(2 * WINDOW);
                    Ok(())
                }))
            }),
        };
        let measured = bencher.measure(case).unwrap().unwrap();
        assert_eq!((measured.windows, measured.discarded, *calls.borrow()), (1, 0, 1));
        assert_eq!(measured.resource, Resource::Memory);
        let told = measured.told.unwrap();
        assert!(
            told.seconds.min >= 0.003 && told.rate.max <= 0.34 && told.fraction.max < 1.0,
            "{told:?}"
        );
    }

    /// What fails is told, and after the deadline nothing is begun.
    #[test]
    fn errors_and_the_deadline_end_a_case() {
        let model = Model::embedded().unwrap();
        let mut bencher = Bencher::new(model.view(), model.weights(), &settings(Duration::ZERO, false));
        let case = |result: fn() -> Result<(), Error>| Case {
            group: Group::Operation,
            name: "one".into(),
            detail: String::new(),
            work: Work::default(),
            seconds_of_audio: 1.0,
            prepare: Box::new(move || Ok(Box::new(result))),
        };
        let failed = bencher.measure(case(|| Err(Error::NoModel)));
        assert!(matches!(failed, Err(Error::NoModel)));
        assert!(bencher.measure(case(|| Ok(()))).unwrap().is_some());
        bencher.deadline = Instant::now();
        std::thread::sleep(Duration::from_millis(1));
        assert!(bencher.measure(case(|| Err(Error::NoModel))).unwrap().is_none());
    }

    /// Of all cases, none is prepared before it is measured, and all have their own names.
    #[test]
    fn names_are_unique_and_words_choose() {
        let model = Model::embedded().unwrap();
        let bencher = Bencher::new(model.view(), model.weights(), &settings(Duration::ZERO, false));
        let mut names: Vec<_> = bencher.cases(None).into_iter().map(|case| case.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(
            bencher
                .cases(Some("rope"))
                .iter()
                .all(|case| case.name.contains("rope"))
        );
        assert_eq!(bencher.cases(Some("rope")).len(), 2);
        assert!(bencher.cases(Some("no such")).is_empty());
    }
}
