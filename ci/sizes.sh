#!/bin/bash
# Prints how large the program is with each set of features: ci/sizes.sh
#
# The release profile is the one that people get: stripped. The last line is for boards: 64-bit Arm, and the profile
# `small`, where every byte counts.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

# Beside the other builds, so that their features do not change back and forth.
export CARGO_TARGET_DIR=$target/sizes

# size NAME [FEATURES]: without FEATURES, the default ones.
size() {
    local name=$1 features=()
    if [ $# -gt 1 ]; then
        features=(--no-default-features --features "$2")
    fi
    cargo build -q --release -p voxtral --bin voxtral "${features[@]}"
    printf '%-44s %10d bytes\n' "$name" "$(wc -c < "$CARGO_TARGET_DIR/release/voxtral")"
}

size "nothing: WAV only, no model" ""
size "embedded-model" embedded-model
for format in wav-codecs flac mp3 ogg m4a aiff; do
    size "embedded-model, $format" "embedded-model,$format"
done
size "all (the default)"
bash "$root/ci/cross.sh" size
