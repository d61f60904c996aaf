#!/bin/bash
# Builds the program with the feature mic and lets it hear a clip through ALSA, whose file plugin stands for the
# microphone: words and logit hash have to be those of the file itself. The plugin has no clock, so that what follows the
# clip comes faster than it is heard: that has to be told, as a line and as an event. The stream is flushed there, which
# pads it as its end would, less the last position (80 ms), which looks ahead. So the hash up to there is that of a file
# which ends a position earlier, in the silence behind the clip.
#
# Needs the headers of ALSA (Debian: libasound2-dev), which it installs where that is possible.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"
if ! pkg-config --exists alsa 2> /dev/null; then
    install_or_cannot libasound2-dev pkg-config -- "the feature mic needs the headers of ALSA"
fi
cargo build -q --release -p voxtral --features mic
program=$target/release/voxtral
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
    "$program" --debug --gate off --output jsonl -I 0.08 --from-mic=clip > "$work/mic.jsonl" 2> "$work/told" || status=$?
# timeout says 124 whatever the program says.
[ "$status" = 124 ] || { echo "exit status $status" >&2; exit 1; }
words "$work/file.jsonl" > "$work/expected"
words "$work/mic.jsonl" > "$work/found"
diff "$work/expected" "$work/found"
grep -q 's of audio were lost after' "$work/told"
grep -q '"event":"lost"' "$work/mic.jsonl"

# voxtral: logit hash HASH of the first COUNT samples
told=$(grep -m 1 'logit hash .* of the first .* samples' "$work/told" | sed 's/.*logit hash//')
read -r hash _ _ _ count _ <<< "$told"
head -c "$((2 * (count - 1280)))" <(cat "$work/clip.raw" /dev/zero) > "$work/heard.raw"
expected=$("$program" --debug --gate off --stdin < "$work/heard.raw" 2>&1 > /dev/null | sed -n 's/.*logit hash //p')
[ "$hash" = "$expected" ] || die "logit hash $hash of the first $count samples by microphone, $expected of the file"
say "the microphone says what the file says (logit hash $hash), and what was lost is told"
