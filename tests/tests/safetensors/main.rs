//! The safetensors reader against the reference implementation, the `safetensors` crate 0.8.0: the same files
//! accepted, the same tensors found, but for a closed list of cases in which the reader here is stricter.
//!
//! Tests are named by the rows of this table.
//!
//! | # | trigger | right |
//! |---|---|---|
//! | S1 | file cut at any byte (every prefix of a small file) | error: file has N bytes, header wants M |
//! | S2 | header length 0, 1, larger than the file, 100 000 001, 2^63, 2^64-1 | error before anything is sized by it; the limit (100 000 000) stands in the message |
//! | S3 | trailing bytes after the last tensor; a hole between tensors; first tensor not at 0; two tensors overlapping | error that says which of the four and where |
//! | S4 | the same name twice, also when one is written with `\u` escapes | error "duplicate" (stricter than the reference on purpose: it lets the last one win) |
//! | S5 | shape × dtype ≠ byte range: [1000,1000] F32 over 4 bytes; [2^32,2^32]; [2^63,2,0]; 2^53+1; negative or fractional numbers; end < begin; [-1,4] | error, no wrap, no float rounding |
//! | S6 | zero-size tensors ([0], [4,0]) with begin = end; scalars ([]) | accepted; [1] over an empty range is an error |
//! | S7 | unknown dtype name; known dtypes we cannot compute with (I64, F64, F8_*, BOOL, U8) | unknown: error; known: listed and range-checked, error only when the model needs that tensor |
//! | S8 | `__metadata__` with braces, quotes and escapes inside strings; absent; empty; with non-string values | read correctly; non-string value: error |
//! | S9 | header padded with spaces; whitespace everywhere; keys in any order; extra keys in an entry | what the reference implementation does |
//! | S10 | odd header length so that BF16 data is at an odd address; a U8[1] tensor before a BF16 one | works, no undefined behaviour, any target |
//! | S11 | names that are not UTF-8, contain NUL, are empty, are 10 kB long | error or accepted as the reference implementation does; never cut silently |
//! | S12 | 100 000 nested `[`; unquoted keys; trailing comma; second JSON value after the first | error, bounded stack |
//! | S13 | more tensors than the index the caller supplied | error that tells the number needed |
//! | S14 | only metadata, zero tensors | accepted |
//! | S15 | data beyond 2 GiB and 4 GiB (sparse file) | offsets exact |
//! | S17 | dtype F32 or F16 instead of BF16 | F32/F16 work |
//! | S18 | what the reference does in corners | accepted there and here: leading white space in the header, `"__metadata__": null`, an unknown extra key of any JSON value nested up to 125 deep, shape [0,2^63,2] (multiplied in order). Refused there and here: nesting of 126, `1e999`, a lone surrogate, `-0`/`8.0`/`8e0` as an offset, [2^63,2,0], a second `__metadata__`, a field twice within one entry, a 4-bit type with an odd number of elements. Accepted there, refused here on purpose (the closed list of differences, all stricter): duplicate names; an entry written as an array; `"dtype":{"F32":null}` |

mod contents;
mod mutations;
mod refusals;

use std::collections::{HashMap, HashSet};

use safetensors::SafeTensors;
use voxtral_core::format::json::{Event, Reader};
use voxtral_core::format::safetensors::{self as st, Entry, Error, Field, Header};

/// A file of that header and `data_len` bytes of data, no two neighbours alike.
fn file(header: impl AsRef<[u8]>, data_len: usize) -> Vec<u8> {
    let header = header.as_ref();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend((0..data_len).map(|i| (i * 7 + 1) as u8));
    file
}

/// The closed list of what the reference accepts and the reader here refuses.
#[derive(Debug, Default)]
struct Stricter {
    duplicate_name: bool,
    array_entry: bool,
    object_dtype: bool,
}

impl Stricter {
    fn than_reference(file: &[u8]) -> Self {
        let mut found = Self::default();
        let header_len = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        let mut reader = Reader::new(&file[8..8 + header_len]);
        let mut names = HashSet::new();
        assert_eq!(reader.next(), Ok(Event::BeginObject));
        while let Event::Key(name) = reader.next().unwrap() {
            if name == "__metadata__" {
                reader.skip_value().unwrap();
                continue;
            }
            found.duplicate_name |= !names.insert(name.to_string());
            match reader.next().unwrap() {
                Event::BeginArray => {
                    found.array_entry = true;
                    reader.skip_container().unwrap();
                }
                Event::BeginObject => {
                    while let Event::Key(field) = reader.next().unwrap() {
                        let mut value = reader;
                        found.object_dtype |= field == "dtype" && value.next() == Ok(Event::BeginObject);
                        reader.skip_value().unwrap();
                    }
                }
                other => panic!("{other:?} as an entry"),
            }
        }
        found
    }
}

/// Parses a file here, with as many entries as [`st::count`] asks for.
fn parse<R>(file: &[u8], look: impl FnOnce(Header<'_>) -> R) -> Result<R, Error> {
    let mut entries = vec![Entry::default(); st::count(file)?];
    let n = st::parse(file, &mut entries)?.len();
    assert_eq!(n, entries.len());
    // Made again from the plain data, as the owner of the entries does.
    Ok(look(Header::view(file, &entries)))
}

/// One file, both readers: one verdict and one content, or a case of the closed list. Gives our verdict.
#[track_caller]
fn agree(file: &[u8]) -> Result<(), Error> {
    let theirs = SafeTensors::deserialize(file);
    let shown = || String::from_utf8_lossy(file).chars().take(400).collect::<String>();
    let ours = parse(file, |header| {
        if let Ok(theirs) = &theirs {
            same_content(file, &header, theirs);
        }
    });
    match (&ours, &theirs) {
        (Ok(()), Err(theirs)) => panic!("accepted here, {theirs:?} there: {}", shown()),
        (Ok(()), Ok(_)) => {
            let stricter = Stricter::than_reference(file);
            assert!(
                !stricter.duplicate_name && !stricter.array_entry && !stricter.object_dtype,
                "{}",
                shown()
            );
        }
        (Err(ours), Ok(_)) => {
            let stricter = Stricter::than_reference(file);
            let listed = match ours {
                Error::DuplicateTensor { .. } => stricter.duplicate_name,
                Error::InvalidEntry { .. } => stricter.array_entry,
                Error::InvalidField {
                    field: Field::Dtype, ..
                } => stricter.object_dtype,
                _ => false,
            };
            assert!(listed, "{ours:?} here, accepted there: {}", shown());
        }
        (Err(_), Err(_)) => {}
    }
    if let Err(error) = ours {
        for line in [error.to_string(), error.explain(file).to_string()] {
            assert!(
                !line.is_empty() && !line.contains(char::is_control),
                "one line for a person: {line:?}"
            );
        }
    }
    ours
}

fn same_content(file: &[u8], header: &Header<'_>, theirs: &SafeTensors<'_>) {
    assert_eq!(header.len(), theirs.len());
    assert_eq!(header.is_empty(), theirs.is_empty());
    let mut names: Vec<String> = theirs.names().into_iter().map(String::from).collect();
    names.sort();
    assert_eq!(header.iter().map(|t| t.name().to_string()).collect::<Vec<_>>(), names);
    for name in &names {
        let (ours, theirs) = (header.get(name).unwrap(), theirs.tensor(name).unwrap());
        assert_eq!(ours.name(), name.as_str());
        assert_eq!(ours.name_span().resolve(file), Some(ours.name()));
        assert_eq!(ours.dtype().name(), theirs.dtype().to_string());
        assert_eq!(ours.dtype().to_string(), theirs.dtype().to_string());
        assert_eq!(ours.dtype().bits() as usize, theirs.dtype().bitsize());
        assert_eq!(ours.rank(), theirs.shape().len());
        assert!(ours.shape().eq(theirs.shape().iter().map(|&d| d as u64)));
        assert_eq!(
            ours.elements(),
            theirs.shape().iter().map(|&d| d as u64).product::<u64>()
        );
        let bytes = ours.bytes().unwrap();
        assert_eq!(
            bytes.as_ptr_range(),
            theirs.data().as_ptr_range(),
            "the same bytes in place"
        );
        assert_eq!(
            ours.range().start as usize,
            bytes.as_ptr() as usize - file.as_ptr() as usize
        );
        assert_eq!((ours.range().end - ours.range().start) as usize, bytes.len());
        assert!(header.get(&format!("{name}\0")).is_none());
    }
    let by_offset: Vec<_> = header.iter_by_offset().collect();
    assert!(
        by_offset
            .windows(2)
            .all(|pair| pair[0].range().end == pair[1].range().start)
    );
    assert_eq!(by_offset.len(), names.len());
    assert_eq!(
        by_offset.first().map_or(header.data_start(), |t| t.range().start),
        header.data_start()
    );
    assert_eq!(
        by_offset.last().map_or(header.data_start(), |t| t.range().end),
        file.len() as u64
    );
    assert_eq!(
        by_offset
            .iter()
            .map(|t| t.name().to_string())
            .collect::<HashSet<_>>()
            .len(),
        names.len()
    );

    let ours: HashMap<String, String> = header.metadata().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let (data_start, metadata) = SafeTensors::read_metadata(file).unwrap();
    assert_eq!(header.data_start(), data_start as u64 + 8);
    assert_eq!(ours, metadata.metadata().clone().unwrap_or_default());
}

/// A file of one tensor `t`.
fn one(dtype: &str, shape: &str, offsets: &str, data_len: usize) -> Vec<u8> {
    file(
        format!(r#"{{"t":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}}}"#),
        data_len,
    )
}

/// Three tensors of 4, 2 and 6 bytes, not in the order of their data, with metadata.
const SMALL: &str = concat!(
    r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[3,1],"data_offsets":[6,12]},"#,
    r#""a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"c":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}}"#
);
