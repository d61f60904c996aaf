//! A safetensors file, opened and indexed: mapped whole, or its header alone where the file does not fit the address
//! space.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use voxtral_core::format::safetensors::{self, Entry, Header};

use crate::error::Error;
use crate::map::{Bytes, Mapper};
use crate::recognise;

/// An indexed file. No tensor has been read.
pub struct WeightsFile {
    path: PathBuf,
    bytes: Bytes,
    len: u64,
    entries: Vec<Entry>,
}

impl WeightsFile {
    /// Maps a file and reads its header. If the file does not fit the address space, its tensors can be listed but
    /// not read ([`safetensors::Error::OutOfReach`]).
    ///
    /// # Errors
    /// [`Error::File`], [`Error::NotWeights`], [`Error::Safetensors`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_within(path, Bytes::MAX_LEN)
    }

    /// [`WeightsFile::open`] where `limit` bytes fit the address space.
    fn open_within(path: &Path, limit: u64) -> Result<Self, Error> {
        let refuse = |source| Error::File {
            path: path.into(),
            source,
        };
        let (file, len) = Bytes::file(path).map_err(refuse)?;
        let mapped = if len > limit {
            None
        } else {
            match Bytes::map(&file, len, path, Mapper::default()) {
                // The addresses are enough, but not in one piece.
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => None,
                mapped => Some(mapped.map_err(refuse)?),
            }
        };
        let bytes = match mapped {
            Some(bytes) => bytes,
            None => Bytes::Read(read_header(&file).map_err(refuse)?),
        };
        Self::index(path.into(), bytes, len)
    }

    /// Indexes a file of `len` bytes, of which `bytes` are the first at least up to the end of the header.
    pub(crate) fn index(path: PathBuf, bytes: Bytes, len: u64) -> Result<Self, Error> {
        let parsed = safetensors::count(&bytes).and_then(|count| {
            let mut entries = vec![Entry::default(); count];
            safetensors::parse_prefix(&bytes, len, &mut entries)?;
            Ok(entries)
        });
        match parsed {
            Ok(entries) => Ok(Self {
                path,
                bytes,
                len,
                entries,
            }),
            Err(source) => Err(recognise::refusal(path, &bytes, source)),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes. No such file is a safetensors file.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The index.
    pub fn header(&self) -> Header<'_> {
        Header::view(&self.bytes, &self.entries)
    }

    /// The error about this file for an error about one of its tensors.
    pub fn refusal(&self, source: safetensors::Error) -> Error {
        recognise::refusal(self.path.clone(), &self.bytes, source)
    }

    /// The bytes, for whoever needs the index no longer.
    pub(crate) fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

/// Reads up to the end of the header, or as much as there is of it. If its length is impossible, only that.
fn read_header(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    file.take(LENGTH_WORD).read_to_end(&mut bytes)?;
    if let Ok(end) = safetensors::prefix_len(&bytes) {
        let more = (end as u64).saturating_sub(LENGTH_WORD);
        file.take(more).read_to_end(&mut bytes)?;
    } else {
        // What it is instead can be told from its beginning.
        file.take(recognise::LOOKED_AT as u64).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Bytes of the number in front of the header.
const LENGTH_WORD: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Sparse files around what fits: the index is the same, the data is out of reach only if it was not mapped.
    #[test]
    fn s15_what_does_not_fit_the_address_space_is_listed_by_its_header() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("large.safetensors");
        let data = 5u64 << 30;
        let json = format!(
            r#"{{"a":{{"dtype":"U8","shape":[{0}],"data_offsets":[0,{0}]}},
                "b":{{"dtype":"F32","shape":[2],"data_offsets":[{0},{1}]}}}}"#,
            data,
            data + 8
        );
        fs::write(&path, [&(json.len() as u64).to_le_bytes(), json.as_bytes()].concat()).unwrap();
        let len = 8 + json.len() as u64 + data + 8;
        File::options().write(true).open(&path).unwrap().set_len(len).unwrap();

        for (limit, mapped) in [(len, cfg!(target_pointer_width = "64")), (len - 1, false), (0, false)] {
            let file = WeightsFile::open_within(&path, limit).unwrap();
            assert_eq!((file.len(), file.header().len()), (len, 2), "{limit}");
            let tensor = file.header().get("b").unwrap();
            assert_eq!(tensor.range(), len - 8..len, "{limit}");
            assert_eq!(tensor.bytes().is_ok(), mapped, "{limit}");
            assert_eq!(matches!(file.bytes, Bytes::Read(_)), !mapped, "{limit}");
            if let Err(error) = tensor.bytes() {
                let line = file.refusal(error).to_string();
                assert!(line.contains("address space") && line.contains('b'), "{line}");
            }
        }

        // Faults are found by the header alone, too.
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(len - 1)
            .unwrap();
        for limit in [len, 0] {
            let error = WeightsFile::open_within(&path, limit).err().unwrap();
            let line = error.to_string();
            assert!(
                line.contains(&len.to_string()) && line.contains(&(len - 1).to_string()),
                "{line}"
            );
        }
        fs::write(&path, "<!DOCTYPE html>\n<title>404</title>").unwrap();
        for limit in [len, 0] {
            let error = WeightsFile::open_within(&path, limit).err().unwrap();
            assert!(error.to_string().contains("HTML"), "{error}");
        }
    }
}
