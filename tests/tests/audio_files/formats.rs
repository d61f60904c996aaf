//! The same speech in every format.

use std::fs;

use voxtral_tests::goldens;

use crate::support::{Files, aiff, clip, delay, encoded, read, resampled, samples, spoken, text};

#[test]
fn formats_are_listed() {
    assert_eq!(
        voxtral::audio::formats(),
        [
            "WAV",
            "WAV (A-law, \u{b5}-law, ADPCM)",
            "FLAC",
            "MP3",
            "Ogg Vorbis",
            "M4A (AAC)",
            "AIFF"
        ]
    );
}

#[test]
fn compressed_speech_is_the_same_text() {
    for extension in ["flac", "mp3", "ogg", "m4a"] {
        for (name, expected) in spoken().into_iter().take(10) {
            let path = encoded(&format!("{name}.{extension}"));
            assert_eq!(text(&path), expected, "{}", path.display());
        }
    }
}

#[test]
fn wav_of_other_kinds_is_the_same_text() {
    let files = Files::new();
    for (name, expected) in spoken() {
        let clip = clip(&name);
        let wide: Vec<i32> = clip.iter().map(|sample| sample << 8).collect();
        let narrow: Vec<i32> = clip.iter().map(|sample| ((sample + 128) >> 8).min(127)).collect();
        assert_eq!(text(&files.integers(1, 16_000, 24, &wide)), expected, "{name}, 24 bits");
        assert_eq!(text(&files.integers(2, 16_000, 16, &clip)), expected, "{name}, stereo");
        // The noise of 8 bits and that of the clip together make the small model miss a word of this one.
        if name != "08-festival-noisy" {
            assert_eq!(text(&files.integers(1, 16_000, 8, &narrow)), expected, "{name}, 8 bits");
        }
        for rate in [48_000, 22_050] {
            let clip = resampled(&clip, 16_000, rate);
            assert_eq!(text(&files.integers(1, rate, 16, &clip)), expected, "{name}, {rate} Hz");
        }
    }
}

/// What is stored without loss gives the samples of the WAV, bit for bit.
#[test]
fn lossless_formats_give_the_same_samples() {
    let files = Files::new();
    for (name, _) in spoken().into_iter().take(10) {
        let expected = samples(&goldens::clips_dir().join(format!("{name}.wav")));
        assert_eq!(samples(&encoded(&format!("{name}.flac"))), expected, "{name}");
        let clip = clip(&name);
        let big: Vec<u8> = clip.iter().flat_map(|s| (*s as i16).to_be_bytes()).collect();
        let little: Vec<u8> = clip.iter().flat_map(|s| (*s as i16).to_le_bytes()).collect();
        for (compression, frames) in [(None, &big), (Some(b"NONE"), &big), (Some(b"sowt"), &little)] {
            let path = files.write("clip", &aiff(compression, 1, 16, 16_000, frames));
            assert!(samples(&path) == expected, "{name}, {compression:?}");
        }
    }
}

/// The delay of MP3 and Vorbis encoders is taken away at both ends. That of AAC stays: at 44.1 kHz 1024 samples, as
/// the decoder does not read the edit list of an MP4.
#[test]
fn lossy_formats_keep_time() {
    for (name, _) in spoken().into_iter().take(9) {
        let expected = samples(&goldens::clips_dir().join(format!("{name}.wav")));
        for (extension, late) in [("mp3", 0), ("ogg", 0), ("m4a", 372)] {
            let decoded = samples(&encoded(&format!("{name}.{extension}")));
            assert_eq!(
                delay(&expected, &decoded, late - 20..late + 20),
                late,
                "{name}.{extension}"
            );
            let longer = decoded.len() as isize - expected.len() as isize;
            // ffmpeg's resampler adds a few samples at the end; AAC fills its last piece.
            let most = if late == 0 { 20 } else { late + 372 };
            assert!((0..=most).contains(&longer), "{name}.{extension}: longer by {longer}");
        }
    }
}

/// W5: A-law, mu-law and ADPCM in WAV.
#[test]
fn w5_wav_with_a_codec_is_decoded() {
    let expected = samples(&goldens::clips_dir().join("02-espeak.wav"));
    for name in ["pcm_alaw", "pcm_mulaw", "adpcm_ms", "adpcm_ima_wav"] {
        let path = encoded(&format!("{name}.wav"));
        assert_eq!(text(&path), "one", "{name}");
        let decoded = samples(&path);
        assert_eq!(delay(&expected, &decoded, -100..100), 0, "{name}");
        let noise: f32 = expected.iter().zip(&decoded).map(|(a, b)| (a - b).powi(2)).sum();
        let signal: f32 = expected.iter().map(|a| a.powi(2)).sum();
        assert!(noise < 0.01 * signal, "{name}: {noise} of {signal}");
    }
}

/// The sound of a video, AAC without a container, and an MP3 that does not know its length.
#[test]
fn other_files_of_the_same_codecs_are_read() {
    for name in ["video.mp4", "stream.aac", "vbr-without-length.mp3"] {
        assert_eq!(text(&encoded(name)), "one", "{name}");
    }
    // As long as the clip, and the encoder's delay and padding.
    let length = samples(&encoded("vbr-without-length.mp3")).len();
    assert!((15_635..15_635 + 1500).contains(&length), "{length}");
}

/// Two MP3s in one file, of which the first has a header with its own length only.
#[test]
fn audio_behind_the_declared_length_is_not_lost() {
    let files = Files::new();
    let one = fs::read(encoded("02-espeak.mp3")).unwrap();
    let both = [&one[..], &one[..]].concat();
    assert_eq!(text(&files.write("both.mp3", &both)), "one one");
    // An ID3 tag with anything in it, and a name that says nothing.
    let mut tagged = b"ID3\x04\0\0\0\0\x02\x10".to_vec();
    tagged.extend([0xFF; 0x110]);
    tagged.extend(&one);
    assert_eq!(
        samples(&files.write("tagged", &tagged)),
        samples(&encoded("02-espeak.mp3"))
    );
    let mut tagged = b"ID3\x03\0\0\0\0\0\x04abcd".to_vec();
    tagged.extend(fs::read(encoded("02-espeak.flac")).unwrap());
    assert_eq!(
        samples(&files.write("tagged", &tagged)),
        samples(&encoded("02-espeak.flac"))
    );
}

/// Names mean nothing.
#[test]
fn formats_are_told_by_their_bytes() {
    let files = Files::new();
    for (name, other) in [
        ("02-espeak.flac", "a.wav"),
        ("02-espeak.ogg", "a.mp3"),
        ("02-espeak.m4a", "a.flac"),
    ] {
        let path = files.write(other, &fs::read(encoded(name)).unwrap());
        assert_eq!(text(&path), "one", "{name} as {other}");
    }
}

/// Channels are averaged, and not only those of WAV.
#[test]
fn channels_are_averaged() {
    let files = Files::new();
    let frames: Vec<u8> = [[1000i16, 3000, -1000], [-4, 4, 3], [32767, 32767, 32767]]
        .iter()
        .flatten()
        .flat_map(|sample| sample.to_be_bytes())
        .collect();
    let result = samples(&files.write("a", &aiff(None, 3, 16, 16_000, &frames)));
    let expected = [1000.0, 1.0, 32767.0].map(|sample| (sample / 32768.0) as f32);
    assert_eq!(result, expected);
}

/// W11: NaN, ±inf and values that no microphone gives count as 0, and are told.
#[test]
fn w11_values_that_are_none_are_told() {
    let files = Files::new();
    let frames: Vec<u8> = [0.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e20, -0.25]
        .iter()
        .flat_map(|sample| sample.to_be_bytes())
        .collect();
    let path = files.write("a.aiff", &aiff(Some(b"fl32"), 1, 32, 16_000, &frames));
    let (samples, remarks) = read(&path).unwrap();
    assert_eq!(samples, [0.5, 0.0, 0.0, 0.0, 0.0, -0.25]);
    assert!(remarks[0].contains("3 samples were NaN or infinite"), "{remarks:?}");
    assert!(remarks[1].contains("1 sample was far beyond full scale"), "{remarks:?}");

    // The same in a WAV that has to be resampled: nothing of it spreads.
    let odd = [f64::NAN, f64::INFINITY, 1e20].into_iter().cycle().take(300);
    let (samples, remarks) = read(&files.float(44_100, odd)).unwrap();
    assert_eq!(samples, [0.0; 109]);
    assert_eq!(remarks.len(), 2, "{remarks:?}");
}

/// W11: header only, one sample, 100 ms, full scale, DC, at rates that are resampled.
#[test]
fn w11_short_and_loud_files() {
    let files = Files::new();
    for rate in [8_000, 16_000, 44_100, 48_000] {
        for (count, value) in [
            (0, 0),
            (1, 32767),
            (rate / 10, 0),
            (rate / 10, -32768),
            (rate / 10, 300),
        ] {
            let signal = vec![value; count as usize];
            let result = samples(&files.integers(1, rate, 16, &signal));
            let expected = (f64::from(count) * 16_000.0 / f64::from(rate)).round() as usize;
            assert_eq!(result.len(), expected, "{count} samples at {rate} Hz");
            // The sinc swings over at the edges of what is full scale.
            assert!(result.iter().all(|sample| sample.abs() < 1.2));
        }
    }
}
