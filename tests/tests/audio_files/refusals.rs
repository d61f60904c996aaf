//! What cannot be read, and what can be read only in part.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use voxtral::AudioFile;
use voxtral_tests::program::run;

use crate::support::{Files, encoded, read};

fn refused(path: &Path, words: &[&str]) {
    let error = match AudioFile::open(path) {
        Ok(_) => panic!("{}: opened", path.display()),
        Err(error) => error.to_string(),
    };
    assert!(!error.contains('\n'), "one line: {error}");
    for word in words.iter().chain(&[path.to_str().unwrap()]) {
        assert!(error.contains(word), "{word:?} is not in: {error}");
    }
}

/// W5: codecs that are not read are named.
#[test]
fn w5_codecs_are_named() {
    refused(
        &encoded("mp3-in-wav.wav"),
        &["WAV", "MP3", "0x0055", "not read", "ffmpeg"],
    );
    refused(&encoded("opus.ogg"), &["Ogg", "Opus", "ffmpeg"]);
    refused(&encoded("alac.m4a"), &["MP4", "ALAC", "ffmpeg"]);
    refused(&encoded("video-ac3.mp4"), &["MP4", "AC-3", "ffmpeg"]);
    refused(&encoded("video-without-sound.mp4"), &["MP4", "without any sound"]);
    refused(&encoded("core-audio.caf"), &["Core Audio", "ffmpeg"]);
}

/// A video, as a person meets it.
#[test]
fn a_video_is_told_in_one_line() {
    let path = encoded("video-without-sound.mp4");
    run([path.to_str().unwrap()]).assert_refused(&["video-without-sound.mp4", "MP4", "without any sound"]);
}

/// W9: what begins like a format and is none, and what is not known, is never taken for samples.
#[test]
fn w9_unknown_bytes_are_named() {
    let files = Files::new();
    let noise: Vec<u8> = (0..20_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for (start, words) in [
        (&b"fLaC\0\0\0\x22"[..], &["FLAC"][..]),
        (b"ID3\x04\0\0\0\0\0\0", &["MP3"]),
        (b"ID3\x04\0\0\x7F\x7F\x7F\x7F", &["MP3"]),
        (b"OggS\0\x02", &["Ogg"]),
        (b"\0\0\0\x20ftypM4A ", &["MP4"]),
        (b"FORM\0\0\0\x40AIFFCOMM", &["AIFF"]),
        (b"\xFF\xFB\x90\x00", &["MP3"]),
        (b"\xFF\xF1\x50\x80", &["AAC"]),
        (b"RIFF\0\0\0\x40AVI LIST", &["AVI", "ffmpeg"]),
        (b"\x1A\x45\xDF\xA3", &["Matroska", "ffmpeg"]),
        (b"#!AMR\n", &["AMR", "ffmpeg"]),
        (b"\x89PNG\r\n\x1a\n", &["no audio format", "PNG"]),
        (b"\x01\0\0\0\0\0\0\0\0\0\0\0", &["no audio format", "\\x00", "ffmpeg"]),
    ] {
        for name in ["a.wav", "a"] {
            refused(&files.write(name, start), words);
            // MPEG has no header beyond a frame: frames may turn up in noise.
            if !words.contains(&"MP3") && !words.contains(&"AAC") {
                refused(&files.write(name, &[start, &noise].concat()), words);
            }
        }
    }
    refused(&files.write("a", b""), &["empty"]);
    refused(&files.write("a", b"RIF"), &["WAV ends at byte 3"]);
    refused(&files.write("a", b"RIFF\0\0\0\0WAVE"), &["before its format"]);
    refused(&files.write("a", b"RIFF\0\0\0\0WEBP"), &["no audio format", "WEBP"]);
}

/// What is something else is called by its name.
#[test]
fn w9_other_files_are_told() {
    let files = Files::new();
    let header = br#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let weights = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat();
    for (bytes, words) in [
        (&b"plain words\n"[..], &["no audio but a text", "plain words"][..]),
        (b"<!DOCTYPE html><html></html>", &["no audio but an HTML page"]),
        (b"{\"text\": \"words\"}", &["no audio but a JSON document"]),
        (&[0; 100], &["no audio but a file of zeros"]),
        (b"\x1F\x8B\x08\0\0\0\0\0", &["no audio but", "gzip", "gunzip"]),
        (&weights, &["no audio but weights", "safetensors", "-d"]),
    ] {
        refused(&files.write("a.wav", bytes), words);
    }
}

#[test]
fn tags_without_audio_are_told() {
    let files = Files::new();
    let tag = b"ID3\x04\0\0\0\0\0\0";
    let junk = [&tag[..], &b"nothing ".repeat(1000)].concat();
    refused(&files.write("a.mp3", &junk), &["MP3", "no audio follows"]);
    let mp3 = fs::read(encoded("02-espeak.mp3")).unwrap();
    let many = |count| files.write("b.mp3", &[&tag.repeat(count)[..], &mp3].concat());
    refused(&many(16), &["MP3", "more than 16 ID3 tags"]);
    // The MP3 has one of its own.
    assert!(read(&many(15)).is_ok());
}

/// The true cause, for a codec that has a decoder.
#[test]
fn a_bad_header_of_a_codec_is_told() {
    let files = Files::new();
    let mut bytes = fs::read(encoded("adpcm_ms.wav")).unwrap();
    let format = bytes.windows(4).position(|name| name == b"fmt ").unwrap() + 8;
    bytes[format + 14] = 5;
    refused(&files.write("a.wav", &bytes), &["WAV", "bits per sample", "4 bits"]);
}

#[test]
fn a_directory_is_refused() {
    refused(Files::new().path("").as_path(), &["is a directory"]);
}

/// A file that is cut is read as far as it goes, and told.
#[test]
fn cut_files_are_told() {
    let files = Files::new();
    for (name, lossless) in [
        ("00-espeak.flac", true),
        ("00-espeak.mp3", false),
        ("00-espeak.ogg", false),
    ] {
        let (whole, _) = read(&encoded(name)).unwrap();
        let bytes = fs::read(encoded(name)).unwrap();
        for percent in [50, 80, 99] {
            let path = files.write("cut", &bytes[..bytes.len() * percent / 100]);
            let (samples, remarks) = read(&path).unwrap();
            assert!(
                samples.len() < whole.len() && samples.len() > whole.len() / 4,
                "{name}, {percent} %"
            );
            if lossless {
                assert!(whole.starts_with(&samples), "{name}, {percent} %");
            }
            assert!(
                remarks.iter().any(|line| line.contains("the file is cut")),
                "{name}: {remarks:?}"
            );
        }
    }
    // The index of this one is at its end.
    let bytes = fs::read(encoded("00-espeak.m4a")).unwrap();
    refused(&files.write("cut", &bytes[..bytes.len() / 2]), &["MP4", "index", "cut"]);
    // Here it comes first.
    let path = files.write("cut", &index_first(&bytes)[..bytes.len() / 2]);
    let (samples, remarks) = read(&path).unwrap();
    assert!(samples.len() > 10_000, "{}", samples.len());
    assert!(remarks[0].contains("the file is cut"), "{remarks:?}");
}

/// An MP4 with its `moov` in front of its `mdat`, to which the offsets in `stco` have to be adjusted.
fn index_first(bytes: &[u8]) -> Vec<u8> {
    let mut atoms = Vec::new();
    let mut rest = bytes;
    while let Some(size) = rest.first_chunk().map(|size| u32::from_be_bytes(*size) as usize) {
        atoms.push(rest.split_at(size).0);
        rest = &rest[size..];
    }
    let (moov, others): (Vec<_>, Vec<_>) = atoms.into_iter().partition(|atom| &atom[4..8] == b"moov");
    let mut moov = moov[0].to_vec();
    let stco = moov.windows(4).position(|name| name == b"stco").unwrap();
    let count = u32::from_be_bytes(moov[stco + 8..stco + 12].try_into().unwrap()) as usize;
    let moved = moov.len() as u32;
    for place in (0..count).map(|index| stco + 12 + 4 * index) {
        let offset = u32::from_be_bytes(moov[place..place + 4].try_into().unwrap());
        moov[place..place + 4].copy_from_slice(&(offset + moved).to_be_bytes());
    }
    [others[0], &moov[..], &others[1..].concat()].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is wrong with a file, it ends in samples that are numbers or in one line: no panic, no hang.
    #[test]
    fn damaged_files_do_no_harm(
        file in 0usize..9,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        early in any::<bool>(),
        cut in prop::option::weighted(0.3, any::<prop::sample::Index>()),
    ) {
        let names = [
            "02-espeak.flac", "02-espeak.mp3", "02-espeak.ogg", "02-espeak.m4a", "video.mp4",
            "adpcm_ms.wav", "adpcm_ima_wav.wav", "stream.aac", "pcm_alaw.wav",
        ];
        let mut bytes = fs::read(encoded(names[file])).unwrap();
        // Half of them in the headers, which are at the beginning or (MP4) at the end.
        let length = bytes.len();
        for (index, value) in changes {
            let place = match (early, names[file].contains("4")) {
                (true, false) => index.index(length.min(300)),
                (true, true) => length - 1 - index.index(length.min(1500)),
                (false, _) => index.index(length),
            };
            bytes[place] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(length));
        }
        let files = Files::new();
        match read(&files.write("damaged", &bytes)) {
            Ok((samples, _)) => prop_assert!(samples.iter().all(|sample| sample.is_finite())),
            Err(error) => prop_assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
}
