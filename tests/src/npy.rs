//! Reading NumPy's `.npy` files: little-endian float32 or float64 in C order, which is all that the goldens use.

use std::path::Path;

/// An array of any rank, widened to f64.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Extents, slowest first.
    pub shape: Vec<usize>,
    /// The elements in C order.
    pub data: Vec<f64>,
}

/// Reads the array stored at `path`. Panics if the file is missing or is of another kind.
pub fn read(path: impl AsRef<Path>) -> Array {
    let path = path.as_ref();
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(&bytes[..6], b"\x93NUMPY", "{}: not an .npy file", path.display());
    // Version 1 has a header length of 2 bytes, later ones of 4.
    let (start, length) = match bytes[6] {
        1 => (10, usize::from(u16::from_le_bytes([bytes[8], bytes[9]]))),
        _ => (
            12,
            u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize,
        ),
    };
    let header = std::str::from_utf8(&bytes[start..start + length]).expect("the header is text");
    assert!(
        header.contains("'fortran_order': False"),
        "{}: not in C order",
        path.display()
    );
    let (_, shape) = header.split_once("'shape': (").expect("the header has a shape");
    let (shape, _) = shape.split_once(')').expect("the shape is a tuple");
    let shape: Vec<usize> = shape
        .split(',')
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .map(|s| s.parse().expect("an extent"))
        .collect();
    let body = &bytes[start + length..];
    let data: Vec<f64> = if header.contains("'<f4'") {
        body.chunks_exact(4)
            .map(|b| f64::from(f32::from_le_bytes(b.try_into().expect("4 bytes"))))
            .collect()
    } else {
        assert!(header.contains("'<f8'"), "{}: neither f4 nor f8", path.display());
        body.chunks_exact(8)
            .map(|b| f64::from_le_bytes(b.try_into().expect("8 bytes")))
            .collect()
    };
    assert_eq!(
        data.len(),
        shape.iter().product::<usize>(),
        "{}: size and shape differ",
        path.display()
    );
    Array { shape, data }
}
