#!/bin/bash
# Checks core and the program with the oldest Rust they promise to build with (rust-version in Cargo.toml).
#
# rustup's toolchain of that version is used if it is installed. Otherwise Debian 12's is unpacked, beside everything
# else and once, into the cache directory. Where neither can be had this says so and succeeds as "not run", in CI too:
# a mirror without old versions is no defect of this code.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
note() {
    say "not run: no Rust $version here ($*); rustup toolchain install $version would do"
    exit "$not_run"
}

if command -v rustup > /dev/null && rustup run "$version" rustc --version > /dev/null 2>&1; then
    RUSTC=$(rustup which --toolchain "$version" rustc)
else
    missing=$(unpack_rust "$version") || note "$(tail -n 1 <<< "$missing")"
    RUSTC=$cache/rust-$version/rustc
fi
export RUSTC
"$RUSTC" --version
CARGO_TARGET_DIR=$target/msrv cargo check --release -p voxtral-core -p voxtral -p voxtral-ffi
