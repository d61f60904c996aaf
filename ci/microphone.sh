#!/bin/sh
# Builds the program with the feature mic and lets it hear a clip through ALSA, whose file plugin stands for the
# microphone: the words have to be those of the file itself, bit for bit as jsonl tells them. The plugin has no clock, so
# that what follows the clip comes faster than it is heard: that has to be told, as a line and as an event.
#
# Needs the headers of ALSA (Debian: libasound2-dev).
set -eu
cd "$(dirname "$0")/.."
cargo build -q --release -p voxtral --features mic
program=${CARGO_TARGET_DIR:-target}/release/voxtral
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

clip=tests/nano/clips/00-espeak.wav
tail -c +45 "$clip" > "$work/clip.raw"
cat > "$work/asound.conf" << END
pcm.clip { type file slave.pcm { type null } file "/dev/null" infile "$work/clip.raw" format "raw" }
END
words() {
    grep '"text"' "$1" | sed 's/^{"file":"[^"]*",/{/'
}

"$program" --silent --output jsonl "$clip" > "$work/file.jsonl"
# Ctrl-C, which ends it as the end of the audio would.
status=0
ALSA_CONFIG_PATH=$work/asound.conf timeout -s INT 2 \
    "$program" --silent --output jsonl -I 0.08 --from-mic=clip > "$work/mic.jsonl" 2> "$work/told" || status=$?
# timeout says 124 whatever the program says.
[ "$status" = 124 ] || { echo "exit status $status" >&2; exit 1; }
words "$work/file.jsonl" > "$work/expected"
words "$work/mic.jsonl" > "$work/found"
diff "$work/expected" "$work/found"
grep -q 's of audio were lost after' "$work/told"
grep -q '"event":"lost"' "$work/mic.jsonl"
echo "the microphone says what the file says, and what was lost is told"
