#!/bin/bash
# The test suite under AddressSanitizer: ci/asan.sh [TEST...]
#
# Nightly's runtime is used, in a target directory of its own. With names of tests of the test crate only these, beside
# the unit tests. Left out, and why:
#   allocations     puts an allocator of its own in front of the system's, and counts what a sanitizer adds as well
#   generator       no unsafe code and nothing of core; hashes gigabytes of generated weights
#   item_3, item_4  measure the program's time and memory, or limit its memory; a sanitizer takes much of both
#   …_memory_that_the_layout_tells
#                   compare memory of the process with what is asked for; a sanitizer takes an eighth more
#   documentation   rustdoc does not link the runtime
#   properties      not left out, but tried with fewer cases (PROPTEST_CASES)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

command -v rustup > /dev/null || cannot "AddressSanitizer needs a nightly compiler by way of rustup"
if ! cargo +nightly --version > /dev/null 2>&1; then
    rustup toolchain install nightly --profile minimal || cannot "needs: rustup toolchain install nightly"
fi

left_out='allocations generator'
names=("$@")
if [ $# = 0 ]; then
    for path in tests/tests/*; do
        name=$(basename "$path" .rs)
        if { [ -f "$path" ] || [ -f "$path/main.rs" ]; } && ! [[ " $left_out " == *" $name "* ]]; then
            names+=("$name")
        fi
    done
fi
tests=()
for name in "${names[@]}"; do
    tests+=(--test "$name")
done

triple=$(rustc +nightly -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR=$target/asan
export RUSTFLAGS='-Zsanitizer=address -Ccodegen-units=16'
# Reports name functions and lines, and nothing is gained from the slow build of what is shipped.
export CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_DEBUG=line-tables-only CARGO_PROFILE_RELEASE_LTO=off
export PROPTEST_CASES=${PROPTEST_CASES:-32}
# The signal handler of the program is one of the things that are tested.
export ASAN_OPTIONS=${ASAN_OPTIONS:-allow_user_segv_handler=1:detect_stack_use_after_return=1}

cargo +nightly build --release --target "$triple" -p voxtral
export VOXTRAL_PROGRAM=$CARGO_TARGET_DIR/$triple/release/voxtral
# That the runtime is there is shown by a name in it: a build without it would find nothing, and pass.
grep -q __asan_report_load "$VOXTRAL_PROGRAM" || die "$VOXTRAL_PROGRAM is built without AddressSanitizer"

cargo +nightly test --release --target "$triple" --no-fail-fast -p voxtral-core -p voxtral --lib --bins
cargo +nightly test --release --target "$triple" --no-fail-fast -p voxtral-tests --lib "${tests[@]}" -- \
    --skip item_3_ --skip item_4_ --skip memory_that_the_layout_tells
