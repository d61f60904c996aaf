//! The weights, by role: views into the mapped file.

use core::fmt;

use super::binding::{Binding, DecoderTensor, EncoderTensor, Role, Slot};
use crate::format::params::Params;
use crate::kernels::{Executor, Kernels, Matrix, Ops};

/// A model: a file's bytes, seen through a [`Binding`]. A view, free to make.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    bytes: &'a [u8],
    slots: &'a [Slot],
    binding: &'a Binding,
    kernels: Kernels,
}

/// The bytes and slots handed to [`Model::new`] are not those the binding was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightsError {
    /// The first tensor that is not where the binding says.
    pub role: Role,
}

impl fmt::Display for WeightsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tensor {} is not in these bytes: they are not the file that was bound",
            self.role
        )
    }
}

impl core::error::Error for WeightsError {}

impl<'a> Model<'a> {
    /// The model in `bytes`, with the best kernels that core can detect.
    ///
    /// `bytes` and `slots` must be those the binding was made from. Others are noticed when a tensor is out of
    /// reach ([`WeightsError`] from the pass that wants it); they never lead outside `bytes`.
    pub fn new(bytes: &'a [u8], slots: &'a [Slot], binding: &'a Binding) -> Self {
        Self {
            bytes,
            slots,
            binding,
            kernels: Kernels::detect(),
        }
    }

    /// The same model computed by other kernels.
    pub fn with_kernels(self, kernels: Kernels) -> Self {
        Self { kernels, ..self }
    }

    /// The kernels it is computed by.
    pub fn kernels(&self) -> Kernels {
        self.kernels
    }

    /// Its sizes.
    pub fn params(&self) -> &'a Params {
        self.binding.params()
    }

    /// See [`Binding::fingerprint`].
    pub fn fingerprint(&self) -> u64 {
        self.binding.fingerprint()
    }

    /// Whether any of its weights lie in blocks; see [`Storage::is_blocks`](crate::kernels::Storage::is_blocks).
    pub fn has_blocks(&self) -> bool {
        let mut matrices = Role::all(self.params()).filter_map(|role| self.get(role).ok());
        matrices.any(|matrix| matrix.storage().is_blocks())
    }

    pub(crate) fn ops<'e>(&self, executor: &'e dyn Executor) -> Ops<'e> {
        Ops::new(self.kernels, executor)
    }

    /// The weights of one role, where they lie: a vector is a matrix of one row, a convolution has a row for each
    /// output channel.
    ///
    /// # Errors
    /// [`WeightsError`] if the model has no such tensor, or its bytes are not there.
    pub fn get(&self, role: Role) -> Result<Matrix<'a>, WeightsError> {
        let exists = match role {
            Role::Encoder { layer, .. } => (layer as usize) < self.params().encoder.n_layers,
            Role::Decoder { layer, .. } => (layer as usize) < self.params().decoder.n_layers,
            _ => true,
        };
        exists
            .then(|| self.binding.matrix(self.bytes, self.slots, role))
            .flatten()
            .ok_or(WeightsError { role })
    }

    pub(super) fn encoder_layer(&self, layer: usize) -> Result<EncoderLayer<'a>, WeightsError> {
        let layer = layer as u32;
        let weight = |tensor| self.get(Role::Encoder { layer, tensor });
        let biases = self.params().encoder.use_biases;
        let bias = |tensor| if biases { weight(tensor).map(Some) } else { Ok(None) };
        Ok(EncoderLayer {
            attention_norm: weight(EncoderTensor::AttentionNorm)?,
            wq: weight(EncoderTensor::Wq)?,
            wq_bias: bias(EncoderTensor::WqBias)?,
            wk: weight(EncoderTensor::Wk)?,
            wv: weight(EncoderTensor::Wv)?,
            wv_bias: bias(EncoderTensor::WvBias)?,
            wo: weight(EncoderTensor::Wo)?,
            wo_bias: bias(EncoderTensor::WoBias)?,
            ffn_norm: weight(EncoderTensor::FfnNorm)?,
            w1: weight(EncoderTensor::W1)?,
            w2: weight(EncoderTensor::W2)?,
            w2_bias: bias(EncoderTensor::W2Bias)?,
            w3: weight(EncoderTensor::W3)?,
        })
    }

    pub(super) fn decoder_layer(&self, layer: usize) -> Result<DecoderLayer<'a>, WeightsError> {
        let layer = layer as u32;
        let weight = |tensor| self.get(Role::Decoder { layer, tensor });
        Ok(DecoderLayer {
            attention_norm: weight(DecoderTensor::AttentionNorm)?,
            wq: weight(DecoderTensor::Wq)?,
            wk: weight(DecoderTensor::Wk)?,
            wv: weight(DecoderTensor::Wv)?,
            wo: weight(DecoderTensor::Wo)?,
            ffn_norm: weight(DecoderTensor::FfnNorm)?,
            w1: weight(DecoderTensor::W1)?,
            w2: weight(DecoderTensor::W2)?,
            w3: weight(DecoderTensor::W3)?,
        })
    }

    /// `A` and `B` of `s = B gelu(A t)`, the delay conditioning of one decoder layer.
    pub(super) fn ada(&self, layer: usize) -> Result<(Matrix<'a>, Matrix<'a>), WeightsError> {
        let layer = layer as u32;
        Ok((
            self.get(Role::Decoder {
                layer,
                tensor: DecoderTensor::AdaDown,
            })?,
            self.get(Role::Decoder {
                layer,
                tensor: DecoderTensor::AdaUp,
            })?,
        ))
    }
}

/// The weights of one encoder layer; wk, w1 and w3 never have biases.
pub(super) struct EncoderLayer<'a> {
    pub(super) attention_norm: Matrix<'a>,
    pub(super) wq: Matrix<'a>,
    pub(super) wq_bias: Option<Matrix<'a>>,
    pub(super) wk: Matrix<'a>,
    pub(super) wv: Matrix<'a>,
    pub(super) wv_bias: Option<Matrix<'a>>,
    pub(super) wo: Matrix<'a>,
    pub(super) wo_bias: Option<Matrix<'a>>,
    pub(super) ffn_norm: Matrix<'a>,
    pub(super) w1: Matrix<'a>,
    pub(super) w2: Matrix<'a>,
    pub(super) w2_bias: Option<Matrix<'a>>,
    pub(super) w3: Matrix<'a>,
}

/// The weights of one decoder layer.
pub(super) struct DecoderLayer<'a> {
    pub(super) attention_norm: Matrix<'a>,
    pub(super) wq: Matrix<'a>,
    pub(super) wk: Matrix<'a>,
    pub(super) wv: Matrix<'a>,
    pub(super) wo: Matrix<'a>,
    pub(super) ffn_norm: Matrix<'a>,
    pub(super) w1: Matrix<'a>,
    pub(super) w2: Matrix<'a>,
    pub(super) w3: Matrix<'a>,
}
