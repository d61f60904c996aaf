//! The forms of output.

use std::fs;
use std::io::Write;

use serde_json::Value;
use subtp::srt::{SrtTimestamp, SubRip};
use subtp::vtt::{VttBlock, VttTimestamp, WebVtt};
use voxtral_tests::program::{arg, clip, run};

use crate::support::{Running, fed, raw, wav};

fn texts(words: &[Value]) -> String {
    let texts: Vec<&str> = words.iter().map(|word| word["text"].as_str().unwrap()).collect();
    texts.join(" ")
}

fn assert_word(word: &Value) {
    let number = |name: &str| word[name].as_f64().unwrap();
    assert!(0.0 <= number("start") && number("start") <= number("end"), "{word}");
    assert!((0.0..=1.0).contains(&number("probability")), "{word}");
    for other in word["alternatives"].as_array().unwrap() {
        assert!(other["text"].is_string() && other["probability"].as_f64().unwrap() <= number("probability"));
    }
}

/// Each line is a whole object while the stream is still open.
#[test]
fn jsonl_is_a_word_on_each_line_as_it_is_decided() {
    let mut running = Running::start(&[
        "--stdin", "-I", "0.08", "--output", "jsonl", "--alt", "0.999", "--silent",
    ]);
    running.stdin().write_all(&raw(0)).unwrap();
    running.wait_for("}\n");
    let ran = running.end();
    let words: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(texts(&words), clip(0).1);
    words.iter().for_each(assert_word);
    assert!(
        words
            .iter()
            .any(|word| !word["alternatives"].as_array().unwrap().is_empty())
    );
}

#[test]
fn json_is_one_document_with_an_object_for_each_file() {
    let ((first, one), (second, two)) = (clip(0), clip(3));
    let ran = run([arg(&first), "/none", arg(&second), "--output", "json", "--silent"]);
    assert_eq!(ran.code, Some(1));
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    let objects = document.as_array().unwrap();
    assert_eq!(objects.len(), 2);
    for (object, (file, text)) in objects.iter().zip([(first, one), (second, two)]) {
        assert_eq!(object["file"], arg(&file));
        assert_eq!(object["text"], text.as_str());
        let words = object["words"].as_array().unwrap();
        assert_eq!(texts(words), text);
        words.iter().for_each(assert_word);
        assert!(object["duration"].as_f64().unwrap() > words.last().unwrap()["end"].as_f64().unwrap() - 0.1);
    }
    let none = run(["/none", "--output", "json", "--silent"]);
    assert_eq!(
        serde_json::from_str::<Value>(&none.stdout).unwrap(),
        Value::Array(vec![])
    );
}

/// A caption as a parser of subtitles understands it: seconds, and lines.
type Caption = (f64, f64, Vec<String>);

fn seconds(hours: u8, minutes: u8, seconds: u8, milliseconds: u16) -> f64 {
    f64::from(hours) * 3600.0 + f64::from(minutes) * 60.0 + f64::from(seconds) + f64::from(milliseconds) / 1e3
}

fn of_srt(file: &str) -> Vec<Caption> {
    let srt = SubRip::parse(file).expect("SubRip");
    let captions = srt.subtitles.into_iter().enumerate().map(|(i, caption)| {
        assert_eq!(caption.sequence as usize, i + 1);
        let at = |t: SrtTimestamp| seconds(t.hours, t.minutes, t.seconds, t.milliseconds);
        (at(caption.start), at(caption.end), caption.text)
    });
    captions.collect()
}

fn of_vtt(file: &str) -> Vec<Caption> {
    let vtt = WebVtt::parse(file).expect("WebVTT");
    let captions = vtt.blocks.into_iter().map(|block| {
        let VttBlock::Que(cue) = block else { panic!("{block:?}") };
        let at = |t: VttTimestamp| seconds(t.hours, t.minutes, t.seconds, t.milliseconds);
        (at(cue.timings.start), at(cue.timings.end), cue.payload)
    });
    captions.collect()
}

/// Times are in order, and lines can be read; the text of all.
fn assert_readable(captions: &[Caption]) -> String {
    let (mut text, mut last) = (vec![], 0.0);
    for caption in captions {
        let (from, to, lines) = caption;
        assert!(last <= *from && from < to && to - from <= 6.0, "{caption:?}");
        last = *to;
        assert!(
            (1..=2).contains(&lines.len()) && lines.iter().all(|line| line.chars().count() <= 42),
            "{caption:?}"
        );
        text.extend(lines.iter().map(String::as_str));
    }
    text.join(" ")
}

#[test]
fn captions_are_short_and_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("long.wav");
    voxtral_tests::program::long_wav(&file, 40);
    let text = run([arg(&file)]).stdout;
    let srt = run([arg(&file), "--output", "srt"]).stdout;
    let vtt = run([arg(&file), "--output", "vtt"]).stdout;
    assert!(vtt.starts_with("WEBVTT\n\n") && srt.starts_with("1\n"));
    let captions = of_srt(&srt);
    assert!(captions.len() > 5, "{} captions in 40 s", captions.len());
    assert_eq!(assert_readable(&captions), text.trim_end());
    assert_eq!(of_vtt(&vtt), captions);
    run([arg(&file), arg(&file), "--output", "srt"]).assert_refused(&["one input"]);
}

/// `[one|other]` where others are near enough, as in voxtral.c; the text is the same but for that.
#[test]
fn alternatives_are_shown_in_brackets() {
    let (file, text) = clip(8);
    assert_eq!(run([arg(&file), "--alt", "0"]).stdout.trim_end(), text);
    let shown = run([arg(&file), "--alt", "0.999"]).stdout;
    let mut plain = String::new();
    for (i, part) in shown.trim_end().split('[').enumerate() {
        let Some((choice, rest)) = part.split_once(']') else {
            assert_eq!(i, 0);
            plain += part;
            continue;
        };
        assert!((2..=3).contains(&choice.split('|').count()), "{shown}");
        plain += choice.split('|').next().unwrap();
        plain += rest;
    }
    assert!(shown.contains('|'));
    assert_eq!(plain, text);
}

/// A file has its name once it is whole; if that fails, what had the name before is still there.
#[test]
fn files_are_whole_or_not_there() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("text");
    let (file, text) = clip(0);
    fs::write(&to, "before").unwrap();
    let mut running = Running::start(&["--stdin", "-o", arg(&to)]);
    running.stdin().write_all(&raw(0)).unwrap();
    assert_eq!(fs::read_to_string(&to).unwrap(), "before");
    assert_eq!(running.end().code, Some(0));
    assert_eq!(fs::read_to_string(&to).unwrap(), text.clone() + "\n");
    let ran = run([arg(&file), "-o", arg(&to)]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""));
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "nothing beside it");
    run([arg(&file), "-o", "/none/text"]).assert_refused(&["/none/text"]);
    let ran = fed(&["--stdin", "-o", "-", "--silent"], &raw(0), 65_536);
    assert_eq!(ran.stdout, text + "\n");
}

/// A program that is killed in the middle leaves nothing behind, where files can be without a name.
#[cfg(target_os = "linux")]
#[test]
fn a_kill_leaves_nothing_behind() {
    use rustix::fs::{Mode, OFlags, open};
    let directory = tempfile::tempdir().unwrap();
    let flags = OFlags::TMPFILE | OFlags::WRONLY;
    if open(directory.path(), flags, Mode::RUSR | Mode::WUSR).is_err() {
        return;
    }
    let to = directory.path().join("text");
    let mut running = Running::start(&["--stdin", "-o", arg(&to), "--debug"]);
    running.stdin().write_all(&raw(0)).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    running.child.kill().unwrap();
    assert_eq!(running.wait_with_open_input().code, None);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

/// A symbolic link is followed, to a file, to none yet, and to a device; a ring of them is refused.
#[test]
fn links_are_followed() {
    use std::os::unix::fs::symlink;
    let directory = tempfile::tempdir().unwrap();
    let (file, text) = clip(0);
    let at = |name: &str| directory.path().join(name);
    let written = |name: &str| run([arg(&file), "--silent", "-o", arg(&at(name))]);
    let is_link = |name: &str| at(name).symlink_metadata().unwrap().is_symlink();

    fs::create_dir(at("there")).unwrap();
    fs::write(at("there/old"), "before").unwrap();
    symlink("there/old", at("a")).unwrap();
    symlink("a", at("b")).unwrap();
    symlink("there/new", at("dangling")).unwrap();
    for (name, names) in [("b", "there/old"), ("dangling", "there/new")] {
        assert_eq!(written(name).code, Some(0));
        assert!(is_link(name));
        assert_eq!(fs::read_to_string(at(names)).unwrap(), text.clone() + "\n");
    }

    symlink("ring", at("ring")).unwrap();
    written("ring").assert_refused(&["ring", "symbolic links"]);
    symlink("/dev/full", at("full")).unwrap();
    written("full").assert_refused(&["No space"]);
    assert!(is_link("ring") && is_link("full"));

    // The program's own standard output, behind what is in it already.
    symlink("/dev/stdout", at("out")).unwrap();
    fs::write(at("log"), "before\n").unwrap();
    let log = fs::OpenOptions::new().append(true).open(at("log")).unwrap();
    let mut command = voxtral_tests::program::voxtral();
    command.args([arg(&file), "--silent", "-o", arg(&at("out"))]);
    assert!(command.stdout(log).status().unwrap().success());
    assert!(is_link("out"));
    assert_eq!(fs::read_to_string(at("log")).unwrap(), format!("before\n{text}\n"));
}

/// What is read is not written over, under whatever name; a directory is not taken for a file.
#[test]
fn inputs_and_directories_are_not_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::copy(clip(0).0, at("in.wav")).unwrap();
    fs::hard_link(at("in.wav"), at("other")).unwrap();
    let (input, other) = (at("in.wav"), at("other"));
    for args in [
        &[arg(&input), "-o", arg(&input)][..],
        &[arg(&clip(1).0), arg(&input), "-o", arg(&other)],
        &["-i", arg(&input), "-o", arg(&other)],
    ] {
        let ran = run(args);
        ran.assert_refused(&["is to be written", "is read"]);
        assert_eq!(ran.code, Some(2));
    }
    let mut command = voxtral_tests::program::voxtral();
    command.args(["--stdin", "-o", arg(&other)]);
    let output = command.stdin(fs::File::open(&input).unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read(&input).unwrap(), wav(0));

    let slash = format!("{}/text/", arg(directory.path()));
    run([arg(&input), "-o", &slash]).assert_refused(&["text/", "directory"]);
    run([arg(&input), "-o", arg(directory.path())]).assert_refused(&["directory"]);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
}

/// Who may read a file stays so when it is replaced, and a name may be as long as names can be.
#[test]
fn permissions_stay_and_names_may_be_long() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let (file, text) = clip(0);
    let to = directory.path().join("n".repeat(255));
    for mode in [None, Some(0o600), Some(0o664)] {
        if let Some(mode) = mode {
            fs::set_permissions(&to, fs::Permissions::from_mode(mode)).unwrap();
        }
        let ran = run([arg(&file), "--silent", "-o", arg(&to)]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        assert_eq!(fs::read_to_string(&to).unwrap(), text.clone() + "\n");
        let found = fs::metadata(&to).unwrap().permissions().mode() & 0o777;
        assert!(mode.is_none_or(|mode| found == mode), "{found:o}");
    }
}

/// A caption is written when the pause behind it begins, not when the next one does.
#[test]
fn a_pause_brings_the_caption() {
    for form in ["srt", "vtt"] {
        let mut running = Running::start(&["--stdin", "-I", "0.08", "--silent", "--output", form]);
        running.stdin().write_all(&raw(0)).unwrap();
        running.stdin().write_all(&vec![0; 3 * 32_000]).unwrap();
        running.wait_for(&format!("{}\n\n", clip(0).1));
        assert_eq!(running.end().code, Some(0));
    }
}

/// The real-time factor of a live source is that of the work: waiting for it is none.
#[test]
fn the_report_of_a_live_source_leaves_waiting_out() {
    let mut running = Running::start(&["--stdin"]);
    running.stdin().write_all(&raw(0)).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let told = running.end().stderr;
    let (_, rest) = told.split_once(" s of audio in ").unwrap();
    let (seconds, _) = rest.split_once(" s of work, real-time factor ").unwrap();
    assert!(seconds.parse::<f64>().unwrap() < 1.5, "{told}");
}

/// The level of the pauses and of the speech are shown, so that a threshold can be chosen.
#[test]
fn the_monitor_shows_levels() {
    for (gate, shown) in [("-55", true), ("off", false)] {
        let mut running = Running::start(&["--stdin", "--monitor", "--silent", "--gate", gate]);
        let square: Vec<u8> = (0..16_000)
            .flat_map(|i| (if i % 2 == 0 { 3277i16 } else { -3277 }).to_le_bytes())
            .collect();
        running.stdin().write_all(&square).unwrap();
        running.stdin().write_all(&vec![0; 32_000]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5200));
        running.stdin().write_all(&square).unwrap();
        let told = running.end().stderr;
        assert!(told.contains("s behind"), "{told}");
        assert_eq!(told.contains("floor -120 dBFS, loudest -20 dBFS"), shown, "{told}");
    }
}

/// What is shown of the work goes to standard error, in characters of the locale.
#[test]
fn the_monitor_speaks_the_locale() {
    let (file, text) = clip(3);
    for (locale, symbol) in [("C", "E"), ("en_GB.UTF-8", "▶")] {
        let mut command = voxtral_tests::program::voxtral();
        command
            .env("LC_ALL", locale)
            .args([arg(&file), "--monitor", "--silent"]);
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), text);
        let shown = String::from_utf8(output.stderr).unwrap();
        assert!(shown.contains(symbol) && (locale != "C" || shown.is_ascii()), "{shown}");
    }
}
