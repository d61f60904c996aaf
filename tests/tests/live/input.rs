//! What standard input is taken for.

use std::fs;
use std::io::Write;
use std::process::Command;
use std::thread;

use voxtral_tests::goldens;
use voxtral_tests::proc;
use voxtral_tests::program::{arg, clip, long_wav, run};

use crate::support::{Running, fed, raw, to_raw, told, wav};

/// W8: the header arrives in 1-byte reads, a LIST chunk of 10 kB comes before the data, the pipe stays open: text
/// appears while it is open.
#[test]
fn w8_text_appears_while_the_stream_is_open() {
    let bytes = wav(0);
    let mut head = bytes[..36].to_vec();
    head.extend(b"LIST");
    head.extend(10_240u32.to_le_bytes());
    head.resize(head.len() + 10_240, b'x');
    // A recorder that writes to a pipe does not know how much will come.
    head.extend(b"data\xFF\xFF\xFF\xFF");
    let mut running = Running::start(&["--stdin", "-I", "0.08", "--silent"]);
    for byte in &head {
        running.stdin().write_all(&[*byte]).unwrap();
    }
    running.stdin().write_all(&bytes[44..]).unwrap();
    running.wait_for("one four six six");
    let ran = running.end();
    assert_eq!((ran.code, ran.stdout.trim_end()), (Some(0), clip(0).1.as_str()));
}

/// W9: what is a known container is decoded, or named; it is never raw samples.
#[test]
fn w9_containers_are_decoded_or_named() {
    let encoded = |name: &str| fs::read(goldens::clips_dir().parent().unwrap().join("encoded").join(name)).unwrap();
    for name in ["00-espeak.flac", "00-espeak.mp3", "00-espeak.ogg"] {
        let ran = fed(&["--stdin", "--silent"], &encoded(name), 4096);
        assert_eq!(
            (ran.code, ran.stdout.trim_end()),
            (Some(0), clip(0).1.as_str()),
            "{name}"
        );
    }
    let tag = b"ID3\x04\0\0\0\0\0\0 and more of it, but no frame";
    for (bytes, words) in [
        (&tag[..], "MP3"),
        (b"fLaC\0\0\0\x22 and more", "FLAC"),
        (b"OggS\0\x02 and more", "Ogg"),
        (b"\0\0\0\x20ftypM4A and more", "MP4"),
        (b"\x1A\x45\xDF\xA3 and more", "Matroska"),
        (b"RIFX\0\0\0\0WAVE and more", "big-endian"),
        (b"", "empty"),
    ] {
        fed(&["--stdin"], bytes, 1).assert_refused(&["standard input", words]);
    }
}

/// Twelve bits that could begin a frame of MP3 or AAC are a sample like any other.
#[test]
fn w9_samples_that_look_like_frames_are_samples() {
    // Whole headers of MP3 of three versions, and of AAC.
    for start in [
        [0xFF, 0xFB, 0x90, 0, 0, 0],
        [0xFF, 0xF3, 0x90, 0, 0, 0],
        [0xFF, 0xE3, 0x90, 0, 0, 0],
        [0xFF, 0xF1, 0x50, 0x80, 0x10, 0x1F],
    ] {
        let mut bytes = raw(0);
        bytes[..6].copy_from_slice(&start);
        let ran = fed(&["--stdin", "--silent"], &bytes, 65_536);
        assert_eq!((ran.code, ran.stdout.trim_end()), (Some(0), clip(0).1.as_str()));
    }
}

/// W10: reads that end in the middle of a sample lose nothing; an odd byte at the end is told.
#[test]
fn w10_half_samples_are_kept_and_an_odd_byte_is_told() {
    let expected = told(&run([arg(&clip(2).0), "--debug"]), "logit hash");
    let mut bytes = raw(2);
    bytes.push(1);
    for cut in [1, 3, 4097] {
        let ran = fed(&["-", "--debug"], &bytes, cut);
        assert_eq!(told(&ran, "logit hash"), expected, "{cut}");
        assert!(ran.stderr.contains("not whole, 1 byte was dropped"), "{}", ran.stderr);
    }
}

/// W12: the same audio by path, by standard input, as raw samples and by a FIFO has the same bits.
#[test]
fn w12_the_same_audio_has_the_same_bits_whichever_way_it_comes() {
    for index in [0, 3] {
        let (file, text) = clip(index);
        let by_path = run([arg(&file), "--debug"]);
        assert_eq!(by_path.stdout.trim_end(), text);
        let (wav, raw) = (wav(index), raw(index));
        let floats: Vec<u8> = goldens::clips()[index]
            .samples
            .iter()
            .flat_map(|sample| sample.to_le_bytes())
            .collect();
        let stereo: Vec<u8> = raw.chunks(2).flat_map(|sample| [sample, sample].concat()).collect();
        for (args, bytes, cut) in [
            (&["--stdin"][..], &wav, 1),
            (&["-"], &wav, 65_536),
            (&["--stdin"], &raw, 1001),
            (&["--stdin", "--gate", "off", "-I", "0.08"], &raw, 65_536),
            (&["--stdin", "--format", "s16le", "--rate", "16000"], &raw, 65_536),
            (&["--stdin", "--format", "f32le"], &floats, 65_536),
            (&["--stdin", "--channels", "2"], &stereo, 65_536),
        ] {
            let ran = fed(&[args, &["--debug"]].concat(), bytes, cut);
            assert_eq!(ran.stdout.trim_end(), text, "{args:?}");
            assert_eq!(told(&ran, "logit hash"), told(&by_path, "logit hash"), "{args:?}");
        }

        let directory = tempfile::tempdir().unwrap();
        let headless = directory.path().join("stereo.raw");
        fs::write(&headless, stereo).unwrap();
        let ran = run([arg(&headless), "--format", "s16le", "--channels", "2", "--debug"]);
        assert_eq!(told(&ran, "logit hash"), told(&by_path, "logit hash"));

        let fifo = directory.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let writer = fifo.clone();
        let writer = thread::spawn(move || fs::write(writer, wav).unwrap());
        let ran = run([arg(&fifo), "--debug"]);
        writer.join().unwrap();
        assert_eq!(told(&ran, "logit hash"), told(&by_path, "logit hash"));
    }
}

/// Another rate is resampled as that of a file is.
#[test]
fn raw_samples_of_another_rate_are_resampled() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("8k.wav");
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 8000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(&file, spec).unwrap();
    for sample in goldens::clips()[0].samples.iter().step_by(2) {
        writer.write_sample((sample * 32768.0) as i16).unwrap();
    }
    writer.finalize().unwrap();
    let by_path = run([arg(&file), "--debug"]);
    let bytes = fs::read(&file).unwrap();
    let ran = fed(&["--stdin", "--rate", "8000", "--debug"], &bytes[44..], 777);
    assert_eq!(told(&ran, "logit hash"), told(&by_path, "logit hash"));
    for (option, value) in [("--rate", "7"), ("--rate", "0"), ("--rate", "-1"), ("--channels", "0")] {
        let refused = fed(&["--stdin", option, value], &bytes[44..], 65_536);
        refused.assert_refused(&[option, value, "--help"]);
        assert_eq!(refused.code, Some(2));
    }
}

/// D8: what is written faster than it is heard has to wait, and nothing of it is lost.
#[test]
fn d8_a_writer_that_is_too_fast_waits() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("long.wav");
    long_wav(&file, 40);
    let by_path = run([arg(&file), "--debug"]);
    let ran = fed(
        &["--stdin", "--gate", "off", "--debug"],
        &fs::read(&file).unwrap(),
        1 << 20,
    );
    assert_eq!(ran.stdout, by_path.stdout);
    assert_eq!(told(&ran, "logit hash"), told(&by_path, "logit hash"));
}

/// D3 in short: after a minute memory stays as it is, in speech and in silence. `ci/soak.py` takes hours, and the time.
#[test]
#[cfg(target_os = "linux")]
fn d3_memory_stays_flat() {
    let speech = goldens::clips().iter().flat_map(|clip| clip.samples.clone()).collect();
    for (what, minute) in [("speech", speech), ("silence", vec![0.0; 60 * 16_000])] {
        let minute: Vec<f32> = minute;
        let bytes: Vec<u8> = to_raw(&minute).into_iter().cycle().take(2 * 60 * 16_000).collect();
        let mut running = Running::start(&["--stdin", "--gate", "off", "--silent"]);
        let status = format!("/proc/{}/status", running.child.id());
        let mut anonymous = Vec::new();
        for _ in 0..5 {
            running.stdin().write_all(&bytes).unwrap();
            anonymous.push(proc::bytes(&status, "RssAnon").unwrap());
        }
        let most = anonymous.iter().max().unwrap();
        assert!(
            100 * most <= 101 * anonymous[0],
            "{what}: {anonymous:?} bytes after minutes"
        );
        assert_eq!(running.end().code, Some(0));
    }
}

/// Text is no audio, however little of it there is and whatever follows.
#[test]
fn text_is_refused() {
    let page = "<html><body>not found</body></html>".repeat(10);
    let json = "{\"error\": \"no such stream\", \"code\": 404}";
    for (text, words) in [(page.as_str(), "HTML"), (json, "JSON"), ("hello\n", "hello")] {
        fed(&["--stdin"], text.as_bytes(), 1).assert_refused(&["standard input", "no audio", words]);
    }
    // It is seen while the stream is open, and no more is waited for than tells it.
    let mut running = Running::start(&["--stdin"]);
    running.stdin().write_all(&page.as_bytes()[..64]).unwrap();
    let ran = running.wait_with_open_input();
    ran.assert_refused(&["HTML"]);
}

/// What is said of the input is believed, and told if it looks wrong.
#[test]
fn a_container_that_is_taken_as_raw_samples_is_told() {
    let flac = fs::read(goldens::clips_dir().parent().unwrap().join("encoded/00-espeak.flac")).unwrap();
    for (bytes, name) in [(&wav(0)[..], "a WAV"), (&flac[..1000], "a FLAC")] {
        let told = format!("begins like {name}, and was taken as raw samples");
        let ran = fed(&["--stdin", "--format", "s16le", "--silent"], bytes, 65_536);
        assert_eq!((ran.code, ran.stderr.lines().count()), (Some(0), 1), "{ran:?}");
        assert!(ran.stderr.contains(&told), "{ran:?}");
    }
    let file = clip(0).0;
    let ran = run([arg(&file), "--rate", "16000", "--silent"]);
    assert!(ran.stderr.contains("begins like a WAV"), "{ran:?}");
    let raw = fed(&["--stdin", "--rate", "16000", "--silent"], &raw(0), 65_536);
    assert_eq!((raw.stdout.trim_end(), raw.stderr.as_str()), (clip(0).1.as_str(), ""));
}

/// A pipe that another program made non-blocking is waited for.
#[test]
fn non_blocking_input_is_waited_for() {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    rustix::fs::fcntl_setfl(&read, rustix::fs::OFlags::NONBLOCK).unwrap();
    let mut command = voxtral_tests::program::voxtral();
    command.args(["--stdin", "--silent"]).stdin(read);
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    drop(command);
    let mut write = fs::File::from(write);
    let wav = wav(0);
    for piece in [&wav[..10], &wav[10..1001], &wav[1001..]] {
        thread::sleep(std::time::Duration::from_millis(100));
        write.write_all(piece).unwrap();
    }
    drop(write);
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), clip(0).1);
    assert_eq!(output.stderr, b"");
}

/// A file as standard input is not read behind its audio either.
#[test]
fn a_long_hole_behind_the_audio_of_standard_input_takes_no_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.wav");
    fs::write(&path, wav(0)).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    if file.set_len(1 << 40).is_err() {
        // Not every file system has files of this length.
        return;
    }
    let mut command = voxtral_tests::program::voxtral();
    command.args(["-", "--silent"]).stdin(fs::File::open(&path).unwrap());
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), clip(0).1);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("bytes behind the audio"), "{told}");
}
