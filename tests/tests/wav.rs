//! WAV: the case table, any bytes in any pieces, and the crate `hound` as a second opinion.
//!
//! The names of the tests begin with the row of the table that they hold.

use proptest::prelude::*;
use voxtral_core::format::wav::{Demuxer, Encoding, MAX_RATE, MIN_RATE, Summary, WavError};
use voxtral_tests::agreement::wav::{Decoded, decode_in_pieces};
use voxtral_tests::random::cases;

const PCM: u16 = 1;
const FLOAT: u16 = 3;
const EXTENSIBLE: u16 = 0xFFFE;
const GUID_TAIL: [u8; 14] = [0, 0, 0, 0, 16, 0, 128, 0, 0, 170, 0, 56, 155, 113];

fn cat(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// A chunk with the size that it has, and a pad byte if that is odd.
fn chunk(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let pad: &[u8] = if body.len() % 2 == 1 { &[0] } else { &[] };
    cat(&[&chunk_of_size(name, body.len() as u32, body), pad])
}

/// A chunk with any size in its header.
fn chunk_of_size(name: &[u8; 4], size: u32, body: &[u8]) -> Vec<u8> {
    cat(&[name, &size.to_le_bytes(), body])
}

fn fmt_body(tag: u16, channels: u16, rate: u32, bits: u16) -> Vec<u8> {
    let align = channels.wrapping_mul(bits / 8);
    cat(&[
        &tag.to_le_bytes(),
        &channels.to_le_bytes(),
        &rate.to_le_bytes(),
        &rate.wrapping_mul(align.into()).to_le_bytes(),
        &align.to_le_bytes(),
        &bits.to_le_bytes(),
    ])
}

fn fmt(tag: u16, channels: u16, rate: u32, bits: u16) -> Vec<u8> {
    chunk(b"fmt ", &fmt_body(tag, channels, rate, bits))
}

fn fmt_extensible(tag: u16, channels: u16, bits: u16, valid_bits: u16) -> Vec<u8> {
    let body = cat(&[
        &fmt_body(EXTENSIBLE, channels, 16000, bits),
        &22u16.to_le_bytes(),
        &valid_bits.to_le_bytes(),
        &[0; 4],
        &tag.to_le_bytes(),
        &GUID_TAIL,
    ]);
    chunk(b"fmt ", &body)
}

fn riff(chunks: &[&[u8]]) -> Vec<u8> {
    let chunks = chunks.concat();
    cat(&[b"RIFF", &(chunks.len() as u32 + 4).to_le_bytes(), b"WAVE", &chunks])
}

fn s16(samples: &[i16]) -> Vec<u8> {
    samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
}

/// 16 kHz, mono, 16 bits.
fn plain_fmt() -> Vec<u8> {
    fmt(PCM, 1, 16000, 16)
}

const SAMPLES: [i16; 5] = [0, 16384, -32768, 32767, 1];
const VALUES: [f32; 5] = [0.0, 0.5, -1.0, 32767.0 / 32768.0, 1.0 / 32768.0];

fn decode(bytes: &[u8]) -> Decoded {
    decode_in_pieces(Demuxer::new(), bytes, &[usize::MAX], &[1 << 16])
}

fn decode_file(bytes: &[u8]) -> Decoded {
    decode_in_pieces(Demuxer::seekable(), bytes, &[usize::MAX], &[1 << 16])
}

/// The samples of a WAV that must decode, whole and in single bytes, as a pipe and as a file.
fn samples(bytes: &[u8]) -> Vec<f32> {
    let decoded = decode(bytes);
    assert_eq!(decoded, decode_in_pieces(Demuxer::new(), bytes, &[1], &[1]));
    assert_eq!(decoded, decode_file(bytes));
    decoded.unwrap().0
}

fn summary(bytes: &[u8]) -> Summary {
    decode(bytes).unwrap().1
}

/// W1: RIFF/data size 0, 0xFFFFFFFF, larger or smaller than the bytes present (pipes, crashed recorders): clamp to
/// real bytes; unknown size means read to the end.
#[test]
fn w1_wrong_sizes() {
    let body = s16(&SAMPLES);
    for riff_size in [0, 1, 4, 36, 46, 1000, 0x7FFF_FFFF, u32::MAX] {
        let start = cat(&[b"RIFF", &u32::to_le_bytes(riff_size), b"WAVE", &plain_fmt()]);
        for data_size in [0, 10, 11, 1000, 0x7FFF_F000, u32::MAX - 1, u32::MAX] {
            let wav = cat(&[&start, &chunk_of_size(b"data", data_size, &body)]);
            assert_eq!(samples(&wav), VALUES, "RIFF {riff_size}, data {data_size}");
            let summary = summary(&wav);
            assert_eq!(summary.present, 10);
            let unknown = data_size == 0 || data_size == u32::MAX;
            assert_eq!(summary.declared, (!unknown).then_some(data_size.into()));
            assert_eq!(summary.missing(), if unknown { 0 } else { u64::from(data_size) - 10 });
        }
        for data_size in [2, 6, 8] {
            let wav = cat(&[&start, &chunk_of_size(b"data", data_size, &body)]);
            assert_eq!(
                samples(&wav),
                VALUES[..data_size as usize / 2],
                "RIFF {riff_size}, data {data_size}"
            );
            assert_eq!(summary(&wav).trailing, 10 - u64::from(data_size));
        }
    }
}

/// W1: a recorder that died left the header without sizes; the first samples may look like the beginning of a name.
#[test]
fn w1_size_0_with_samples_that_look_like_names() {
    for start in [&b"LI"[..], b"LISu", b"LJ", b"ID3\x05", b"da", b"f", b"fmt!"] {
        let body = cat(&[start, &[0, 0x40, 0, 0xC0]]);
        let body = &body[..body.len() & !1];
        let wav = riff(&[&plain_fmt(), &chunk_of_size(b"data", 0, body)]);
        let expected: Vec<f32> = body
            .chunks_exact(2)
            .map(|s| f32::from(i16::from_le_bytes([s[0], s[1]])) / 32768.0)
            .collect();
        assert_eq!(samples(&wav), expected, "{start:?}");
    }
}

/// W2: LIST/JUNK/fact/bext before fmt or between fmt and data: found.
#[test]
fn w2_chunks_before_the_data() {
    let body = chunk(b"data", &s16(&SAMPLES));
    for name in [b"LIST", b"JUNK", b"fact", b"bext", b"what", b"fmt2", b"\0\0\0\0"] {
        for size in [0, 2, 4, 500, 1000] {
            let other = chunk(name, &vec![0x20; size]);
            assert_eq!(
                samples(&riff(&[&other, &plain_fmt(), &body])),
                VALUES,
                "{name:?} {size} first"
            );
            assert_eq!(
                samples(&riff(&[&plain_fmt(), &other, &other, &body])),
                VALUES,
                "{name:?} {size} between"
            );
        }
    }
}

/// W2: of two formats the first holds, however wrong the second is.
#[test]
fn w2_second_format() {
    let body = chunk(b"data", &s16(&SAMPLES));
    assert_eq!(samples(&riff(&[&plain_fmt(), &fmt(PCM, 0, 0, 0), &body])), VALUES);
}

/// W2: an odd-sized chunk with and without its pad byte, and with one that is not 0: found.
#[test]
fn w2_odd_chunks() {
    let body = chunk(b"data", &s16(&SAMPLES));
    for size in [1, 3, 25] {
        for pad in [&b""[..], b"\0", b"\xFF", b" ", b"d"] {
            let other = cat(&[&chunk_of_size(b"LIST", size, &vec![b'f'; size as usize]), pad]);
            assert_eq!(
                samples(&riff(&[&other, &plain_fmt(), &body])),
                VALUES,
                "{size} {pad:?} first"
            );
            assert_eq!(
                samples(&riff(&[&plain_fmt(), &other, &body])),
                VALUES,
                "{size} {pad:?} between"
            );
        }
        for pad in [&b""[..], b"\0"] {
            let other = cat(&[&chunk_of_size(b"LIST", size, &vec![b'f'; size as usize]), pad]);
            let unknown = chunk(b"abcd", b"efgh");
            assert_eq!(
                samples(&riff(&[&plain_fmt(), &other, &unknown, &body])),
                VALUES,
                "{size} {pad:?} unknown"
            );
        }
        let long = cat(&[&fmt_body(PCM, 1, 16000, 16), &vec![0; size as usize]]);
        for pad in [&b""[..], b"\0"] {
            let format = cat(&[&chunk_of_size(b"fmt ", 16 + size, &long), pad]);
            assert_eq!(
                samples(&riff(&[&format, &body])),
                VALUES,
                "fmt of {} {pad:?}",
                16 + size
            );
        }
    }
}

/// W2: data before fmt: found in a file; in a pipe an error that says so, at once.
#[test]
fn w2_data_before_the_format() {
    let other = chunk(b"LIST", b"abc");
    for (name, between) in [("", &[][..]), ("LIST", &other)] {
        let wav = riff(&[&chunk(b"data", &s16(&SAMPLES)), between, &plain_fmt(), &other]);
        let (found, summary) = decode_file(&wav).unwrap();
        assert_eq!(found, VALUES, "{name}");
        assert_eq!((summary.declared, summary.present, summary.cut), (Some(10), 10, 0));
        assert_eq!(
            decode_in_pieces(Demuxer::seekable(), &wav, &[1], &[1]).unwrap().0,
            VALUES
        );
        assert_eq!(decode(&wav), Err(WavError::DataBeforeFormat { offset: 20 }));
        assert_eq!(decode(&wav[..20]), Err(WavError::DataBeforeFormat { offset: 20 }));
    }
    // Of two the first, as when the format comes first.
    let two = riff(&[&chunk(b"data", &s16(&SAMPLES)), &chunk(b"data", &[1; 6]), &plain_fmt()]);
    assert_eq!(decode_file(&two).unwrap().0, VALUES);
    // Of odd size, padded or not.
    let odd = fmt(PCM, 1, 16000, 8);
    for pad in [&b""[..], b"\0"] {
        let wav = riff(&[&chunk_of_size(b"data", 3, &[128, 192, 0]), pad, &odd]);
        assert_eq!(decode_file(&wav).unwrap().0, [0.0, 0.5, -1.0]);
    }
    // Without a size there is nowhere to look for the format.
    let wav = riff(&[&chunk_of_size(b"data", u32::MAX, &s16(&SAMPLES)), &plain_fmt()]);
    assert_eq!(decode_file(&wav), Err(WavError::DataBeforeFormat { offset: 20 }));
    // Beyond the end of the file.
    let wav = riff(&[&chunk_of_size(b"data", 1 << 31, &s16(&SAMPLES)), &plain_fmt()]);
    assert_eq!(decode_file(&wav), Err(WavError::NoFormat { end: 20 + (1 << 31) }));
}

/// W3: bytes after data (LIST, ID3): never decoded as audio.
#[test]
fn w3_bytes_after_the_data() {
    let tags = [
        chunk(b"LIST", &[0x55; 64]),
        b"ID3\x04\0\0\0\0\0\x10TIT2".to_vec(),
        chunk(b"data", &[0x55; 8]),
    ];
    for tag in &tags {
        for (data, expected) in [(s16(&SAMPLES), &VALUES[..]), (vec![], &[])] {
            let wav = riff(&[&plain_fmt(), &chunk(b"data", &data), tag]);
            assert_eq!(samples(&wav), expected);
            assert_eq!(summary(&wav).trailing, tag.len() as u64);
            assert_eq!(summary(&wav).present, data.len() as u64);
        }
        let wav = riff(&[&fmt(PCM, 1, 16000, 8), &chunk(b"data", &[128, 192, 0]), tag]);
        assert_eq!(samples(&wav), [0.0, 0.5, -1.0]);
        assert_eq!(summary(&wav).trailing, tag.len() as u64);
    }
}

/// Frames of three samples (0, 1/2, -1 of full scale) with the second half as loud in the other channels.
fn frames_of(tag: u16, bits: u16, channels: u16) -> (Vec<u8>, Vec<f32>) {
    let store = |x: f64| match (tag, bits) {
        (PCM, 8) => vec![(x * 128.0 + 128.0) as u8],
        (PCM, _) => ((x * 2f64.powi(i32::from(bits) - 1)) as i64).to_le_bytes()[..usize::from(bits) / 8].to_vec(),
        (_, 32) => (x as f32).to_le_bytes().to_vec(),
        _ => x.to_le_bytes().to_vec(),
    };
    let (mut bytes, mut means) = (Vec::new(), Vec::new());
    for x in [0.0, 0.5, -1.0] {
        let channel = |i| if i < channels.div_ceil(2) { x } else { x / 2.0 };
        bytes.extend((0..channels).flat_map(|i| store(channel(i))));
        means.push(((0..channels).map(channel).sum::<f64>() / f64::from(channels)) as f32);
    }
    (bytes, means)
}

/// W4: PCM u8, s16, s24, s32, f32, f64; WAVE_FORMAT_EXTENSIBLE with validBits 0; fmt of 16, 18, 40 bytes; 1, 2, 6,
/// 8 channels; RF64 with ds64: decoded; stereo is averaged.
#[test]
fn w4_encodings_and_channels() {
    for (tag, bits) in [(PCM, 8), (PCM, 16), (PCM, 24), (PCM, 32), (FLOAT, 32), (FLOAT, 64)] {
        for channels in [1, 2, 3, 6, 8, 255, 1000] {
            let (data, expected) = frames_of(tag, bits, channels);
            let data = chunk(b"data", &data);
            let body = fmt_body(tag, channels, 16000, bits);
            let formats = [
                chunk(b"fmt ", &body),
                chunk(b"fmt ", &cat(&[&body, &[0, 0]])),
                chunk(b"fmt ", &cat(&[&body, &[0; 24]])),
                chunk(b"fmt ", &cat(&[&body, &[0; 100]])),
                fmt_extensible(tag, channels, bits, 0),
                fmt_extensible(tag, channels, bits, bits),
                fmt_extensible(tag, channels, bits, bits - 4),
            ];
            for format in formats {
                assert_eq!(
                    samples(&riff(&[&format, &data])),
                    expected,
                    "{tag} {bits} {channels} {}",
                    format.len()
                );
            }
        }
    }
}

/// W4: what the format says.
#[test]
fn w4_format() {
    let mut demuxer = Demuxer::new();
    let header = cat(&[b"RIFF\0\0\0\0WAVE", &fmt(FLOAT, 2, 44100, 32)]);
    for byte in &header[..header.len() - 1] {
        demuxer.push(&[*byte], &mut []).unwrap();
        assert_eq!(demuxer.format(), None);
    }
    demuxer.push(&header[header.len() - 1..], &mut []).unwrap();
    let format = demuxer.format().unwrap();
    assert_eq!(
        (format.encoding, format.sample_rate, format.channels),
        (Encoding::Float32, 44100, 2)
    );
    assert_eq!((format.valid_bits, format.block()), (32, 8));
}

/// W4: RF64 and BW64 with ds64, whose size holds where the chunk says 0xFFFFFFFF.
#[test]
fn w4_rf64() {
    let body = s16(&SAMPLES);
    for name in [b"RF64", b"BW64"] {
        for (chunk_size, wide_size, whole) in [
            (u32::MAX, 10, true),
            (u32::MAX, u64::MAX, false),
            (u32::MAX, 0, false),
            (10, 99, true),
            (0, 10, false),
        ] {
            let sizes = chunk(
                b"ds64",
                &cat(&[&100u64.to_le_bytes(), &wide_size.to_le_bytes(), &[0; 12]]),
            );
            let data = chunk_of_size(b"data", chunk_size, &body);
            let start = cat(&[name, &[0xFF; 4], b"WAVE", &sizes, &plain_fmt(), &data]);
            assert_eq!(samples(&start), VALUES, "{chunk_size} {wide_size}");
            if whole {
                assert_eq!(samples(&cat(&[&start, b"more"])), VALUES, "{chunk_size} {wide_size}");
                assert_eq!(summary(&start).declared, Some(10));
            } else {
                assert_eq!(summary(&start).declared, None);
            }
        }
        // Without ds64 the size is unknown; a ds64 in a RIFF means nothing.
        let data = chunk_of_size(b"data", u32::MAX, &body);
        assert_eq!(samples(&cat(&[name, &[0xFF; 4], b"WAVE", &plain_fmt(), &data])), VALUES);
    }
    let sizes = chunk(b"ds64", &[1; 28]);
    assert_eq!(
        samples(&riff(&[&sizes, &plain_fmt(), &chunk_of_size(b"data", u32::MAX, &body)])),
        VALUES
    );
    // Larger than 4 GiB and cut.
    let sizes = chunk(b"ds64", &cat(&[&[0; 8], &(1u64 << 40).to_le_bytes(), &[0; 12]]));
    let data = chunk_of_size(b"data", u32::MAX, &body);
    let wav = cat(&[b"RF64", &[0xFF; 4], b"WAVE", &sizes, &plain_fmt(), &data]);
    assert_eq!(samples(&wav), VALUES);
    assert_eq!(summary(&wav).missing(), (1 << 40) - 10);
}

/// W5: A-law, µ-law, ADPCM, MP3-in-WAV: an error that names the codec.
#[test]
fn w5_codecs_are_named() {
    let named = [
        (2, "Microsoft ADPCM"),
        (6, "A-law"),
        (7, "µ-law"),
        (0x11, "IMA ADPCM"),
        (0x55, "MP3"),
        (0x31, "GSM"),
    ];
    for (tag, name) in named {
        for format in [fmt(tag, 1, 8000, 8), fmt(tag, 1, 8000, 0), fmt_extensible(tag, 2, 4, 0)] {
            let error = decode(&riff(&[&format, &chunk(b"data", &[0; 64])])).unwrap_err();
            assert_eq!(error, WavError::Codec { tag });
            assert!(error.to_string().contains(name), "{error}");
        }
    }
    for tag in [0, 0x1234, EXTENSIBLE] {
        let format = fmt_extensible(tag, 1, 16, 0);
        let error = decode(&riff(&[&format])).unwrap_err();
        assert_eq!(error, WavError::Codec { tag });
        assert!(error.to_string().contains(&format!("0x{tag:04X}")), "{error}");
    }
    let mut format = fmt_extensible(PCM, 1, 16, 0);
    *format.last_mut().unwrap() ^= 1;
    let error = decode(&riff(&[&format])).unwrap_err();
    assert!(matches!(error, WavError::SubFormat { guid: [1, .., 112] }), "{error}");
    assert!(
        error.to_string().contains("0100000000001000800000AA00389B70"),
        "{error}"
    );
}

/// W6: rate 0, channels 0, bits 0, block align 0, rate 4 294 967 295: error.
#[test]
fn w6_impossible_formats() {
    let verdict = |format: &[u8]| decode(&riff(&[format, &chunk(b"data", &[0; 64])])).map(|(samples, _)| samples.len());
    let rate = |found| Err(WavError::SampleRate { found });
    for found in [0, 1, MIN_RATE - 1, MAX_RATE + 1, u32::MAX] {
        assert_eq!(verdict(&fmt(PCM, 1, found, 16)), rate(found));
    }
    for good in [
        MIN_RATE, 8000, 11025, 16000, 22050, 44100, 48000, 96000, 192000, MAX_RATE,
    ] {
        assert_eq!(verdict(&fmt(PCM, 1, good, 16)), Ok(32));
    }
    assert_eq!(verdict(&fmt(PCM, 0, 16000, 16)), Err(WavError::NoChannels));
    for (tag, float) in [(PCM, false), (FLOAT, true)] {
        for found in [0, 1, 7, 12, 20, 40, 48, 65535, if float { 16 } else { 64 }] {
            assert_eq!(
                verdict(&fmt(tag, 1, 16000, found)),
                Err(WavError::Bits { float, found })
            );
        }
    }
    let aligned = |channels, align: u16| {
        let mut body = fmt_body(PCM, channels, 16000, 16);
        body[12..14].copy_from_slice(&align.to_le_bytes());
        chunk(b"fmt ", &body)
    };
    for found in [0, 1, 3, 4, 65535] {
        assert_eq!(
            verdict(&aligned(1, found)),
            Err(WavError::BlockAlign { expected: 2, found })
        );
    }
    // 32768 channels of two bytes do not fit the field, which then reads 0.
    let wrapped = WavError::BlockAlign {
        expected: 65536,
        found: 0,
    };
    assert_eq!(verdict(&aligned(32768, 0)), Err(wrapped));
    assert_eq!(
        verdict(&fmt_extensible(PCM, 1, 16, 17)),
        Err(WavError::ValidBits { bits: 16, found: 17 })
    );
    for found in [0, 1, 14, 15] {
        let short = chunk(b"fmt ", &fmt_body(PCM, 1, 16000, 16)[..found as usize]);
        assert_eq!(
            verdict(&short),
            Err(WavError::FormatTooShort {
                offset: 20,
                needed: 16,
                found
            })
        );
    }
    for found in [16, 18, 39] {
        let body = &fmt_extensible(PCM, 1, 16, 0)[8..][..found as usize];
        let expected = WavError::FormatTooShort {
            offset: 20,
            needed: 40,
            found,
        };
        assert_eq!(verdict(&chunk(b"fmt ", body)), Err(expected));
    }
}

/// An error is one plain line, and the demuxer stays in it.
#[test]
fn w6_errors_stay() {
    let wav = riff(&[&fmt(PCM, 1, 0, 16), &chunk(b"data", &s16(&SAMPLES))]);
    let mut demuxer = Demuxer::new();
    let error = demuxer.push(&wav, &mut [0.0; 8]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the WAV has a sample rate of 0 Hz; 1000 to 768000 Hz are read"
    );
    assert_eq!(demuxer.push(&wav, &mut [0.0; 8]), Err(error));
    assert_eq!(demuxer.push(&[], &mut []), Err(error));
    assert_eq!(demuxer.finish(), Err(error));
}

/// W8: the header arrives in 1-byte reads; a 10 kB LIST chunk comes before data; the pipe stays open: samples come
/// with the byte that completes them.
#[test]
fn w8_samples_come_as_soon_as_they_are_whole() {
    let list = chunk(b"LIST", &[b'x'; 10_000]);
    let header = riff(&[&list, &plain_fmt(), &chunk_of_size(b"data", u32::MAX, &[])]);
    let mut demuxer = Demuxer::new();
    for byte in &header {
        let progress = demuxer.push(&[*byte], &mut [0.0]).unwrap();
        assert_eq!((progress.consumed, progress.written), (1, 0));
    }
    for (sample, value) in SAMPLES.iter().zip(VALUES) {
        let [low, high] = sample.to_le_bytes();
        let mut room = [f32::NAN; 2];
        assert_eq!(demuxer.push(&[low], &mut room).unwrap().written, 0);
        assert_eq!(demuxer.push(&[high], &mut room).unwrap().written, 1);
        assert_eq!(room[0], value);
    }
    assert_eq!(demuxer.finish().unwrap().frames, 5);
}

/// W9: stdin begins with ID3, fLaC, OggS, ftyp: an error that says what it is; never treated as raw PCM.
#[test]
fn w9_other_containers_are_named() {
    let named: [(&[u8], &str); 8] = [
        (b"ID3\x04\0\0\0\0\x02\x01TSSE", "MP3"),
        (b"fLaC\0\0\0\x22\x10\0\x10\0", "FLAC"),
        (b"OggS\0\x02\0\0\0\0\0\0", "Ogg"),
        (b"\0\0\0\x20ftypM4A ", "MP4"),
        (b"\xFF\xFB\x90\x64\0\0\0\0\0\0\0\0", "MP3"),
        (b"RIFX\0\0\0\x24WAVEfmt ", "big-endian"),
        (b"RIFF\x24\0\0\0AVI LIST", "AVI"),
        (b"FORM\0\0\0\x24AIFFCOMM", "AIFF"),
    ];
    for (bytes, name) in named {
        let error = decode(bytes).unwrap_err();
        assert!(
            matches!(error, WavError::NotWav { found, length: 12 } if found == bytes[..12]),
            "{error:?}"
        );
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(decode_in_pieces(Demuxer::new(), bytes, &[1], &[1]), Err(error));
    }
    assert_eq!(
        decode(b"hi\n").unwrap_err().to_string(),
        "not a WAV but something that begins with \"hi\\n\""
    );
}

/// W10: raw s16le whose reads end in the middle of a sample: the half sample is kept for the next read; an odd byte
/// at the end is told.
#[test]
fn w10_half_samples() {
    let raw = || Demuxer::raw(Encoding::PcmS16, 16000, 1).unwrap();
    let wav = || riff(&[&plain_fmt(), &chunk_of_size(b"data", u32::MAX, &[])]);
    let body = s16(&SAMPLES);
    for pieces in [&[1][..], &[3], &[1, 2], &[5, 1, 3, 2], &[100]] {
        for rooms in [&[1][..], &[2, 0], &[100]] {
            for (bytes, cut) in [(body.clone(), 0), (cat(&[&body, &[7]]), 1)] {
                let (found, summary) = decode_in_pieces(raw(), &bytes, pieces, rooms).unwrap();
                assert_eq!((&found[..], summary.cut, summary.trailing), (&VALUES[..], cut, 0));
                let bytes = cat(&[&wav(), &bytes]);
                let (found, summary) = decode_in_pieces(Demuxer::new(), &bytes, pieces, rooms).unwrap();
                assert_eq!((&found[..], summary.cut, summary.trailing), (&VALUES[..], cut, 0));
            }
        }
    }
    // The last frame of six channels lacks five of its twelve bytes.
    let wav = riff(&[&fmt(PCM, 6, 16000, 16), &chunk(b"data", &[0; 19])]);
    assert_eq!((samples(&wav).len(), summary(&wav).cut), (1, 7));
    assert_eq!(
        Demuxer::raw(Encoding::PcmS16, 16000, 0).unwrap_err(),
        WavError::NoChannels
    );
    assert_eq!(
        Demuxer::raw(Encoding::PcmS16, 0, 1).unwrap_err(),
        WavError::SampleRate { found: 0 }
    );
}

/// W11: empty file, header only, 1 sample: never a panic or a hang.
#[test]
fn w11_little_or_nothing() {
    assert_eq!(decode(b""), Err(WavError::Empty));
    assert_eq!(Demuxer::new().push(&[], &mut []).unwrap(), Default::default());
    let wav = riff(&[&plain_fmt(), &chunk(b"data", &[])]);
    assert_eq!(wav.len(), 44);
    assert!(samples(&wav).is_empty());
    assert_eq!(samples(&riff(&[&plain_fmt(), &chunk(b"data", &s16(&[16384]))])), [0.5]);
    // Every prefix of the header.
    for length in 1..44 {
        let end = length as u64;
        let expected = match length {
            ..36 => WavError::NoFormat { end },
            _ => WavError::NoData { end },
        };
        assert_eq!(decode(&wav[..length]), Err(expected));
    }
    // No data at all.
    assert_eq!(
        decode(&riff(&[&plain_fmt(), &chunk(b"LIST", b"ab")])),
        Err(WavError::NoData { end: 46 })
    );
}

/// W11: NaN and ±inf in float WAV count as 0 and are told; so do values that no microphone gives.
#[test]
fn w11_samples_that_are_not_numbers() {
    let bad = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        65.0,
        -1e30,
        64.0,
        -64.0,
        0.25,
    ];
    let body: Vec<u8> = bad.iter().flat_map(|x| x.to_le_bytes()).collect();
    let expected = [0.0, 0.0, 0.0, 0.0, 0.0, 64.0, -64.0, 0.25];
    let wav = riff(&[&fmt(FLOAT, 1, 16000, 32), &chunk(b"data", &body)]);
    assert_eq!(samples(&wav), expected);
    assert_eq!((summary(&wav).not_finite, summary(&wav).too_large), (3, 2));
    let body: Vec<u8> = bad
        .iter()
        .chain(&[0.5; 8])
        .flat_map(|x| f64::from(*x).to_le_bytes())
        .collect();
    let wav = riff(&[&fmt(FLOAT, 2, 16000, 64), &chunk(b"data", &body)]);
    assert_eq!(samples(&wav), [0.0, 0.0, 32.0, -31.875, 0.5, 0.5, 0.5, 0.5]);
    assert_eq!((summary(&wav).not_finite, summary(&wav).too_large), (3, 2));
}

/// W11: full-scale clipping stays within -1 to 1 for every integer encoding.
#[test]
fn w11_full_scale() {
    for (bits, least, greatest) in [
        (8, 0, 255),
        (16, -32768, 32767),
        (24, -1 << 23, (1 << 23) - 1),
        (32, -1 << 31, (1 << 31) - 1),
    ] {
        let store = |x: i64| x.to_le_bytes()[..bits as usize / 8].to_vec();
        let wav = riff(&[
            &fmt(PCM, 1, 16000, bits),
            &chunk(b"data", &cat(&[&store(least), &store(greatest)])),
        ]);
        let expected = 1.0 - 2f64.powi(1 - i32::from(bits));
        assert_eq!(samples(&wav), [-1.0, expected as f32]);
    }
}

/// What may stand in a header, right or wrong.
#[derive(Clone, Debug)]
struct Header {
    extensible: bool,
    tag: u16,
    channels: u16,
    rate: u32,
    bits: u16,
    valid_bits: u16,
    align_off: u16,
    byte_rate_off: u32,
    fmt_extra: usize,
    before: Vec<(usize, bool)>,
    data_off: i64,
    frames: Vec<u8>,
}

impl Header {
    fn width(&self) -> u16 {
        self.bits / 8
    }

    fn build(&self) -> (Vec<u8>, usize) {
        let block = usize::from(self.channels) * usize::from(self.width());
        let frames = self.frames.len() / block.max(1) * block;
        let tag = if self.extensible { EXTENSIBLE } else { self.tag };
        let mut format = fmt_body(tag, self.channels, self.rate, self.bits);
        let align = self.channels.wrapping_mul(self.width()).wrapping_add(self.align_off);
        let byte_rate = self.rate.wrapping_mul(align.into()).wrapping_add(self.byte_rate_off);
        format[8..12].copy_from_slice(&byte_rate.to_le_bytes());
        format[12..14].copy_from_slice(&align.to_le_bytes());
        if self.extensible {
            let rest = [
                &22u16.to_le_bytes()[..],
                &self.valid_bits.to_le_bytes(),
                &[0; 4],
                &self.tag.to_le_bytes(),
            ];
            format.extend(cat(&[&rest.concat(), &GUID_TAIL]));
        } else {
            format.extend(vec![0; self.fmt_extra]);
        }
        let format = chunk(b"fmt ", &format);
        let mut parts = vec![];
        for (size, first) in &self.before {
            if *first {
                parts.extend(chunk(b"LIST", &vec![1; *size]));
            }
        }
        parts.extend(format);
        for (size, first) in &self.before {
            if !*first {
                parts.extend(chunk(b"LIST", &vec![1; *size]));
            }
        }
        let size = (frames as i64 + self.data_off).max(0) as u32;
        parts.extend(chunk_of_size(b"data", size, &self.frames[..frames]));
        (riff(&[&parts]), frames)
    }

    /// Why the demuxer and hound may differ on this file, if they may.
    fn difference(&self, frames: usize) -> Option<&'static str> {
        let block = i64::from(self.channels) * i64::from(self.width());
        let size = frames as i64 + self.data_off;
        let reasons = [
            (
                self.byte_rate_off != 0,
                "hound wants the byte rate right; it is redundant and often wrong",
            ),
            (
                self.align_off != 0,
                "hound takes samples in wider containers, right-aligned, against the specification",
            ),
            (
                self.tag == PCM && self.bits > 32,
                "hound refuses wider integers only at the first sample",
            ),
            (
                self.tag == FLOAT && self.bits != 32,
                "hound has no 64-bit floats, and may refuse others only at a sample",
            ),
            (
                self.tag == FLOAT && ![0, 2].contains(&self.fmt_extra),
                "hound wants 16 or 18 bytes of fmt for floats",
            ),
            (
                self.tag == PCM && ![0, 2, 24].contains(&self.fmt_extra),
                "hound wants 16, 18 or 40 bytes of fmt",
            ),
            (
                self.tag == PCM && self.bits == 32 && self.fmt_extra > 0,
                "hound wants 8 to 24 bits in longer fmt chunks",
            ),
            (
                !(MIN_RATE..=MAX_RATE).contains(&self.rate),
                "hound does not look at the rate",
            ),
            (
                self.extensible && ![0, self.bits].contains(&self.valid_bits),
                "hound reads valid bits as the width",
            ),
            (
                self.before.iter().any(|(size, _)| size % 2 == 1),
                "hound knows no pad bytes",
            ),
            (
                block > 0 && size % block != 0,
                "hound refuses a last frame that is not whole",
            ),
            (size > frames as i64, "hound fails at the end of data cut short"),
            (size <= 0 && frames > 0, "hound believes a size of 0"),
            (self.channels > 1000, "hound multiplies in 16 bits"),
        ];
        reasons.iter().find(|(holds, _)| *holds).map(|(_, reason)| *reason)
    }
}

/// Mostly right headers: each field has one time in 21 a value of the second kind.
fn headers() -> impl Strategy<Value = Header> {
    fn mostly<T: Clone + std::fmt::Debug + 'static>(good: Vec<T>, bad: Vec<T>) -> impl Strategy<Value = T> {
        prop_oneof![20 => prop::sample::select(good), 1 => prop::sample::select(bad)]
    }
    let encoding = mostly(
        vec![(PCM, 8), (PCM, 16), (PCM, 24), (PCM, 32), (FLOAT, 32)],
        vec![
            (FLOAT, 64),
            (PCM, 0),
            (PCM, 12),
            (FLOAT, 16),
            (PCM, 64),
            (2, 4),
            (6, 8),
            (0x55, 0),
        ],
    );
    let shape = (any::<bool>(), encoding, mostly((1..9).collect(), vec![0, 100, 65535]));
    let rate = mostly(vec![8000, 16000, 44100, 48000], vec![0, 1, u32::MAX]);
    let offs = (
        mostly(vec![0], vec![1, 2, 65535]),
        mostly(vec![0u32], vec![1, u32::MAX]),
    );
    let valid = mostly(vec![None, Some(0)], vec![Some(4), Some(40)]);
    let extra = mostly(vec![0], vec![1, 2, 24, 30]);
    let before = prop::collection::vec((mostly(vec![0, 2, 100], vec![1, 7]), any::<bool>()), 0..3);
    let data_off = mostly(vec![0i64], vec![-1, 1, -8, 100, -1000]);
    let frames = prop::collection::vec(any::<u8>(), 0..200);
    (shape, rate, offs, valid, extra, before, data_off, frames).prop_map(
        |(
            (extensible, (tag, bits), channels),
            rate,
            (align_off, byte_rate_off),
            valid,
            fmt_extra,
            before,
            data_off,
            frames,
        )| Header {
            extensible,
            tag,
            channels,
            rate,
            bits,
            valid_bits: valid.unwrap_or(bits),
            align_off,
            byte_rate_off,
            fmt_extra: if extensible { 0 } else { fmt_extra },
            before,
            data_off,
            frames,
        },
    )
}

/// What hound makes of a file, averaged to mono.
fn hound_decode(bytes: &[u8]) -> Result<Vec<f32>, hound::Error> {
    let mut reader = hound::WavReader::new(bytes)?;
    let spec = reader.spec();
    let values: Vec<f64> = match spec.sample_format {
        hound::SampleFormat::Int => {
            let full = 2f64.powi(i32::from(spec.bits_per_sample) - 1);
            reader
                .samples::<i32>()
                .map(|x| Ok(f64::from(x?) / full))
                .collect::<Result<_, hound::Error>>()?
        }
        hound::SampleFormat::Float => reader
            .samples::<f32>()
            .map(|x| Ok(x?).map(|x| if x.abs() <= 64.0 { f64::from(x) } else { 0.0 }))
            .collect::<Result<_, hound::Error>>()?,
    };
    let channels = usize::from(spec.channels);
    Ok(values
        .chunks(channels)
        .map(|frame| (frame.iter().sum::<f64>() / channels as f64) as f32)
        .collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(1024), failure_persistence: None, ..Default::default() })]

    /// The same verdict and the same samples as hound, unless a listed difference explains it.
    #[test]
    fn hound_agrees(header in headers()) {
        let (bytes, frames) = header.build();
        let ours = decode(&bytes).map(|(samples, _)| samples);
        let theirs = hound_decode(&bytes);
        if header.difference(frames).is_none() {
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs);
            if let (Ok(ours), Ok(theirs)) = (&ours, &theirs) {
                prop_assert_eq!(ours, theirs);
            }
        }
    }

    /// Damaged files, in any pieces and into buffers of any size, as a pipe and as a file: never a panic, and the
    /// same result as in one piece.
    #[test]
    fn pieces_do_not_matter(
        header in headers(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop_oneof![3 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)],
        data_first in prop::bool::weighted(0.2),
        pieces in prop::collection::vec(1usize..60, 1..8),
        rooms in prop::collection::vec(0usize..20, 0..8),
        seekable in any::<bool>(),
    ) {
        let (mut bytes, _) = header.build();
        if data_first {
            let early = chunk(b"data", &header.frames);
            bytes.splice(12..12, early);
        }
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let new = || if seekable { Demuxer::seekable() } else { Demuxer::new() };
        let rooms = [&rooms[..], &[1]].concat();
        let whole = decode_in_pieces(new(), &bytes, &[usize::MAX], &[1 << 16]);
        prop_assert_eq!(decode_in_pieces(new(), &bytes, &pieces, &rooms), whole);
    }

    /// Any bytes behind any name: never a panic, and the same result as in one piece.
    #[test]
    fn any_bytes(
        start in prop::sample::select(vec![&b""[..], b"RIFF", b"RIFF\0\0\0\0WAVE", b"RF64\0\0\0\0WAVEds64",
            b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0"]),
        rest in prop::collection::vec(any::<u8>(), 0..100),
        pieces in prop::collection::vec(1usize..20, 1..8),
        seekable in any::<bool>(),
    ) {
        let bytes = cat(&[start, &rest]);
        let new = || if seekable { Demuxer::seekable() } else { Demuxer::new() };
        let whole = decode_in_pieces(new(), &bytes, &[usize::MAX], &[1 << 16]);
        if let Err(error) = &whole {
            let line = error.to_string();
            prop_assert!(!line.is_empty() && !line.contains('\n'));
        }
        prop_assert_eq!(decode_in_pieces(new(), &bytes, &pieces, &[1, 0, 3]), whole);
    }
}
