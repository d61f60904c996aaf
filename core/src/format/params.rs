//! `params.json`: the sizes of the model.

/// The whole of `params.json` that the engine uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// The causal audio encoder.
    pub encoder: EncoderParams,
    /// The text decoder.
    pub decoder: DecoderParams,
    /// Encoder frames that are concatenated to one decoder position (4).
    pub downsample_factor: usize,
    /// Maximum of the log-mel scale (1.5): everything 8 below it is clipped.
    pub global_log_mel_max: f32,
}

/// Sizes of the encoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EncoderParams {
    /// Width of the residual stream.
    pub dim: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads.
    pub n_kv_heads: usize,
    /// Width of one head (even).
    pub head_dim: usize,
    /// Width inside the feed-forward.
    pub hidden_dim: usize,
    /// Keys that a query sees, itself included.
    pub sliding_window: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Added to the mean square inside RMSNorm's root.
    pub norm_eps: f32,
    /// Whether wq, wv, wo and w2 have biases (the convolutions always have).
    pub use_biases: bool,
}

/// Sizes of the decoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecoderParams {
    /// Width of the residual stream.
    pub dim: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads (divides `n_heads`).
    pub n_kv_heads: usize,
    /// Width of one head (even).
    pub head_dim: usize,
    /// Width inside the feed-forward.
    pub hidden_dim: usize,
    /// Keys that a query sees, itself included.
    pub sliding_window: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Added to the mean square inside RMSNorm's root.
    pub norm_eps: f32,
    /// Rows of the token embedding.
    pub vocab_size: usize,
    /// Width of the delay conditioning's hidden layer.
    pub ada_dim: usize,
}
