#!/bin/bash
# Builds for 64-bit Arm and runs the tests of the kernels, and of equal bits on all machines, on emulated ones.
#
# The compiler is the installed one if it has the target (rustup target add aarch64-unknown-linux-gnu). Otherwise it is
# Debian's, with that target's standard library unpacked beside everything else, once, into the cache directory.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

# Flags for the machine at hand are none for this one.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS

triple=aarch64-unknown-linux-gnu
# Armv8.0, as in the oldest machines that matter; with half precision and dot products; all that the emulator knows.
cpus=(cortex-a72 cortex-a76 max)
sysroot=/usr/aarch64-linux-gnu
need="testing for 64-bit Arm needs an emulator, a linker and C libraries"

if ! command -v qemu-aarch64 > /dev/null || ! command -v aarch64-linux-gnu-gcc > /dev/null || [ ! -d "$sysroot" ]; then
    install_or_cannot qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross -- "$need"
fi
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_DIR=$target/aarch64

has_target() {
    local lib
    lib=$(rustc --print target-libdir --target "$triple" 2> /dev/null) && [ -d "$lib" ]
}

if ! has_target; then
    if ! [ -x /usr/bin/cargo ] || ! dpkg-query -W rustc-web > /dev/null 2>&1; then
        install_or_cannot rustc-web cargo-web -- "rustup target add $triple, or Debian's Rust"
    fi
    command -v dpkg-deb > /dev/null || cannot "rustup target add $triple, or Debian's Rust"
    version=$(dpkg-query -W -f='${Version}' rustc-web)
    std=$cache/arm64-$version
    [ -d "$std/usr/lib/rustlib/$triple" ] || unpack_std arm64 "$version" "$std"
    unset RUSTC_WRAPPER RUSTUP_TOOLCHAIN
    export PATH=/usr/bin:$PATH RUSTC=/usr/bin/rustc
    # For the target only: build scripts and macros are for the machine at hand.
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="--sysroot=$std/usr"
fi

for cpu in "${cpus[@]}"; do
    say "== $cpu"
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -cpu $cpu -L $sysroot"
    cargo test --release --target "$triple" -p voxtral-core --lib kernels
    cargo test --release --target "$triple" -p voxtral-tests --test kernels --test targets
done
