//! The safetensors container: the length of a header (8 bytes, little-endian), the header (JSON), tensor data.
//!
//! ```text
//! {"__metadata__": {"any": "string"},
//!  "name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}, …}
//! ```
//!
//! As strict as the reference implementation (the `safetensors` crate, 0.8.0): the data of all tensors together covers
//! everything behind the header, without holes or overlaps. Three things that it accepts are refused here: a name that
//! stands twice (it lets the last one win), an entry written as an array, and `{"F32": null}` as a `dtype`.
//!
//! Nothing is copied. The index is plain data in storage of the caller, who may keep it beside the bytes and make the
//! [`Header`] again whenever it is wanted.
//!
//! ```
//! use voxtral_core::format::safetensors::{self, Dtype, Entry};
//!
//! let header = br#"{"w":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}"#;
//! let mut file = (header.len() as u64).to_le_bytes().to_vec();
//! file.extend(header);
//! file.extend([0x80, 0x3F, 0x00, 0xC0]);
//!
//! let mut entries = vec![Entry::default(); safetensors::count(&file)?];
//! let header = safetensors::parse(&file, &mut entries)?;
//! let tensor = header.get("w").expect("it is there");
//! assert_eq!(tensor.dtype(), Dtype::Bf16);
//! let mut values = [0.0; 2];
//! tensor.read_f32(&mut values)?;
//! assert_eq!(values, [1.0, -2.0]);
//! # Ok::<(), safetensors::Error>(())
//! ```

use core::cmp::Ordering;
use core::ops::Range;

use super::json::{Event, Reader, Str};
use super::sort::sort_by;

mod blocks;
mod dtype;
mod error;
mod values;

pub use blocks::{Blocks, Label};
pub use dtype::Dtype;
pub use error::{Error, Explained, Field, NameSpan};

/// Most bytes that a header may have.
pub const MAX_HEADER_LEN: u64 = 100_000_000;

/// Bytes of the header's length.
const LENGTH_LEN: usize = 8;

/// The key of the header that is no tensor.
const METADATA: &str = "__metadata__";

/// How keys of metadata begin that tell of a tensor's storage; see [`Blocks`].
const METADATA_BLOCKS: &str = "voxtral.blocks.";

/// One tensor of the index: plain data, offsets only. The default stands for nothing yet.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    name: NameSpan,
    /// Place of the shape's `[` in the file.
    shape: u32,
    rank: u32,
    /// Index of the tensor that is as many-th in the order of the data as this entry is in the order of names.
    by_offset: u32,
    dtype: Dtype,
    /// Where the metadata tells of its storage.
    blocks: Option<NameSpan>,
    /// Offsets as in the header, counted from its end.
    begin: u64,
    end: u64,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            name: NameSpan::default(),
            shape: 0,
            rank: 0,
            by_offset: 0,
            dtype: Dtype::Bool,
            blocks: None,
            begin: 0,
            end: 0,
        }
    }
}

/// A parsed file: its bytes and the index over them.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    bytes: &'a [u8],
    entries: &'a [Entry],
    data_start: u64,
}

/// A tensor of a parsed file.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    bytes: &'a [u8],
    entry: Entry,
    data_start: u64,
}

/// Bytes from the start of a file to the end of its header. `start` is the file's beginning, at least 8 bytes of it.
///
/// Whoever does not have the whole file in memory reads so many and calls [`parse_prefix`].
pub fn prefix_len(start: &[u8]) -> Result<usize, Error> {
    let Some((length, _)) = start.split_first_chunk::<LENGTH_LEN>() else {
        return Err(Error::HeaderTooSmall {
            found: start.len() as u64,
        });
    };
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER_LEN {
        return Err(Error::HeaderTooLarge { found: length });
    }
    let length = usize::try_from(length).map_err(|_| Error::HeaderTooLarge { found: length })?;
    length
        .checked_add(LENGTH_LEN)
        .ok_or(Error::HeaderTooLarge { found: length as u64 })
}

/// Entries that [`parse`] needs for this file. `bytes` may be the whole file or just the header.
pub fn count(bytes: &[u8]) -> Result<usize, Error> {
    scan(header(bytes, bytes.len() as u64)?, &mut [])
}

/// Checks a whole file and fills the index.
///
/// Takes as many `entries` as the file has tensors, sorted by name afterwards; after an error their content is
/// unspecified. Runs in O(n log n) for n tensors.
pub fn parse<'a>(bytes: &'a [u8], entries: &'a mut [Entry]) -> Result<Header<'a>, Error> {
    parse_prefix(bytes, bytes.len() as u64, entries)
}

/// As [`parse`], for a file of `file_len` bytes of which only the first are at hand: at least [`prefix_len`].
///
/// The offsets are checked against `file_len` and are exact beyond what the address space can hold.
pub fn parse_prefix<'a>(bytes: &'a [u8], file_len: u64, entries: &'a mut [Entry]) -> Result<Header<'a>, Error> {
    let header = header(bytes, file_len)?;
    let given = entries.len();
    let needed = scan(header, entries)?;
    let Some(entries) = entries.get_mut(..needed) else {
        return Err(Error::TooManyTensors { needed, given });
    };

    check_names(entries, bytes)?;
    for (index, entry) in entries.iter_mut().enumerate() {
        // The place in the order of names, for the way back. In the order of the data, these are what is to stand here.
        entry.by_offset = index as u32;
    }
    let order = |entry: &Entry| (entry.begin, entry.end, entry.name.start);
    sort_by(entries, |a, b| order(a) < order(b));
    let mut data_end = 0;
    for (index, entry) in entries.iter().enumerate() {
        check_place(entry, data_end, index == 0)?;
        check_size(entry, bytes)?;
        data_end = entry.end;
    }
    let header_end = file_offset(header.len());
    let expected = header_end.saturating_add(data_end);
    match data_end.cmp(&file_len.saturating_sub(header_end)) {
        Ordering::Less => {
            return Err(Error::TrailingBytes {
                expected,
                found: file_len,
            });
        }
        Ordering::Greater => {
            return Err(Error::Truncated {
                expected,
                found: file_len,
            });
        }
        Ordering::Equal => {}
    }
    back_to_names(entries);
    note_blocks(bytes, entries);
    Ok(Header::view(bytes, entries))
}

/// Notes with each tensor, in the order of names, where the metadata tells of its storage.
fn note_blocks(bytes: &[u8], entries: &mut [Entry]) {
    let Some(mut reader) = Header::view(bytes, &[]).metadata_reader() else {
        return;
    };
    while let (Ok(Event::Key(key)), Ok(Event::String(text))) = (reader.next(), reader.next()) {
        let mut name = key.bytes();
        if !name.by_ref().take(METADATA_BLOCKS.len()).eq(METADATA_BLOCKS.bytes()) {
            continue;
        }
        let order = |entry: &Entry| match entry.name.resolve(bytes) {
            Some(found) => found.bytes().cmp(name.clone()),
            None => Ordering::Less,
        };
        let found = entries.binary_search_by(order).ok();
        if let Some(entry) = found.and_then(|index| entries.get_mut(index)) {
            entry.blocks = Some(span(&reader, text));
        }
    }
}

/// No name stands twice. Looked at before the data, or two tensors of one name and place would count as an overlap.
/// Leaves the entries in the order of names.
fn check_names(entries: &mut [Entry], bytes: &[u8]) -> Result<(), Error> {
    let name = |entry: &Entry| entry.name.resolve(bytes);
    sort_by(entries, |a, b| {
        name(a).cmp(&name(b)).then(a.name.start.cmp(&b.name.start)).is_lt()
    });
    for pair in entries.windows(2) {
        if let [Entry { name: first, .. }, Entry { name: second, .. }] = *pair {
            if first.resolve(bytes) == second.resolve(bytes) {
                return Err(Error::DuplicateTensor { first, second });
            }
        }
    }
    Ok(())
}

/// The JSON text of the header, known to be UTF-8 and to begin like an object.
fn header(bytes: &[u8], file_len: u64) -> Result<&[u8], Error> {
    let end = prefix_len(bytes)?;
    let found = file_len.min(bytes.len() as u64);
    let header = bytes.get(LENGTH_LEN..end).filter(|_| end as u64 <= file_len);
    let header = header.ok_or(Error::InvalidHeaderLength {
        expected: end as u64,
        found,
    })?;
    if let Err(error) = core::str::from_utf8(header) {
        return Err(Error::InvalidHeader {
            offset: file_offset(error.valid_up_to()),
        });
    }
    let white_space = header.iter().take_while(|byte| b" \n\r\t".contains(byte)).count();
    if header.get(white_space) != Some(&b'{') {
        return Err(Error::InvalidHeaderStart {
            offset: file_offset(white_space),
        });
    }
    Ok(header)
}

/// An offset in the header as one in the file.
fn file_offset(header_offset: usize) -> u64 {
    (header_offset as u64).saturating_add(LENGTH_LEN as u64)
}

/// The same for places that are stored; a header is too short for them to overflow.
fn place(header_offset: usize) -> u32 {
    u32::try_from(file_offset(header_offset)).unwrap_or(u32::MAX)
}

/// The place of the string that begins at the reader's last event.
fn span(reader: &Reader<'_>, string: Str<'_>) -> NameSpan {
    let start = place(reader.event_offset().saturating_add(1));
    NameSpan {
        start,
        len: u32::try_from(string.raw().len()).unwrap_or(u32::MAX),
    }
}

/// Reads the header from end to end. Stores as many entries as fit; returns how many there are.
fn scan(header: &[u8], entries: &mut [Entry]) -> Result<usize, Error> {
    let mut reader = Reader::new(header);
    let mut slots = entries.iter_mut();
    let mut count = 0usize;
    let mut metadata_seen = false;
    reader.next().map_err(Error::json)?;
    while let Event::Key(key) = reader.next().map_err(Error::json)? {
        if key == METADATA {
            if metadata_seen {
                return Err(Error::InvalidMetadata {
                    offset: file_offset(reader.event_offset()),
                });
            }
            metadata_seen = true;
            scan_metadata(&mut reader)?;
        } else {
            let name = span(&reader, key);
            let entry = scan_entry(&mut reader, name)?;
            if let Some(slot) = slots.next() {
                *slot = entry;
            }
            count = count.saturating_add(1);
        }
    }
    reader.next().map_err(Error::json)?;
    Ok(count)
}

fn scan_metadata(reader: &mut Reader<'_>) -> Result<(), Error> {
    match reader.next().map_err(Error::json)? {
        Event::Null => return Ok(()),
        Event::BeginObject => {}
        _ => {
            return Err(Error::InvalidMetadata {
                offset: file_offset(reader.event_offset()),
            });
        }
    }
    loop {
        match reader.next().map_err(Error::json)? {
            Event::Key(_) | Event::String(_) => {}
            Event::EndObject => return Ok(()),
            _ => {
                return Err(Error::InvalidMetadata {
                    offset: file_offset(reader.event_offset()),
                });
            }
        }
    }
}

/// Reads the value of one tensor.
fn scan_entry(reader: &mut Reader<'_>, tensor: NameSpan) -> Result<Entry, Error> {
    if reader.next().map_err(Error::json)? != Event::BeginObject {
        return Err(Error::InvalidEntry {
            tensor,
            offset: file_offset(reader.event_offset()),
        });
    }
    let (mut dtype, mut shape, mut offsets) = (None, None, None);
    while let Event::Key(key) = reader.next().map_err(Error::json)? {
        let Some(field) = Field::ALL.into_iter().find(|field| key == field.name()) else {
            reader.skip_value().map_err(Error::json)?;
            continue;
        };
        let seen = match field {
            Field::Dtype => dtype.is_some(),
            Field::Shape => shape.is_some(),
            Field::DataOffsets => offsets.is_some(),
        };
        if seen {
            return Err(Error::DuplicateField {
                tensor,
                field,
                offset: file_offset(reader.event_offset()),
            });
        }
        match field {
            Field::Dtype => dtype = Some(scan_dtype(reader, tensor)?),
            Field::Shape => {
                let mut rank = 0u32;
                let start = scan_integers(reader, tensor, field, |_| {
                    rank = rank.saturating_add(1);
                    true
                })?;
                shape = Some((start, rank));
            }
            Field::DataOffsets => {
                let mut pair = (None, None);
                scan_integers(reader, tensor, field, |value| {
                    let slot = if pair.0.is_none() { &mut pair.0 } else { &mut pair.1 };
                    slot.replace(value).is_none()
                })?;
                let (Some(begin), Some(end)) = pair else {
                    return Err(Error::InvalidField {
                        tensor,
                        field,
                        offset: file_offset(reader.event_offset()),
                    });
                };
                offsets = Some((begin, end));
            }
        }
    }
    let missing = |field| Error::MissingField { tensor, field };
    let dtype = dtype.ok_or(missing(Field::Dtype))?;
    let (shape, rank) = shape.ok_or(missing(Field::Shape))?;
    let (begin, end) = offsets.ok_or(missing(Field::DataOffsets))?;
    Ok(Entry {
        name: tensor,
        shape,
        rank,
        by_offset: 0,
        dtype,
        blocks: None,
        begin,
        end,
    })
}

fn scan_dtype(reader: &mut Reader<'_>, tensor: NameSpan) -> Result<Dtype, Error> {
    let event = reader.next().map_err(Error::json)?;
    let offset = file_offset(reader.event_offset());
    let Event::String(name) = event else {
        return Err(Error::InvalidField {
            tensor,
            field: Field::Dtype,
            offset,
        });
    };
    Dtype::ALL
        .into_iter()
        .find(|dtype| name == dtype.name())
        .ok_or(Error::UnknownDtype { tensor, offset })
}

/// Reads a list of integers, which `take` may refuse; returns the place of its bracket.
fn scan_integers(
    reader: &mut Reader<'_>,
    tensor: NameSpan,
    field: Field,
    mut take: impl FnMut(u64) -> bool,
) -> Result<u32, Error> {
    let mut event = reader.next().map_err(Error::json)?;
    let start = place(reader.event_offset());
    if event == Event::BeginArray {
        loop {
            event = reader.next().map_err(Error::json)?;
            match event {
                Event::EndArray => return Ok(start),
                Event::Number(number) if number.as_u64().is_some_and(&mut take) => {}
                _ => break,
            }
        }
    }
    Err(Error::InvalidField {
        tensor,
        field,
        offset: file_offset(reader.event_offset()),
    })
}

/// Data of a tensor follows on that of the one before.
fn check_place(entry: &Entry, previous_end: u64, first: bool) -> Result<(), Error> {
    let Entry {
        name: tensor,
        begin,
        end,
        ..
    } = *entry;
    match begin.cmp(&previous_end) {
        Ordering::Greater if first => Err(Error::FirstNotAtZero { tensor, begin }),
        Ordering::Greater => Err(Error::Hole {
            tensor,
            begin,
            previous_end,
        }),
        Ordering::Less => Err(Error::Overlap {
            tensor,
            begin,
            previous_end,
        }),
        Ordering::Equal if end < begin => Err(Error::EndBeforeBegin { tensor, begin, end }),
        Ordering::Equal => Ok(()),
    }
}

/// Data of a tensor is as long as its shape and element type say.
fn check_size(entry: &Entry, bytes: &[u8]) -> Result<(), Error> {
    let tensor = entry.name;
    let elements = shape(entry, bytes).try_fold(1u64, u64::checked_mul);
    let bits = elements.and_then(|elements| elements.checked_mul(u64::from(entry.dtype.bits())));
    let bits = bits.ok_or(Error::ValidationOverflow { tensor })?;
    if bits & 7 != 0 {
        return Err(Error::MisalignedSlice { tensor, bits });
    }
    let (expected, found) = (bits >> 3, entry.end.saturating_sub(entry.begin));
    if expected != found {
        return Err(Error::TensorInvalidInfo {
            tensor,
            expected,
            found,
        });
    }
    Ok(())
}

/// The dimensions of a tensor, read again from the header.
fn shape<'a>(entry: &Entry, bytes: &'a [u8]) -> impl Iterator<Item = u64> + use<'a> {
    let text = usize::try_from(entry.shape).ok().and_then(|start| bytes.get(start..));
    let mut reader = Reader::new(text.unwrap_or_default());
    let is_list = reader.next() == Ok(Event::BeginArray);
    let rank = if is_list {
        usize::try_from(entry.rank).unwrap_or(usize::MAX)
    } else {
        0
    };
    core::iter::from_fn(move || match reader.next() {
        Ok(Event::Number(number)) => number.as_u64(),
        _ => None,
    })
    .take(rank)
}

/// Moves every entry from its place in the order of the data to that in the order of names, which its `by_offset`
/// tells; the `by_offset` itself stays where it is.
fn back_to_names(entries: &mut [Entry]) {
    for index in 0..entries.len() {
        // Follows the cycle that the entry lies on, once: places already left are marked in the top bit.
        let Some(mut carried) = entries
            .get_mut(index)
            .filter(|entry| entry.by_offset & LEFT == 0)
            .map(leave)
        else {
            continue;
        };
        while let Some(place) = entries.get_mut(carried.by_offset as usize) {
            let next = leave(place);
            *place = Entry {
                by_offset: place.by_offset,
                ..carried
            };
            if next.by_offset & LEFT != 0 {
                break;
            }
            carried = next;
        }
    }
    for entry in entries {
        entry.by_offset &= !LEFT;
    }
}

/// Takes what is in a place of [`back_to_names`].
fn leave(place: &mut Entry) -> Entry {
    let taken = *place;
    place.by_offset |= LEFT;
    taken
}

/// Mark of [`back_to_names`]. A header has room for far fewer than 2^31 tensors.
const LEFT: u32 = 1 << 31;

impl<'a> Header<'a> {
    /// The header again, from the bytes that were parsed and the entries that belong to them:
    /// the first [`Header::len`] of those given to [`parse`].
    ///
    /// Costs nothing. With other bytes or entries the tensors are nonsense, but safe to ask.
    pub fn view(bytes: &'a [u8], entries: &'a [Entry]) -> Self {
        let length = bytes
            .split_first_chunk()
            .map_or(0, |(length, _)| u64::from_le_bytes(*length));
        Self {
            bytes,
            entries,
            data_start: length.saturating_add(LENGTH_LEN as u64),
        }
    }

    /// The tensor of that name. O(log n).
    pub fn get(&self, name: &str) -> Option<Tensor<'a>> {
        let order = |entry: &Entry| {
            let found = entry.name.resolve(self.bytes);
            found
                .and_then(|found| found.partial_cmp(name))
                .unwrap_or(Ordering::Less)
        };
        let index = self.entries.binary_search_by(order).ok()?;
        self.entries.get(index).map(|entry| self.tensor(entry))
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes before the first tensor's data.
    pub fn data_start(&self) -> u64 {
        self.data_start
    }

    /// All tensors, by name (in the order of UTF-8 bytes).
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Tensor<'a>> + use<'a> {
        let header = *self;
        header.entries.iter().map(move |entry| header.tensor(entry))
    }

    /// All tensors in the order of their data.
    pub fn iter_by_offset(&self) -> impl Iterator<Item = Tensor<'a>> + use<'a> {
        let header = *self;
        header
            .entries
            .iter()
            .filter_map(move |at| Some(header.tensor(header.entries.get(at.by_offset as usize)?)))
    }

    /// The pairs of `__metadata__` in their order. A key that stands twice comes twice; the reference implementation
    /// keeps the last.
    pub fn metadata(&self) -> impl Iterator<Item = (Str<'a>, Str<'a>)> + use<'a> {
        let mut reader = self.metadata_reader();
        core::iter::from_fn(move || {
            let reader = reader.as_mut()?;
            match (reader.next(), reader.next()) {
                (Ok(Event::Key(key)), Ok(Event::String(value))) => Some((key, value)),
                _ => None,
            }
        })
        .fuse()
    }

    /// A reader behind the `{` of `__metadata__`.
    fn metadata_reader(&self) -> Option<Reader<'a>> {
        let mut reader = Reader::new(self.bytes.get(LENGTH_LEN..)?);
        reader.next().ok()?;
        while let Event::Key(key) = reader.next().ok()? {
            if key == METADATA {
                return (reader.next() == Ok(Event::BeginObject)).then_some(reader);
            }
            reader.skip_value().ok()?;
        }
        None
    }

    fn tensor(&self, entry: &Entry) -> Tensor<'a> {
        Tensor {
            bytes: self.bytes,
            entry: *entry,
            data_start: self.data_start,
        }
    }
}

impl<'a> Tensor<'a> {
    /// The name.
    pub fn name(&self) -> Str<'a> {
        self.entry.name.resolve(self.bytes).unwrap_or(Str::from_raw(&[]))
    }

    /// The place of the name, to speak of this tensor in an error.
    pub fn name_span(&self) -> NameSpan {
        self.entry.name
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.entry.dtype
    }

    /// Number of dimensions; 0 for a scalar.
    pub fn rank(&self) -> usize {
        usize::try_from(self.entry.rank).unwrap_or(usize::MAX)
    }

    /// The dimensions, outermost first.
    pub fn shape(&self) -> impl Iterator<Item = u64> + use<'a> {
        shape(&self.entry, self.bytes)
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        let bytes = self.entry.end.saturating_sub(self.entry.begin);
        bytes
            .saturating_mul(8)
            .checked_div(u64::from(self.entry.dtype.bits()))
            .unwrap_or(0)
    }

    /// Byte range of the data, counted from the start of the file.
    pub fn range(&self) -> Range<u64> {
        self.data_start.saturating_add(self.entry.begin)..self.data_start.saturating_add(self.entry.end)
    }

    /// The data in place, little-endian, at any alignment.
    ///
    /// # Errors
    /// [`Error::OutOfReach`] if the header was parsed without the data.
    pub fn bytes(&self) -> Result<&'a [u8], Error> {
        let range = self.range();
        let (begin, end) = (usize::try_from(range.start), usize::try_from(range.end));
        let data = begin
            .ok()
            .zip(end.ok())
            .and_then(|(begin, end)| self.bytes.get(begin..end));
        let found = self.bytes.len() as u64;
        data.ok_or(Error::OutOfReach {
            tensor: self.entry.name,
            expected: range.end,
            found,
        })
    }
}
