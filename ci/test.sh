#!/bin/bash
# The test command, for people and CI alike: ci/test.sh
#
# Format, lints, documentation, tests, the oldest Rust, core linked for a microcontroller (without any way to panic in
# what reads input), the C surface, a microphone that ALSA plays, firmware booted on one emulated board, and kernels on emulated
# 64-bit Arm. Longer checks are by themselves: ci/fuzz.sh, ci/asan.sh, ci/valgrind.sh, ci/firmware.sh for all boards,
# ci/cross.sh for other machines that have Linux, and ci/c.sh --bare-metal.
#
# What is missing is installed where that is possible (Debian or Ubuntu, as root). Where it is not, a step that needs
# more than Rust says so and is left out, unless CI is set: then it is an error.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

summary=()

# step NAME COMMAND...
step() {
    local name=$1 start=$SECONDS status=0
    shift
    say "== $name: $*"
    "$@" || status=$?
    local took=$((SECONDS - start))
    case $status in
        0) summary+=("$(printf '%5d s  %s' "$took" "$name")") ;;
        "$not_run") summary+=("not run  $name") ;;
        *)
            report
            die "$name failed after $took s (status $status): $*"
            ;;
    esac
}

report() {
    say "== times"
    if [ ${#summary[@]} -gt 0 ]; then
        printf '%s\n' "${summary[@]}"
    fi
    printf '%5d s  in all\n' "$SECONDS"
}

# `step` looks at the status, and that switches errexit off in here: what may fail says so itself.
# The Rust toolchain and the two of its parts that a minimal installation lacks.
toolchain() {
    command -v cargo > /dev/null || die "no cargo on PATH: install Rust, see https://rustup.rs"
    if ! command -v cc > /dev/null; then
        (install_or_cannot gcc libc6-dev -- "linking needs a C toolchain (cc)") || return
    fi
    local part
    for part in rustfmt:fmt clippy:clippy; do
        if ! cargo "${part#*:}" --version > /dev/null 2>&1; then
            command -v rustup > /dev/null || die "cargo ${part#*:} is missing: install ${part%:*}"
            rustup component add "${part%:*}" || return
        fi
    done
    cargo --version
    rustc --version
}

documentation() {
    RUSTDOCFLAGS="${RUSTDOCFLAGS:-} -D warnings" cargo doc --release --no-deps --workspace
}

# The mistakes of tests/mutations still apply to the code; making them takes many minutes and is left to people.
mistakes() {
    command -v python3 > /dev/null || (cannot "tests/mutations/run.py needs python3") || return
    python3 tests/mutations/run.py --check
}

# The README's first command, as it stands there.
first_command() {
    local printed
    printed=$(cargo run --release -- tests/nano/clips/00-espeak.wav) || return
    [ "$printed" = "one four six six stop" ] || die "the first command printed: $printed"
}

step toolchain toolchain
step format cargo fmt --all --check
step "format, firmware" cargo fmt --manifest-path tests/firmware/link/Cargo.toml --check
step "format, firmware without panics" cargo fmt --manifest-path tests/firmware/no-panic/Cargo.toml --check
step "format, firmware application" cargo fmt --manifest-path tests/firmware/app/Cargo.toml --check
step "format, firmware for Cortex-M" cargo fmt --manifest-path tests/firmware/cortex-m/Cargo.toml --check
step "format, firmware for 64-bit Arm" cargo fmt --manifest-path tests/firmware/aarch64/Cargo.toml --check
step "format, fuzz targets" cargo fmt --manifest-path tests/fuzz/Cargo.toml --check
step lints cargo clippy --release --workspace --all-targets -- -D warnings
step documentation documentation
step "first command" first_command
step tests cargo test --release --workspace
step mistakes mistakes
step C bash ci/c.sh
step microphone bash ci/microphone.sh
step msrv bash ci/msrv.sh
step "bare metal" bash ci/link-cortexm.sh
step firmware bash ci/firmware.sh mps3-an547
step "64-bit Arm" bash ci/aarch64.sh
report
