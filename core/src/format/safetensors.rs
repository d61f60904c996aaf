//! The safetensors container: a length, a JSON header, tensor data.

/// Element type of a tensor, as the header names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dtype {
    /// bfloat16
    Bf16,
    /// IEEE half
    F16,
    /// IEEE single
    F32,
}

/// One tensor of the index: plain data, offsets only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {}

/// A parsed file: the header's bytes and the index over them.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    bytes: &'a [u8],
    entries: &'a [Entry],
}

/// A tensor of a parsed file.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    bytes: &'a [u8],
    entry: &'a Entry,
}

impl<'a> Header<'a> {
    /// The tensor of that name.
    pub fn get(&self, _name: &str) -> Option<Tensor<'a>> {
        let _ = (self.bytes, self.entries);
        None
    }
}
impl<'a> Tensor<'a> {
    /// Element type.
    pub fn dtype(&self) -> Dtype {
        Dtype::Bf16
    }
    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        let _ = (self.bytes, self.entry);
        0
    }
    /// The dimensions, outermost first.
    pub fn shape(&self) -> impl Iterator<Item = u64> + 'a {
        core::iter::empty()
    }
    /// Byte range of the data, counted from the start of the file.
    pub fn range(&self) -> core::ops::Range<u64> {
        0..0
    }
}
