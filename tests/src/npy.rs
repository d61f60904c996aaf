//! Reads the goldens: little-endian `.npy` arrays of 4- or 8-byte floats in C order.

use std::fs;
use std::path::Path;

/// An array, its values widened to double precision.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub shape: Vec<usize>,
    pub data: Vec<f64>,
}

/// Reads a file. Panics with the path when it is missing or is anything else than the module says: a golden that
/// cannot be read is a failed test.
pub fn read(path: impl AsRef<Path>) -> Array {
    let path = path.as_ref();
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse(&bytes).unwrap_or_else(|what| panic!("{}: {what}", path.display()))
}

fn parse(bytes: &[u8]) -> Result<Array, String> {
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or("not an .npy file")?;
    let (length, rest) = match rest {
        [1, _, a, b, rest @ ..] => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        _ => return Err("unknown .npy version".into()),
    };
    let (header, data) = rest.split_at_checked(length).ok_or("cut header")?;
    let header = std::str::from_utf8(header).map_err(|error| error.to_string())?;
    if !header.contains("'fortran_order': False") {
        return Err(format!("not in C order: {header}"));
    }
    let shape = header
        .split_once("'shape': (")
        .and_then(|(_, rest)| rest.split_once(')'));
    let shape: Vec<usize> = shape
        .ok_or("no shape")?
        .0
        .split(',')
        .filter(|size| !size.trim().is_empty())
        .map(|size| size.trim().parse().map_err(|error| format!("{size}: {error}")))
        .collect::<Result<_, _>>()?;
    let data: Vec<f64> = if header.contains("'<f4'") {
        data.chunks(4)
            .map(|value| value.try_into().map(|value| f32::from_le_bytes(value).into()))
            .collect::<Result<_, _>>()
    } else if header.contains("'<f8'") {
        data.chunks(8)
            .map(|value| value.try_into().map(f64::from_le_bytes))
            .collect::<Result<_, _>>()
    } else {
        return Err(format!("neither f4 nor f8: {header}"));
    }
    .map_err(|_| "cut value")?;
    if shape.iter().product::<usize>() != data.len() {
        return Err(format!("{} values for shape {shape:?}", data.len()));
    }
    Ok(Array { shape, data })
}
