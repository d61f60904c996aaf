//! The elements of a tensor one by one, for whoever has no room for all of them.

use super::{Dtype, Error, Tensor};

impl<'a> Tensor<'a> {
    /// The elements of a BF16, F16 or F32 tensor as f32, exactly, in their order; read as they are asked for.
    ///
    /// # Errors
    /// [`Error::UnsupportedDtype`], [`Error::OutOfReach`].
    pub fn values(&self) -> Result<impl Iterator<Item = f32> + Clone + use<'a>, Error> {
        let dtype = self.dtype();
        let size = match dtype {
            Dtype::Bf16 | Dtype::F16 => 2,
            Dtype::F32 => 4,
            found => {
                return Err(Error::UnsupportedDtype {
                    tensor: self.name_span(),
                    found,
                });
            }
        };
        Ok(self
            .bytes()?
            .chunks_exact(size)
            .map(move |element| match (dtype, element) {
                (Dtype::F16, &[a, b]) => half::f16::from_le_bytes([a, b]).to_f32_const(),
                (_, &[a, b]) => f32::from_le_bytes([0, 0, a, b]),
                (_, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
                // There is no chunk of another size.
                _ => f32::NAN,
            }))
    }
}
