//! The safetensors reader and the reference implementation, the `safetensors` crate, on the same bytes.

use std::collections::{HashMap, HashSet};

use safetensors::SafeTensors;
use voxtral_core::format::json::{Event, Reader};
use voxtral_core::format::safetensors::{self as st, Entry, Error, Field, Header};

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
pub fn parse<R>(file: &[u8], look: impl FnOnce(Header<'_>) -> R) -> Result<R, Error> {
    let mut entries = vec![Entry::default(); st::count(file)?];
    let n = st::parse(file, &mut entries)?.len();
    assert_eq!(n, entries.len());
    // Made again from the plain data, as the owner of the entries does.
    Ok(look(Header::view(file, &entries)))
}

/// One file, both readers: one verdict and one content, or a case of the closed list. Gives our verdict.
#[track_caller]
pub fn agree(file: &[u8]) -> Result<(), Error> {
    let theirs = SafeTensors::deserialize(file);
    let shown = || String::from_utf8_lossy(file).chars().take(400).collect::<String>();
    let ours = parse(file, |header| {
        if let Ok(theirs) = &theirs {
            same_content(file, &header, theirs);
        }
        beyond_words(&header)
    });
    match (&ours, &theirs) {
        (Ok(true), Err(_)) => {}
        (Ok(false), Err(theirs)) => panic!("accepted here, {theirs:?} there: {}", shown()),
        (Ok(_), Ok(_)) => {
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
    if let Err(error) = &ours {
        for line in [error.to_string(), error.explain(file).to_string()] {
            assert!(
                !line.is_empty() && !line.contains(char::is_control),
                "one line for a person: {line:?}"
            );
        }
    }
    ours.map(drop)
}

/// Whether there may be more elements, or bits, than the reference can count: it does that in words of the machine, and
/// refuses what needs more even of tensors without elements. Here it is 64 bits everywhere.
fn beyond_words(header: &Header<'_>) -> bool {
    let counts = |bits: usize, size: u64| bits.checked_mul(usize::try_from(size).ok()?);
    let uncountable = |tensor: st::Tensor<'_>| {
        tensor
            .shape()
            .try_fold(tensor.dtype().bits() as usize, counts)
            .is_none()
    };
    usize::BITS < u64::BITS && header.iter().any(uncountable)
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
