//! Every small change and many random ones: one verdict in both readers.

use proptest::prelude::*;
use voxtral_core::format::safetensors::{self as st, Dtype, Entry, Header};

use super::{SMALL, agree, file};

/// Every byte of the header of a small file, set to every value: same verdict, same content.
#[test]
fn every_single_byte_change_of_a_header() {
    let whole = file(SMALL, 12);
    let mut accepted = 0;
    for place in 0..whole.len() - 12 {
        let mut changed = whole.clone();
        for byte in 0..=255 {
            changed[place] = byte;
            accepted += usize::from(agree(&changed).is_ok());
        }
    }
    assert!(
        accepted > whole.len() - 12,
        "some changes matter to nobody, as in a name: {accepted}"
    );
}

/// A view made of bytes and entries that do not belong together gives nonsense, but gives it safely.
#[test]
fn a_view_trusts_nothing() {
    let whole = file(SMALL, 12);
    let mut entries = [Entry::default(); 5];
    st::parse(&whole, &mut entries).unwrap();
    for end in 0..whole.len() {
        for shift in 0..2 {
            let header = Header::view(&whole[shift.min(end)..end], &entries);
            for tensor in header.iter().chain(header.iter_by_offset()) {
                let _ = (
                    tensor.name().to_string(),
                    tensor.shape().count(),
                    tensor.elements(),
                    tensor.range(),
                );
                let _ = (
                    tensor.bytes(),
                    tensor.read_f32(&mut [0.0; 3]),
                    tensor.read_bf16(&mut [0; 3]),
                );
            }
            let _ = (header.get("a").is_some(), header.metadata().count());
        }
    }
}

#[derive(Clone, Debug)]
struct Spec {
    name: String,
    dtype: String,
    shape: Vec<String>,
    begin: String,
    end: String,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Object([usize; 3]),
    Array,
    Twice(usize),
    Without(usize),
    Extra(&'static str),
}

impl Spec {
    fn json(&self) -> String {
        let values = [
            self.dtype.clone(),
            format!("[{}]", self.shape.join(", ")),
            format!("[{},{}]", self.begin, self.end),
        ];
        let member = |i: usize| format!("\"{}\": {}", ["dtype", "shape", "data_offsets"][i], values[i]);
        let members = match self.form {
            Form::Object(order) => order.map(member).to_vec(),
            Form::Array => return format!("\"{}\":[{}]", self.name, values.join(",")),
            Form::Twice(i) => vec![member(0), member(1), member(2), member(i)],
            Form::Without(i) => (0..3).filter(|&j| j != i).map(member).collect(),
            Form::Extra(value) => vec![member(2), format!("\"extra\":{value}"), member(0), member(1)],
        };
        format!("\"{}\" :{{{}}}", self.name, members.join(","))
    }
}

/// Files that are right: any types and shapes, entries in any order.
fn specs() -> impl Strategy<Value = (Vec<Spec>, usize)> {
    let order = prop::sample::select(vec![[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]);
    let tensor = (
        prop::sample::select(Dtype::ALL.to_vec()),
        prop::collection::vec(0..5u64, 0..4),
        order,
        "[a-zé😀.]{0,3}",
    );
    (prop::collection::vec(tensor, 0..7), any::<prop::sample::Index>()).prop_map(|(tensors, turn)| {
        let mut end = 0;
        let mut specs: Vec<Spec> = tensors
            .into_iter()
            .enumerate()
            .map(|(i, (mut dtype, shape, order, name))| {
                let elements: u64 = shape.iter().product();
                if elements * u64::from(dtype.bits()) % 8 != 0 {
                    dtype = Dtype::Bf16;
                }
                let begin = end;
                end += elements * u64::from(dtype.bits()) / 8;
                Spec {
                    name: format!("{name}{i}"),
                    dtype: format!("\"{dtype}\""),
                    shape: shape.iter().map(u64::to_string).collect(),
                    begin: begin.to_string(),
                    end: end.to_string(),
                    form: Form::Object(order),
                }
            })
            .collect();
        let turn = turn.index(specs.len().max(1));
        if !specs.is_empty() {
            specs.rotate_left(turn);
        }
        if turn % 2 == 1 {
            specs.reverse();
        }
        (specs, end as usize)
    })
}

const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "2",
    "8",
    "-1",
    "-0",
    "8.0",
    "8e0",
    "1e999",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "4294967296",
    "\"1\"",
];
const VALUES: [&str; 8] = [
    "null",
    "[]",
    "{}",
    "1e999",
    "\"\\ud800\"",
    "[[[{\"a\":\"b\"}]]]",
    "\"\\u0041\"",
    "01",
];
const METADATA: [&str; 7] = [
    "{}",
    "null",
    "{\"a\":\"b\",\"a\":\"c\"}",
    "{\"a\":1}",
    "[]",
    "{\"a\":\"b\",}",
    "\"x\"",
];

/// One change of what a file says: which kind, where, and with what.
type Edit = (u8, prop::sample::Index, prop::sample::Index);

fn edited(mut specs: Vec<Spec>, mut data_len: usize, edits: &[Edit]) -> Vec<u8> {
    let mut parts_before = Vec::new();
    let mut bytes_edits = Vec::new();
    let mut whole_edit = None;
    for (kind, place, with) in edits {
        let n = specs.len();
        let nudge = |text: &str| {
            let value: u64 = text.parse().unwrap_or(0);
            if with.index(2) == 0 {
                value.wrapping_add(1)
            } else {
                value.wrapping_sub(1)
            }
            .to_string()
        };
        match kind {
            0 => {
                data_len = if with.index(2) == 0 {
                    data_len + 1
                } else {
                    data_len.saturating_sub(1)
                }
            }
            1 => parts_before.push(format!("\"__metadata__\":{}", METADATA[with.index(METADATA.len())])),
            2 => bytes_edits.push((*place, *with)),
            // The file is cut, or grows in the middle.
            16 => whole_edit = Some((*place, *with)),
            _ if n == 0 => {}
            3 => specs[place.index(n)].begin = nudge(&specs[place.index(n)].begin),
            4 => specs[place.index(n)].end = nudge(&specs[place.index(n)].end),
            5 => specs[place.index(n)].name = specs[with.index(n)].name.clone(),
            6 => {
                let name: String = specs[with.index(n)]
                    .name
                    .encode_utf16()
                    .map(|unit| format!("\\u{unit:04X}"))
                    .collect();
                specs[place.index(n)].name = name;
            }
            7 => {
                let dtypes = [
                    "\"F4\"",
                    "\"F32\"",
                    "\"U8\"",
                    "\"f32\"",
                    "{\"U8\":null}",
                    "{\"BF16\":{}}",
                    "{\"U8\":1}",
                    "7",
                ];
                specs[place.index(n)].dtype = dtypes[with.index(dtypes.len())].into();
            }
            8 => {
                let shape = &mut specs[place.index(n)].shape;
                shape.insert(with.index(shape.len() + 1), NUMBERS[with.index(NUMBERS.len())].into());
            }
            9 => specs[place.index(n)].begin = NUMBERS[with.index(NUMBERS.len())].into(),
            10 => specs[place.index(n)].end = NUMBERS[with.index(NUMBERS.len())].into(),
            11 => {
                let forms = [
                    Form::Array,
                    Form::Twice(0),
                    Form::Twice(1),
                    Form::Twice(2),
                    Form::Without(0),
                    Form::Without(1),
                    Form::Without(2),
                ];
                let extra = Form::Extra(VALUES[with.index(VALUES.len())]);
                specs[place.index(n)].form = *forms.get(with.index(2 * forms.len())).unwrap_or(&extra);
            }
            12 => {
                let spec = specs[place.index(n)].clone();
                specs.insert(with.index(n + 1), spec);
            }
            // Two tensors change places, or one lies on another, or both on one place.
            13 | 14 => {
                let (a, b) = (place.index(n), with.index(n));
                let (one, other) = (specs[a].clone(), specs[b].clone());
                (specs[a].begin, specs[a].end) = (other.begin, other.end);
                if *kind == 13 {
                    (specs[b].begin, specs[b].end) = (one.begin, one.end);
                }
            }
            15 => specs[place.index(n)].begin = specs[with.index(n)].begin.clone(),
            _ => {
                specs.remove(place.index(n));
            }
        }
    }
    parts_before.extend(specs.iter().map(Spec::json));
    let mut header = format!("{{{}}}", parts_before.join(" ,")).into_bytes();
    for (place, with) in bytes_edits {
        let place = place.index(header.len());
        header[place] = b"{}[],:\"\\ 0aF\x00\xff"[with.index(14)];
    }
    let mut file = file(header, data_len);
    if let Some((place, with)) = whole_edit {
        let place = place.index(file.len());
        if with.index(2) == 0 {
            file.truncate(place);
        } else {
            file.insert(place, with.index(256) as u8);
        }
    }
    file
}

fn cases(usual: u32) -> ProptestConfig {
    ProptestConfig {
        cases: voxtral_tests::random::cases(usual),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..60), length in prop::option::of(0..60u64)) {
        let mut bytes = bytes;
        if let (Some(length), Some(start)) = (length, bytes.get_mut(..8)) {
            start.copy_from_slice(&length.to_le_bytes());
        }
        let _ = agree(&bytes);
    }

    #[test]
    fn right_files_are_accepted((specs, data_len) in specs()) {
        prop_assert_eq!(agree(&edited(specs, data_len, &[])), Ok(()));
    }

    #[test]
    fn files_with_changes((specs, data_len) in specs(), edits in prop::collection::vec((0..18u8, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4)) {
        let _ = agree(&edited(specs, data_len, &edits));
    }
}
