//! Live audio: standard input, pauses, words with times, and how it ends.

mod ending;
mod gate;
mod input;
mod output;
mod support;
mod times;
