//! Audio files as people have them: every format, every rate, and what is no audio.

mod damage;
mod formats;
mod refusals;
mod resampling;
mod support;
