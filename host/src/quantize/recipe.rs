//! Which storage each tensor gets.

use std::fmt;

use clap::ValueEnum;
use voxtral_core::format::params::Params;
use voxtral_core::kernels::Storage;
use voxtral_core::model::{DecoderTensor, EncoderTensor, Role};

/// How small the weights become. Norms, biases, the convolutions and the delay conditioning stay as they are in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Recipe {
    /// 8 bits everywhere: 8.5 bits per weight with the scales
    Q8,
    /// 4 bits everywhere: 4.5 bits per weight with the scales
    Q4,
    /// 4 bits, and 8 where errors cost most for their size: embeddings and output head, adapter, first and last layers,
    /// the weights of values
    Mixed,
}

impl Recipe {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Q8 => "q8",
            Self::Q4 => "q4",
            Self::Mixed => "mixed",
        }
    }

    /// What a role is stored as if its rows can be; `None` to leave it.
    pub(crate) fn storage(self, role: Role, params: &Params) -> Option<Storage> {
        if !role.takes_blocks() {
            return None;
        }
        Some(match self {
            Self::Q8 => Storage::Q8,
            Self::Q4 => Storage::Q4,
            Self::Mixed if is_sensitive(role, params) => Storage::Q8,
            Self::Mixed => Storage::Q4,
        })
    }
}

/// What the recipe mixed keeps at 8 bits. Chosen by the mean KL divergence of the small model (`voxtral quantize --set`,
/// `voxtral compare`): with 4 bits for one of these instead it grows to a multiple for the output head, about twofold
/// for the decoder's first layer, by half for the values and the encoder's first layer, by a third for the adapter, and
/// by a tenth for the last layers. Queries and keys gain next to nothing, and the feed-forward maps of all layers little
/// for their size.
fn is_sensitive(role: Role, params: &Params) -> bool {
    let is_outer = |layer: u32, layers: usize| layer == 0 || layer as usize + 1 == layers;
    match role {
        Role::TokenEmbeddings | Role::AdapterIn | Role::AdapterOut => true,
        Role::Encoder { layer, tensor } => is_outer(layer, params.encoder.n_layers) || tensor == EncoderTensor::Wv,
        Role::Decoder { layer, tensor } => is_outer(layer, params.decoder.n_layers) || tensor == DecoderTensor::Wv,
        _ => false,
    }
}

/// Another storage than the recipe's for some tensors: `PART=q8|q4|keep`.
#[derive(Clone, Debug)]
pub(crate) struct Override {
    /// Tensors whose name has this in it.
    part: String,
    storage: Option<Storage>,
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let storage = match self.storage {
            Some(Storage::Q8) => "q8",
            Some(_) => "q4",
            None => "keep",
        };
        write!(f, "{}={storage}", self.part)
    }
}

impl Override {
    /// Takes an argument apart.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "it has to be PART=q8, PART=q4 or PART=keep".to_string();
        let (part, storage) = text
            .rsplit_once('=')
            .filter(|(part, _)| !part.is_empty())
            .ok_or_else(wrong)?;
        let storage = match storage {
            "q8" => Some(Storage::Q8),
            "q4" => Some(Storage::Q4),
            "keep" => None,
            _ => return Err(wrong()),
        };
        Ok(Self {
            part: part.into(),
            storage,
        })
    }

    /// What the names of its tensors have in them.
    pub(super) fn part(&self) -> &str {
        &self.part
    }

    /// Its storage for a tensor, if that is one of its.
    pub(super) fn of(&self, name: &str) -> Option<Option<Storage>> {
        name.contains(&self.part).then_some(self.storage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_taken_apart() {
        let wv = Override::parse("attention.wv=q8").unwrap();
        assert_eq!(wv.of("layers.0.attention.wv.weight"), Some(Some(Storage::Q8)));
        assert_eq!(wv.of("layers.0.attention.wk.weight"), None);
        assert_eq!(Override::parse("a=b=keep").unwrap().of("a=b"), Some(None));
        for text in ["", "q8", "=q8", "x=", "x=q5", "x=Q8"] {
            assert!(Override::parse(text).is_err(), "{text}");
        }
    }
}
