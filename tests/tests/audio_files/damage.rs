//! Files with damage in the middle, wrong sizes, or something else behind their audio: what is there is read, what is
//! missing is told, and what follows keeps its time.

use std::fs;

use crate::support::{Files, delay, encoded, read, samples, text};

/// The pages of an Ogg, as ranges of its bytes.
fn pages(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut pages = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let segments = usize::from(bytes[start + 26]);
        let sizes = &bytes[start + 27..][..segments];
        let end = start + 27 + segments + sizes.iter().map(|size| usize::from(*size)).sum::<usize>();
        pages.push(start..end);
        start = end;
    }
    pages
}

fn contains(remarks: &[String], words: &str) -> bool {
    remarks.iter().any(|line| line.contains(words))
}

#[test]
fn silence_takes_the_place_of_a_damaged_page() {
    let files = Files::new();
    let whole = samples(&encoded("00-espeak.ogg"));
    let bytes = fs::read(encoded("00-espeak.ogg")).unwrap();
    let pages = pages(&bytes);
    assert_eq!(pages.len(), 5);
    for lost in [false, true] {
        let mut damaged = bytes.clone();
        let page = pages[3].clone();
        if lost {
            damaged.drain(page);
        } else {
            damaged[page.start + 100] ^= 1;
        }
        let (decoded, remarks) = read(&files.write("a.ogg", &damaged)).unwrap();
        assert!(contains(&remarks, "s of audio are missing in 1 places"), "{remarks:?}");
        assert!(
            decoded.len().abs_diff(whole.len()) < 16,
            "{} of {}",
            decoded.len(),
            whole.len()
        );
        assert!(
            decoded[20_000..]
                .windows(8_000)
                .any(|piece| piece.iter().all(|&sample| sample == 0.0))
        );
        // What is cut from the end of the last page is not known without the one before: 255 samples of 16 kHz.
        let last = whole.len() - 8_000..whole.len() - 100;
        assert_eq!(delay(&whole[last.clone()], &decoded[last], -400..400), -255);
    }
    // The first page of audio; what comes before may never have been there.
    let mut damaged = bytes.clone();
    damaged[pages[2].start + 100] ^= 1;
    let (_, remarks) = read(&files.write("a.ogg", &damaged)).unwrap();
    assert!(contains(&remarks, "the audio begins at 1."), "{remarks:?}");
    // One stream behind the other is no gap.
    assert_eq!(
        samples(&files.write("a.ogg", &[&bytes[..], &bytes].concat())).len(),
        2 * whole.len()
    );
}

#[test]
fn silence_takes_the_place_of_a_damaged_flac_frame() {
    let files = Files::new();
    let whole = samples(&encoded("00-espeak.flac"));
    let mut bytes = fs::read(encoded("00-espeak.flac")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let (decoded, remarks) = read(&files.write("a.flac", &bytes)).unwrap();
    assert!(!remarks.is_empty());
    assert_eq!(decoded.len(), whole.len());
    assert_eq!(decoded[whole.len() - 4000..], whole[whole.len() - 4000..]);
}

/// Among other things, damage makes a frame ask for more bits than it has.
#[test]
fn a_damaged_aac_frame_is_silence() {
    let files = Files::new();
    for (name, part) in [("stream.aac", 1.0), ("02-espeak.m4a", 0.8)] {
        let whole = samples(&encoded(name)).len();
        let bytes = fs::read(encoded(name)).unwrap();
        let end = (bytes.len() as f64 * part) as usize;
        let mut early = 0;
        for place in (bytes.len() / 5..end).step_by(29) {
            let mut bytes = bytes.clone();
            bytes[place] ^= 0xFF;
            let (decoded, remarks) = read(&files.write("a", &bytes)).unwrap();
            let silent = contains(&remarks, "could not be decoded and count as silence");
            early += usize::from(silent && contains(&remarks, "ends too early"));
            // Where a frame of ADTS ends is only in its own head, so that frames may be lost with it.
            if part < 1.0 {
                assert_eq!(decoded.len(), whole, "{name}, {place}");
            }
        }
        assert!(early > 0, "{name}");
    }
}

#[test]
fn adpcm_that_is_cut_is_read_up_to_its_last_whole_block() {
    let files = Files::new();
    for name in ["adpcm_ms.wav", "adpcm_ima_wav.wav"] {
        let whole = samples(&encoded(name));
        let bytes = fs::read(encoded(name)).unwrap();
        for percent in [40, 75, 95] {
            let path = files.write("cut.wav", &bytes[..bytes.len() * percent / 100]);
            let (decoded, remarks) = read(&path).unwrap();
            assert!(contains(&remarks, "the file is cut"), "{name}: {remarks:?}");
            assert_eq!(decoded[..], whole[..decoded.len()], "{name}");
            // A block has no more than 2041 samples.
            let least = whole.len() * percent / 100;
            assert!(decoded.len() + 2_300 > least, "{name}: {} of {least}", decoded.len());
        }
    }
}

/// W1, for what core does not decode.
#[test]
fn w1_wrong_sizes_of_a_wav_with_a_codec() {
    let files = Files::new();
    for name in ["pcm_alaw.wav", "pcm_mulaw.wav", "adpcm_ms.wav", "adpcm_ima_wav.wav"] {
        let expected = samples(&encoded(name));
        let bytes = fs::read(encoded(name)).unwrap();
        let data = bytes.windows(4).position(|name| name == b"data").unwrap();
        for (place, size) in [(data + 4, 0u32), (data + 4, u32::MAX), (4, 0), (4, 36), (4, u32::MAX)] {
            let mut bytes = bytes.clone();
            bytes[place..place + 4].copy_from_slice(&size.to_le_bytes());
            let path = files.write("a.wav", &bytes);
            let decoded = samples(&path);
            // Without a size a pad byte is a sample.
            assert!(decoded.starts_with(&expected), "{name}, {size} at {place}");
            assert!(decoded.len() - expected.len() <= 1, "{name}, {size} at {place}");
        }
        let mut bytes = bytes.clone();
        bytes[data + 4..data + 8].copy_from_slice(&0x7FFF_FFFFu32.to_le_bytes());
        let (decoded, remarks) = read(&files.write("a.wav", &bytes)).unwrap();
        assert!(decoded.starts_with(&expected), "{name}");
        assert!(contains(&remarks, "the file is cut"), "{name}: {remarks:?}");
        // Nothing, and a chunk behind it.
        bytes[data + 4..data + 8].fill(0);
        bytes.truncate(data + 8);
        bytes.extend(b"LIST\x04\0\0\0INFO");
        assert!(samples(&files.write("a.wav", &bytes)).is_empty(), "{name}");
    }
}

/// The tags that other programs put behind a FLAC, and the zeros of a broken copy.
#[test]
fn what_follows_a_flac_is_no_audio() {
    let files = Files::new();
    let flac = fs::read(encoded("02-espeak.flac")).unwrap();
    let expected = samples(&encoded("02-espeak.flac"));
    let mut id3 = b"TAG".to_vec();
    id3.resize(128, b' ');
    let mut ape = b"a text\0\0APETAGEX\xD0\x07\0\0\x28\0\0\0".to_vec();
    ape.resize(40, 0);
    let both = [&ape[..], &id3].concat();
    for tail in [&id3[..], &ape, &both, &[0], &[0; 2], &[0; 3], &[0; 4096]] {
        let path = files.write("a.flac", &[&flac[..], tail].concat());
        assert!(samples(&path) == expected, "{} bytes", tail.len());
    }
    // Any of its samples may make the last byte of a FLAC zero.
    for name in ["00-espeak", "04-flite", "09-silence"] {
        assert!(!samples(&encoded(&format!("{name}.flac"))).is_empty());
    }
    assert_eq!(text(&files.write("a.flac", &[&flac[..], &id3].concat())), "one");
}

/// Chunks and tags behind the audio of a WAV are nothing to tell; anything else is, by file and by pipe.
#[test]
fn what_is_behind_the_audio_of_a_wav_is_told_unless_it_is_chunks() {
    let files = Files::new();
    // Sixteen bits and eight: the one sample of the latter is followed by a pad byte, or not.
    let wav = |bits: u16, data: &[u8]| {
        let (block, bytes) = (bits / 8, data.len() as u32);
        let mut wav = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0".to_vec();
        wav.extend([block.to_le_bytes(), bits.to_le_bytes()].concat());
        wav.extend(b"data");
        wav.extend(bytes.to_le_bytes());
        wav.extend(data);
        wav
    };
    let chunk = |name: &[u8; 4], bytes: &[u8]| [&name[..], &(bytes.len() as u32).to_le_bytes(), bytes].concat();
    let list = chunk(b"LIST", b"INFOwords and more");
    let odd = [chunk(b"note", b"odd"), vec![0], list.clone()].concat();
    let tag = [&b"ID3\x04\0\0\0\0\0\x7F"[..], &[1; 127]].concat();
    let whole = wav(16, &[1, 0, 2, 0]);
    let cases: [(Vec<u8>, usize); 9] = [
        (vec![], 0),
        (list.clone(), 0),
        (odd, 0),
        (tag, 0),
        (whole.clone(), whole.len()),
        ([list.clone(), whole.clone()].concat(), whole.len()),
        (vec![0; 100_000], 100_000),
        (b"some words that are no chunk".to_vec(), 28),
        (b"x".to_vec(), 1),
    ];
    for (head, samples) in [
        (whole, 2),
        (wav(8, &[1]), 1),
        ([wav(8, &[1]), vec![0]].concat(), 1),
        (wav(16, &[]), 0),
    ] {
        for (behind, stray) in &cases {
            // A data chunk of size 0 reaches to the end, unless a chunk follows; a zero behind one of odd size is a pad.
            if samples == 0 && !behind.starts_with(b"LIST") || samples == 1 && behind.starts_with(&[0]) {
                continue;
            }
            let path = files.write("a.wav", &[&head[..], behind].concat());
            let told = match stray {
                0 => vec![],
                1 => vec!["1 byte behind the audio is no part of the WAV and was not listened to".to_owned()],
                _ => vec![format!(
                    "{stray} bytes behind the audio are no part of the WAV and were not listened to"
                )],
            };
            let (found, remarks) = read(&path).unwrap();
            assert_eq!((found.len(), &remarks), (samples, &told), "{behind:?}");
            let (found, remarks) = crate::support::read_piped(&path).unwrap();
            assert_eq!((found.len(), &remarks), (samples, &told), "{behind:?}");
        }
    }
}

/// Behind the audio of a file nothing is read: it may be any length.
#[test]
fn a_long_hole_behind_the_audio_takes_no_time() {
    let files = Files::new();
    let path = files.write("a.wav", &fs::read(encoded("../clips/00-espeak.wav")).unwrap());
    let whole = samples(&path);
    let audio = fs::metadata(&path).unwrap().len();
    let length = 1 << 40;
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    if file.set_len(length).is_err() {
        // Not every file system has files of this length.
        return;
    }
    let (found, remarks) = read(&path).unwrap();
    assert_eq!(found, whole);
    assert!(
        contains(&remarks, &format!("{} bytes behind the audio", length - audio)),
        "{remarks:?}"
    );
}
