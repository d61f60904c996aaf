//! The microphone, through ALSA.

use std::io;
use std::time::Instant;

use alsa::pcm::{Access, Format, HwParams, PCM};
use alsa::{Direction, ValueOr};
use voxtral_core::audio::SAMPLE_RATE;

use crate::error::Error;

/// Microseconds that the system keeps for us.
const BUFFER_US: u32 = 1_000_000;
/// Samples that are read at a time: 10 ms at the model's rate.
const BLOCK: usize = SAMPLE_RATE / 100;

/// A capture device, read as mono samples of its own rate.
pub(super) struct Microphone {
    device: String,
    pcm: PCM,
    rate: u32,
    block: [i16; BLOCK],
    /// Samples of `block` that are there, and how many of them were given.
    filled: usize,
    given: usize,
    last: Instant,
    lost: u64,
}

impl Microphone {
    /// Opens a device by its name in ALSA.
    ///
    /// # Errors
    /// [`Error::File`] with the name of the device.
    pub(super) fn open(device: &str) -> Result<Self, Error> {
        let refuse = |error| refuse(device, error);
        let pcm = PCM::new(device, Direction::Capture, false).map_err(refuse)?;
        let rate = configure(&pcm).map_err(refuse)?;
        pcm.start().map_err(refuse)?;
        Ok(Self {
            device: device.into(),
            pcm,
            rate,
            block: [0; BLOCK],
            filled: 0,
            given: 0,
            last: Instant::now(),
            lost: 0,
        })
    }

    /// In Hz.
    pub(super) fn rate(&self) -> u32 {
        self.rate
    }

    /// Fills `samples`: there is no end.
    ///
    /// # Errors
    /// [`Error::File`] if the device is gone.
    pub(super) fn read(&mut self, samples: &mut [f32]) -> Result<usize, Error> {
        for place in samples.iter_mut() {
            while self.given == self.filled {
                self.fill()?;
            }
            *place = f32::from(self.block[self.given]) / 32_768.0;
            self.given += 1;
        }
        Ok(samples.len())
    }

    /// Samples that the system lost because they were not read in time, since this was last asked; as far as the clock
    /// tells.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    fn fill(&mut self) -> Result<(), Error> {
        let read = self.pcm.io_i16().and_then(|io| io.readi(&mut self.block));
        match read {
            Ok(read) => (self.filled, self.given) = (read, 0),
            Err(error) => {
                if error.errno() == libc::EPIPE {
                    self.lost += (self.last.elapsed().as_secs_f64() * f64::from(self.rate)) as u64;
                }
                let again = self.pcm.try_recover(error, true).and_then(|()| self.pcm.start());
                again.map_err(|error| refuse(&self.device, error))?;
            }
        }
        self.last = Instant::now();
        Ok(())
    }
}

fn configure(pcm: &PCM) -> alsa::Result<u32> {
    let params = HwParams::any(pcm)?;
    params.set_access(Access::RWInterleaved)?;
    params.set_format(Format::S16LE)?;
    params.set_channels(1)?;
    let rate = params.set_rate_near(SAMPLE_RATE as u32, ValueOr::Nearest)?;
    params.set_buffer_time_near(BUFFER_US, ValueOr::Nearest)?;
    pcm.hw_params(&params)?;
    Ok(rate)
}

fn refuse(device: &str, error: alsa::Error) -> Error {
    Error::File {
        path: format!("microphone {device}").into(),
        source: io::Error::from_raw_os_error(error.errno()),
    }
}
