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

use voxtral_tests::agreement::safetensors::{agree, parse};

/// A file of that header and `data_len` bytes of data, no two neighbours alike.
fn file(header: impl AsRef<[u8]>, data_len: usize) -> Vec<u8> {
    let header = header.as_ref();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend((0..data_len).map(|i| (i * 7 + 1) as u8));
    file
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
