//! The elements of a tensor, copied into a buffer or one by one.

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

    /// Copies the data of a BF16 tensor, as the bits of its elements.
    ///
    /// Other types are refused, since most of their values are not bf16 values: read them as f32 and choose a rounding.
    ///
    /// # Errors
    /// [`Error::UnsupportedDtype`], [`Error::WrongLength`] unless `out` has as many elements, [`Error::OutOfReach`].
    /// `out` is then as it was.
    pub fn read_bf16(&self, out: &mut [u16]) -> Result<(), Error> {
        match self.dtype() {
            Dtype::Bf16 => self.read(out, u16::from_le_bytes),
            found => Err(Error::UnsupportedDtype {
                tensor: self.name_span(),
                found,
            }),
        }
    }

    /// Copies the data of a BF16, F16 or F32 tensor as f32, exactly.
    ///
    /// # Errors
    /// [`Error::UnsupportedDtype`], [`Error::WrongLength`] unless `out` has as many elements, [`Error::OutOfReach`].
    /// `out` is then as it was.
    pub fn read_f32(&self, out: &mut [f32]) -> Result<(), Error> {
        match self.dtype() {
            Dtype::Bf16 => self.read(out, |bits| f32::from_bits(u32::from(u16::from_le_bytes(bits)) << 16)),
            Dtype::F16 => self.read(out, |bits| half::f16::from_le_bytes(bits).to_f32_const()),
            Dtype::F32 => self.read(out, f32::from_le_bytes),
            found => Err(Error::UnsupportedDtype {
                tensor: self.name_span(),
                found,
            }),
        }
    }

    /// Converts all elements, each of `N` bytes.
    fn read<T, const N: usize>(&self, out: &mut [T], convert: impl Fn([u8; N]) -> T) -> Result<(), Error> {
        let (expected, found) = (self.elements(), out.len() as u64);
        if expected != found {
            return Err(Error::WrongLength {
                tensor: self.name_span(),
                expected,
                found,
            });
        }
        let mut rest = self.bytes()?;
        for out in out {
            let Some((element, tail)) = rest.split_first_chunk::<N>() else {
                break;
            };
            *out = convert(*element);
            rest = tail;
        }
        Ok(())
    }
}
