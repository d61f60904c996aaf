//! Writing and reading safetensors files: the writer of generated models and of broken ones, and the reader from which
//! the f64 reference gets its weights. Shares nothing with the reader under test.

use std::collections::BTreeMap;

/// A type in which weights can be stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dtype {
    /// bfloat16, as published.
    Bf16,
    /// IEEE half.
    F16,
    /// IEEE single.
    F32,
}

impl Dtype {
    /// All of them.
    pub const ALL: [Dtype; 3] = [Dtype::Bf16, Dtype::F16, Dtype::F32];

    /// Its name in the header.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::Bf16 => "BF16",
            Dtype::F16 => "F16",
            Dtype::F32 => "F32",
        }
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Dtype::Bf16 | Dtype::F16 => 2,
            Dtype::F32 => 4,
        }
    }
}

/// A tensor with its bytes. Fields are free, so that tests can make it wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Its type as written in the header.
    pub dtype: String,
    /// Its extents.
    pub shape: Vec<usize>,
    /// Its elements, little-endian.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// The elements as f64. Panics for a type in which no weights are stored.
    pub fn values(&self) -> Vec<f64> {
        let halves = |widen: fn(u16) -> f64| {
            self.bytes
                .chunks_exact(2)
                .map(|b| widen(u16::from_le_bytes(b.try_into().expect("2 bytes"))))
                .collect()
        };
        match self.dtype.as_str() {
            "BF16" => halves(|bits| f64::from(f32::from_bits(u32::from(bits) << 16))),
            "F16" => halves(|bits| half::f16::from_bits(bits).to_f64()),
            "F32" => {
                let singles = self.bytes.chunks_exact(4);
                singles
                    .map(|b| f64::from(f32::from_le_bytes(b.try_into().expect("4 bytes"))))
                    .collect()
            }
            other => panic!("{}: weights of type {other}", self.name),
        }
    }
}

/// Length word and compact header, filled up with spaces to a multiple of 8. `entries` are name, type, shape and
/// number of bytes, and stand in the data one behind the other.
pub fn header<'a>(entries: impl Iterator<Item = (&'a str, &'a str, &'a [usize], usize)>) -> Vec<u8> {
    let mut offset = 0;
    let entries: Vec<String> = entries
        .map(|(name, dtype, shape, bytes)| {
            let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
            let (begin, end) = (offset, offset + bytes);
            offset = end;
            let name = serde_json::to_string(name).expect("a name is text");
            format!(
                r#"{name}:{{"dtype":"{dtype}","shape":[{}],"data_offsets":[{begin},{end}]}}"#,
                shape.join(",")
            )
        })
        .collect();
    let mut json = format!("{{{}}}", entries.join(","));
    while json.len() % 8 != 0 {
        json.push(' ');
    }
    raw_file(&json, &[])
}

/// A well-formed file of these tensors.
pub fn file(tensors: &[Tensor]) -> Vec<u8> {
    let mut bytes = header(
        tensors
            .iter()
            .map(|t| (t.name.as_str(), t.dtype.as_str(), t.shape.as_slice(), t.bytes.len())),
    );
    for tensor in tensors {
        bytes.extend_from_slice(&tensor.bytes);
    }
    bytes
}

/// A file of any header text, its true length in front, and any data behind.
pub fn raw_file(header: &str, data: &[u8]) -> Vec<u8> {
    let length = (header.len() as u64).to_le_bytes();
    [&length, header.as_bytes(), data].concat()
}

/// Reads a well-formed file. Panics for another.
pub fn read(bytes: &[u8]) -> BTreeMap<String, Tensor> {
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
    let (header, data) = bytes[8..].split_at(length);
    let header: serde_json::Value = serde_json::from_slice(header).expect("the header is JSON");
    let number = |v: &serde_json::Value| v.as_u64().expect("a whole number") as usize;
    let entries = header.as_object().expect("the header is an object").iter();
    entries
        .filter(|(name, _)| *name != "__metadata__")
        .map(|(name, entry)| {
            let range = number(&entry["data_offsets"][0])..number(&entry["data_offsets"][1]);
            let tensor = Tensor {
                name: name.clone(),
                dtype: entry["dtype"].as_str().expect("a type").into(),
                shape: entry["shape"].as_array().expect("a shape").iter().map(number).collect(),
                bytes: data[range].to_vec(),
            };
            (name.clone(), tensor)
        })
        .collect()
}
