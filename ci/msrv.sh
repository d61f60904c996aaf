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
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/voxtral-ci/rust-$version

note() {
    say "not run: no Rust $version here ($*); rustup toolchain install $version would do"
    exit "$not_run"
}

# Whether $cache holds a compiler that runs.
cached() {
    [ -x "$cache/rustc" ] && "$cache/rustc" --version > /dev/null 2>&1
}

unpack_debian() {
    can_install || note "not Debian, or not root"
    local series
    series() {
        apt-cache madison rustc-web 2> /dev/null | awk -v v="$version." 'index($3, v) == 1 && !n++ { print $3 }'
    }
    series=$(series)
    if [ -z "$series" ]; then
        "${as_root[@]}" apt-get update -qq < /dev/null || true
        series=$(series)
    fi
    [ -n "$series" ] || note "no package rustc-web $version"

    local work
    work=$(mktemp -d)
    chmod 755 "$work"
    say "unpacking Debian's rustc-web $series into $cache"
    # The compiler is only unpacked, so its LLVM is the one package that has to be installed properly.
    apt_install libllvm19 || note "no package libllvm19"
    (cd "$work" && apt-get download -qq "rustc-web=$series" "libstd-rust-web-$version=$series" \
        "libstd-rust-web-dev=$series") || note "the packages cannot be downloaded"
    mkdir -p "$work/root"
    local package
    for package in "$work"/*.deb; do
        dpkg-deb -x "$package" "$work/root"
    done
    rm -rf "$cache"
    mkdir -p "$(dirname "$cache")"
    mv "$work/root" "$cache"
    rm -rf "$work"
    local lib
    lib=$(find "$cache/usr/lib" -name 'librustc_driver-*.so' -not -path '*/rustlib/*' -printf '%h')
    # Last, so that an unpacking that was cut short is never taken for a whole one.
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s/usr/bin/rustc "$@"\n' "$lib" "$cache" > "$cache/rustc"
    chmod +x "$cache/rustc"
}

if command -v rustup > /dev/null && rustup run "$version" rustc --version > /dev/null 2>&1; then
    RUSTC=$(rustup which --toolchain "$version" rustc)
else
    cached || unpack_debian
    cached || note "Debian's does not start"
    RUSTC=$cache/rustc
fi
export RUSTC
"$RUSTC" --version
CARGO_TARGET_DIR=$target/msrv cargo check --release -p voxtral-core -p voxtral
