#!/bin/bash
# Fuzzes the readers and the session: ci/fuzz.sh [SECONDS] [TARGET...], and ci/fuzz.sh --minimise [TARGET...]
#
# Builds the targets of tests/fuzz with libFuzzer, AddressSanitizer, debug assertions and overflow checks, and runs
# each for SECONDS (60 unless told otherwise) from the stored corpora and from what earlier runs found. A crash, a
# hang or too much memory is an error, and the input is kept. With --minimise, the smallest set that reaches
# everything reached so far becomes the stored corpus.
#
# The same targets work with cargo-fuzz (cd tests && cargo +nightly fuzz run json); this needs only a nightly
# compiler and a C++ one.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

minimise=
seconds=60
if [ "${1:-}" = --minimise ]; then
    minimise=1
    shift
elif [[ "${1:-}" =~ ^[0-9]+$ ]]; then
    seconds=$1
    shift
fi
fuzz=$root/tests/fuzz
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
    targets=($(sed -n 's/^name = "\([a-z]*\)"$/\1/p' "$fuzz/Cargo.toml"))
fi

command -v rustup > /dev/null || cannot "fuzzing needs a nightly compiler by way of rustup"
if ! cargo +nightly --version > /dev/null 2>&1; then
    rustup toolchain install nightly --profile minimal || cannot "fuzzing needs: rustup toolchain install nightly"
fi
if ! command -v c++ > /dev/null; then
    install_or_cannot g++ libc6-dev -- "libFuzzer is compiled by a C++ compiler"
fi

triple=$(rustc +nightly -vV | sed -n 's/^host: //p')
work=$target/fuzz
bin=$work/$triple/release
# What cargo-fuzz passes, without its wish for clang's linker.
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Zsanitizer=address -Ccodegen-units=1"
CARGO_TARGET_DIR=$work cargo +nightly build --release --locked --manifest-path "$fuzz/Cargo.toml" --target "$triple"

# longest TARGET: bytes of the largest input that is tried.
longest() {
    case $1 in
        session) say 82 ;;
        image) say 1024 ;;
        wav) say 1024 ;;
        *) say 4096 ;;
    esac
}

# fuzz_one TARGET
fuzz_one() {
    local name=$1 log=$work/$1.log status=0
    local found=$work/corpus/$name stored=$fuzz/corpus/$name dict=$fuzz/dict/$name.dict
    mkdir -p "$found" "$work/crashes"
    local options=(-max_len="$(longest "$name")" -timeout=60 -rss_limit_mb=2048 -artifact_prefix="$work/crashes/$name-")
    if [ -f "$dict" ]; then
        options+=(-dict="$dict")
    fi
    if [ -n "$minimise" ]; then
        local small=$work/minimised
        rm -rf "$small"
        mkdir -p "$small"
        # By edges, not by how often they are passed: the latter keeps ten times as many files.
        "$bin/$name" "${options[@]}" -set_cover_merge=1 -use_counters=0 "$small" "$stored" "$found" > "$log" 2>&1 ||
            status=$?
        if [ "$status" = 0 ]; then
            rm -rf "$stored"
            mv "$small" "$stored"
            say "$name: $(find "$stored" -type f | wc -l) files, $(du -sb "$stored" | cut -f1) B"
        fi
    else
        "$bin/$name" "${options[@]}" -max_total_time="$seconds" -print_final_stats=1 "$found" "$stored" > "$log" 2>&1 ||
            status=$?
        local executions rate
        executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
        say "$name: ${executions:-0} executions, ${rate:-0} exec/s, $(grep -o 'cov: [0-9]*' "$log" | tail -1)"
    fi
    if [ "$status" != 0 ]; then
        tail -n 40 "$log" >&2
        die "$name failed (status $status); the whole output is in $log, the input in $work/crashes"
    fi
}

for name in "${targets[@]}"; do
    [ -f "$fuzz/fuzz_targets/$name.rs" ] || die "no target $name in $fuzz/fuzz_targets"
    mkdir -p "$fuzz/corpus/$name"
    fuzz_one "$name"
done
