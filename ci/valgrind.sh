#!/bin/bash
# The program under valgrind, on the shortest clip with the model that is inside it: ci/valgrind.sh [CLIP]
#
# Valgrind knows AVX2, FMA and F16C, so the kernels that run are those of most machines; where it finds them missing
# the scalar ones run. Reads of memory that was never written count as errors, and lost memory does.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

clip=${1:-tests/nano/clips/02-espeak.wav}
if ! command -v valgrind > /dev/null; then
    install_or_cannot valgrind libc6-dbg -- "needs valgrind"
fi
cargo build --release -p voxtral
program=$target/release/voxtral
expected=$("$program" "$clip" 2> /dev/null)
[ -n "$expected" ] || die "$program says nothing to $clip"

checked() {
    valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite "$program" "$@"
}

say "checking: $clip"
found=$(checked "$clip")
[ "$found" = "$expected" ] || die "under valgrind: $found"$'\n'"without: $expected"
# Refusals take other ways out.
for bad in README.md /dev/null; do
    status=0
    checked "$bad" > /dev/null 2>&1 || status=$?
    [ "$status" != 0 ] && [ "$status" != 99 ] || die "valgrind finds errors when $bad is refused (status $status)"
done
say "$expected: no errors"
