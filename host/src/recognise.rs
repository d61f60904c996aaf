//! Files that are something else than they should be: what they are, and what to do about it.
//!
//! Asked only after a file was refused: a valid safetensors file may begin like any of these, since its first bytes
//! are a number.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use voxtral_core::format::image::Image;
use voxtral_core::format::safetensors;

use crate::error::Error;
use crate::map::Bytes;
use crate::model::{FILES, download_hint};

/// Bytes from the start of a file that are looked at.
pub(crate) const LOOKED_AT: usize = 4096;

/// Most characters of an unknown text that a message shows.
const SHOWN_CHARS: usize = 80;

/// What a file turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// No bytes at all.
    Empty,
    /// Zeros: the space was reserved, and nothing came.
    Zeros,
    /// A web page.
    Html,
    /// XML, as storage services send instead of a file.
    Xml,
    /// The stand-in that Git has for a large file.
    LfsPointer,
    /// A JSON document.
    Json,
    /// Some other short text; the beginning of it.
    Text(String),
    /// Packed by the program of that name.
    Packed {
        /// What it is called.
        format: &'static str,
        /// The command that unpacks it.
        unpack: &'static str,
    },
    /// A tar archive.
    Tar,
    /// A ZIP archive without a PyTorch checkpoint.
    Zip,
    /// A checkpoint of `torch.save`: ZIP, or bare pickle.
    PyTorch,
    /// Weights for llama.cpp and its kin, GGUF or an older format of theirs.
    Gguf,
    /// A model that was packed into one image for flash.
    Image,
    /// Weights in another format.
    Other(&'static str),
}

impl Kind {
    /// What a file is of which these are the first bytes, or all of them.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let start = &bytes[..bytes.len().min(LOOKED_AT)];
        let text = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start).trim_ascii_start();
        let is = |magic: &[u8]| start.starts_with(magic);
        let packed = |format, unpack| Some(Self::Packed { format, unpack });
        match start {
            [] => return Some(Self::Empty),
            _ if start.len() >= 8 && start.iter().all(|&byte| byte == 0) => return Some(Self::Zeros),
            _ if is(b"version https://git-lfs") => return Some(Self::LfsPointer),
            _ if is(b"\x1F\x8B") => return packed("gzip", "gunzip"),
            _ if is(b"\xFD7zXZ\0") => return packed("xz", "unxz"),
            _ if is(b"\x28\xB5\x2F\xFD") => return packed("zstd", "unzstd"),
            _ if is(b"BZh") => return packed("bzip2", "bunzip2"),
            _ if is(b"7z\xBC\xAF\x27\x1C") => return packed("7z", "7z x"),
            _ if start.get(257..262) == Some(b"ustar") => return Some(Self::Tar),
            _ if is(b"PK\x03\x04") || is(b"PK\x05\x06") => {
                let pickle = start.windows(8).any(|name| name == b"data.pkl");
                return Some(if pickle { Self::PyTorch } else { Self::Zip });
            }
            // Pickle protocol 2 to 5, and the opcodes with which a checkpoint goes on: a long number, a frame, a
            // container, a global name.
            [0x80, 2..=5, 0x8A | 0x95 | b'}' | b']' | b'(' | b'c', ..] => return Some(Self::PyTorch),
            _ if [&b"GGUF"[..], b"FUGG", b"lmgg", b"fmgg", b"tjgg", b"algg"]
                .iter()
                .any(|&m| is(m)) =>
            {
                return Some(Self::Gguf);
            }
            _ if Image::is_one(start) => return Some(Self::Image),
            _ if is(b"\x89HDF\r\n\x1A\n") => return Some(Self::Other("HDF5")),
            _ if is(b"\x93NUMPY") => return Some(Self::Other("NumPy")),
            _ if start.get(4..8) == Some(b"TFL3") => return Some(Self::Other("TensorFlow Lite")),
            _ if is_onnx(start) => return Some(Self::Other("ONNX")),
            _ => {}
        }
        let lower = text[..text.len().min(16)].to_ascii_lowercase();
        if [&b"<!doctype html"[..], b"<html", b"<head", b"<body"]
            .iter()
            .any(|tag| lower.starts_with(tag))
        {
            return Some(Self::Html);
        }
        if lower.starts_with(b"<?xml") || lower.starts_with(b"<error") {
            // XHTML announces itself so, too.
            let html = start.windows(5).any(|tag| tag.eq_ignore_ascii_case(b"<html"));
            return Some(if html { Self::Html } else { Self::Xml });
        }
        let printable = std::str::from_utf8(start).ok().filter(|text| {
            let plain = |c: char| !c.is_control() || c.is_ascii_whitespace();
            bytes.len() <= LOOKED_AT && text.chars().all(plain)
        });
        match (text.first(), printable) {
            (Some(b'{' | b'['), Some(_)) => Some(Self::Json),
            // A JSON document that does not end here goes on as one begins.
            (Some(b'{'), None) if text[1..].trim_ascii_start().starts_with(b"\"") => Some(Self::Json),
            (Some(_), Some(text)) => {
                let line = text.trim().lines().next().unwrap_or_default();
                Some(Self::Text(line.chars().take(SHOWN_CHARS).collect()))
            }
            _ => None,
        }
    }

    /// What to do to get the file that should be at `path`.
    pub(crate) fn advice(&self, path: &Path) -> String {
        match self {
            Self::Json if is_json_by_name(path) => "give the .safetensors file, or the directory of the model".into(),
            Self::Empty | Self::Html | Self::Xml | Self::Json | Self::Text(_) => {
                format!("remove it and {}", get(path))
            }
            Self::Zeros => format!(
                "the download reserved the space and stopped; remove it and {}",
                get(path)
            ),
            Self::LfsPointer => "get the file itself with: git lfs pull".into(),
            Self::Packed { unpack, .. } => format!("unpack it with {unpack} first"),
            Self::Tar => "unpack it with: tar -xf".into(),
            Self::Zip => "unpack it with unzip first".into(),
            Self::Image => "give the directory that it was packed from".into(),
            Self::PyTorch | Self::Gguf | Self::Other(_) => {
                format!("the engine reads the original safetensors files; {}", get(path))
            }
        }
    }

    /// One line for a person: what the file at `path` is, and what to do.
    pub fn tell(&self, path: &Path) -> String {
        format!("this is {self}; {}", self.advice(path))
    }
}

/// Whether a regular file is a packed model by its first bytes.
pub(crate) fn is_image(path: &Path) -> bool {
    let mut start = [0; 8];
    Bytes::file(path)
        .and_then(|(mut file, _)| file.read_exact(&mut start))
        .is_ok_and(|()| Image::is_one(&start))
}

/// Whether a JSON document is what the name promises.
fn is_json_by_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("an empty file"),
            Self::Zeros => f.write_str("a file of zeros"),
            Self::Html => f.write_str("an HTML page, as a server sends instead of a file that it will not give"),
            Self::Xml => f.write_str("an XML message, as a server sends instead of a file that it will not give"),
            Self::LfsPointer => f.write_str("a Git LFS pointer, which only stands for the file"),
            Self::Json => f.write_str("a JSON document"),
            Self::Text(line) => write!(f, "a text that begins with “{line}”"),
            Self::Packed { format, .. } => write!(f, "a file packed by {format}"),
            Self::Tar => f.write_str("a tar archive"),
            Self::Zip => f.write_str("a ZIP archive"),
            Self::PyTorch => f.write_str("a PyTorch checkpoint (pickle)"),
            Self::Gguf => f.write_str("a GGUF or GGML file, weights for llama.cpp"),
            Self::Image => f.write_str("a model packed for flash"),
            Self::Other(format) => write!(f, "a file in the {format} format"),
        }
    }
}

/// A protocol buffer that begins like ONNX: the version of the format, then a name of letters, or the graph.
fn is_onnx(start: &[u8]) -> bool {
    match *start {
        [0x08, 1..=20, 0x12, len @ 1..=64, ref rest @ ..] => rest
            .get(..usize::from(len))
            .is_some_and(|name| name.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')),
        _ => false,
    }
}

/// How to get a file again: the command for those of the published model, words for others.
fn get(path: &Path) -> String {
    match name(path) {
        Some(file) => format!("get it with: {}", download_hint(file)),
        None => "download it again".into(),
    }
}

/// The name of the file if it is one of the published model.
fn name(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?;
    FILES.into_iter().find(|file| name == *file)
}

/// The error for a file that the reader refused, of which these are the first bytes or all.
pub(crate) fn refusal(path: PathBuf, bytes: &[u8], source: safetensors::Error) -> Error {
    // Once the header is a JSON object, it is a safetensors file, good or bad.
    use safetensors::Error as E;
    let unlike = matches!(
        source,
        E::HeaderTooSmall { .. }
            | E::HeaderTooLarge { .. }
            | E::InvalidHeaderLength { .. }
            | E::InvalidHeader { .. }
            | E::InvalidHeaderStart { .. }
    );
    match Kind::of(bytes).filter(|_| unlike) {
        Some(found) => Error::NotWeights { path, found },
        None => {
            let hint = hint(&source, &path);
            let explained = source.explain(bytes).to_string();
            Error::Safetensors {
                path,
                source,
                explained,
                hint,
            }
        }
    }
}

/// What to do about a fault of a file that is a safetensors file, or should be.
fn hint(error: &safetensors::Error, path: &Path) -> Option<String> {
    use safetensors::Error as E;
    Some(match error {
        E::Truncated { .. } | E::InvalidHeaderLength { .. } => match name(path) {
            Some(file) => format!("if the download was cut, go on with: {}", download_hint(file)),
            None => "if the download was cut, curl -C - goes on where it stopped".into(),
        },
        E::TrailingBytes { .. } => format!("two downloads may have gone into one file; remove it and {}", get(path)),
        E::HeaderTooSmall { .. } | E::HeaderTooLarge { .. } | E::InvalidHeaderStart { .. } => {
            format!("this does not begin like a safetensors file; {}", get(path))
        }
        E::InvalidHeader { .. } | E::InvalidJson { .. } => {
            format!("the header is damaged; {}", get(path))
        }
        E::InvalidMetadata { .. }
        | E::InvalidEntry { .. }
        | E::InvalidField { .. }
        | E::MissingField { .. }
        | E::DuplicateField { .. }
        | E::UnknownDtype { .. }
        | E::DuplicateTensor { .. }
        | E::EndBeforeBegin { .. }
        | E::FirstNotAtZero { .. }
        | E::Hole { .. }
        | E::Overlap { .. }
        | E::ValidationOverflow { .. }
        | E::MisalignedSlice { .. }
        | E::TensorInvalidInfo { .. } => {
            "the program that wrote the file did not follow the format; write it again with the safetensors library"
                .into()
        }
        E::OutOfReach { .. } => "the file does not fit the address space of this machine".into(),
        E::TooManyTensors { .. } | E::UnsupportedDtype { .. } | E::WrongLength { .. } => return None,
    })
}
