#!/bin/bash
# Builds the libraries and puts them, the header and voxtral.pc below a prefix: core/ffi/install.sh [PREFIX]
#
# /usr/local if none is given (run ldconfig then). `pkg-config --cflags --libs voxtral` says what a C compiler needs; for
# another prefix with PKG_CONFIG_PATH=PREFIX/lib/pkgconfig, and programs are run with LD_LIBRARY_PATH=PREFIX/lib.
set -euo pipefail
prefix=${1:-/usr/local}
# For the directory that the script was called from.
[[ $prefix == /* ]] || prefix=$PWD/$prefix
cd "$(dirname "${BASH_SOURCE[0]}")"
cargo build --release -p voxtral-ffi
built=${CARGO_TARGET_DIR:-../../target}/release
version=$(sed -n 's/^version = "\(.*\)"/\1/p' ../../Cargo.toml)
mkdir -p "$prefix/include" "$prefix/lib/pkgconfig"
install -m 644 include/voxtral.h "$prefix/include/"
install -m 644 "$built/libvoxtral_ffi.a" "$prefix/lib/"
install -m 755 "$built/libvoxtral_ffi.so" "$prefix/lib/"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" voxtral.pc.in > "$prefix/lib/pkgconfig/voxtral.pc"
printf 'installed below %s\n' "$prefix"
