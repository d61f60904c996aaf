//! Views of weights in place.

/// How the elements of a matrix are stored, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// bfloat16, 2 bytes.
    Bf16,
    /// IEEE half precision, 2 bytes.
    F16,
    /// IEEE single precision, 4 bytes.
    F32,
}

/// A row-major matrix of weights over borrowed bytes of any alignment.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    bytes: &'a [u8],
    rows: usize,
    cols: usize,
    storage: Storage,
}

impl<'a> Matrix<'a> {
    /// A view of `rows * cols` elements, or `None` if `bytes` has another length.
    pub fn new(bytes: &'a [u8], rows: usize, cols: usize, storage: Storage) -> Option<Self> {
        let size = match storage {
            Storage::Bf16 | Storage::F16 => 2,
            Storage::F32 => 4,
        };
        let wanted = rows.checked_mul(cols)?.checked_mul(size)?;
        (bytes.len() == wanted).then_some(Self {
            bytes,
            rows,
            cols,
            storage,
        })
    }
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }
    /// The storage of its elements.
    pub fn storage(&self) -> Storage {
        self.storage
    }
    /// Its bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}
