//! `tekken.json`: the vocabulary.

/// What the schedule needs from `tekken.json`, and the way to the text of each id.
#[derive(Clone, Copy, Debug)]
pub struct Vocabulary {
    /// `<s>`, the first id of every prompt.
    pub bos: u32,
    /// `</s>`, the end of text.
    pub eos: u32,
    /// `[STREAMING_PAD]`.
    pub streaming_pad: u32,
    /// `[STREAMING_WORD]`.
    pub streaming_word: u32,
    /// Audio tokens of silence before the first sample (32).
    pub left_pad_tokens: usize,
    /// The delay the model is used with, in audio tokens of 80 ms (6).
    pub delay_tokens: usize,
}
