#!/bin/bash
# Builds the program for other machines, and runs core's tests and three clips there, emulated: ci/cross.sh [TARGET...]
# With --size it only builds the smallest program for 64-bit Arm, and prints how large it is.
#
#     aarch64   64-bit Arm Linux, on emulated Cortex-A72 and Cortex-A76
#     armv7     32-bit Arm Linux with hardware floating point (pointers of 32 bits), emulated
#     i686      32-bit x86 Linux, run by this machine
#
# All if none is named. The text must be the expected one, and the hash of all logits that of this machine for kernels
# that round alike. Targets with the other byte order are refused by core at compile time.
#
# The compiler is rustup's if it has the target. Otherwise it is Debian's: the installed one with the target's standard
# library unpacked beside everything else for aarch64; one of the oldest Rust that is supported, unpacked, for the
# others. What is installed is said, and how long everything took.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

size_only=
if [ "${1:-}" = --size ]; then
    size_only=1
    shift
    [ $# = 0 ] || die "--size is for aarch64"
    set -- aarch64
fi
targets=("$@")
[ $# -gt 0 ] || targets=(aarch64 armv7 i686)
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
series=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
clips=(02-espeak 05-flite-noisy 07-festival)
# WAV only: other formats are libraries of others, and take long to build.
program=(-p voxtral --bin voxtral --no-default-features --features embedded-model)

# Bytes that the smallest program for 64-bit Arm may have.
most=3000000

mkdir -p "$target/cross"
[ -n "$size_only" ] || CARGO_TARGET_DIR=$target/cross/here cargo build --release "${program[@]}"
here=$target/cross/here/release/voxtral

# heard NAME COMMAND...: text and hash of each clip, by a program that COMMAND runs.
heard() {
    local clip
    for clip in "${clips[@]}"; do
        "$@" --debug "tests/nano/clips/$clip.wav" 2> "$target/cross/debug" || die "status $?: $(cat "$target/cross/debug")"
        sed -n 's/^voxtral: logit hash //p' "$target/cross/debug"
    done
}

if [ -z "$size_only" ]; then
    for class in scalar scalar-fused; do
        VOXTRAL_KERNELS=$class heard "$here" > "$target/cross/$class"
    done
fi
# The texts are the same in both classes, and the ones that are known to be right.
python3 - "${clips[@]}" > "$target/cross/expected" << 'PYTHON'
import json
import sys

texts = {clip["file"]: clip["delay"]["6"]["text"] for clip in json.load(open("tests/nano/clips/expected.json"))["clips"]}
for name in sys.argv[1:]:
    print(texts[name + ".wav"])
PYTHON

has_target() {
    local lib
    lib=$(rustc --print target-libdir --target "$1" 2> /dev/null) && [ -d "$lib" ]
}

# debian_compiler NAME TRIPLE ARCHITECTURE: exports a compiler for it.
debian_compiler() {
    local name=$1 triple=$2 arch=$3 variable version std
    can_install || cannot "$triple: rustup target add $triple, or Debian as root"
    command -v dpkg-deb > /dev/null || cannot "$triple: rustup target add $triple"
    variable=CARGO_TARGET_$(tr a-z- A-Z_ <<< "$triple")_RUSTFLAGS
    unset RUSTC_WRAPPER RUSTUP_TOOLCHAIN
    if [ "$name" = aarch64 ]; then
        [ -x /usr/bin/cargo ] || apt_install rustc-web cargo-web || cannot "$triple: Debian's Rust"
        version=$(dpkg-query -W -f='${Version}' rustc-web)
        export RUSTC=/usr/bin/rustc
    else
        unpack_rust "$series" || cannot "$triple: Debian's Rust $series"
        version=$(debian_version "$series")
        export RUSTC=$cache/rust-$series/rustc
    fi
    std=$cache/$arch-$version
    [ -d "$std/usr/lib/rustlib/$triple" ] || unpack_std "$arch" "$version" "$std"
    # For the target only: build scripts and macros are for the machine at hand.
    export "$variable=--sysroot=$std/usr" PATH=/usr/bin:$PATH
}

# smallest TRIPLE: WAV only, no model inside, and a profile that counts bytes.
smallest() {
    local built=$CARGO_TARGET_DIR/$1/small/voxtral bytes
    cargo build -q --profile small --target "$1" -p voxtral --bin voxtral --no-default-features
    bytes=$(stat -c %s "$built")
    printf '%-44s %10d bytes\n' "64-bit Arm: WAV only, no model, profile small" "$bytes"
    [ "$bytes" -lt "$most" ] || die "$built has $bytes bytes, $most are allowed"
}

# cross NAME
cross() {
    local name=$1 triple arch class=scalar packages=() linker sysroot runners=() runner variable built
    case $name in
        aarch64)
            triple=aarch64-unknown-linux-gnu arch=arm64 class=scalar-fused linker=aarch64-linux-gnu-gcc
            packages=(qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross) sysroot=/usr/aarch64-linux-gnu
            runners=("qemu-aarch64 -cpu cortex-a72 -L $sysroot" "qemu-aarch64 -cpu cortex-a76 -L $sysroot")
            ;;
        armv7)
            triple=armv7-unknown-linux-gnueabihf arch=armhf linker=arm-linux-gnueabihf-gcc
            packages=(qemu-user gcc-arm-linux-gnueabihf libc6-dev-armhf-cross) sysroot=/usr/arm-linux-gnueabihf
            runners=("qemu-arm -cpu cortex-a7 -L $sysroot")
            ;;
        i686)
            triple=i686-unknown-linux-gnu arch=i386 linker=i686-linux-gnu-gcc
            packages=(gcc-i686-linux-gnu libc6-dev-i386-cross) sysroot=/usr/i686-linux-gnu
            runners=("$sysroot/lib/ld-linux.so.2 --library-path $sysroot/lib")
            ;;
        *) die "no such target: $name" ;;
    esac
    if ! command -v "$linker" > /dev/null || [ ! -d "$sysroot" ] || ! command -v "${runners[0]%% *}" > /dev/null; then
        install_or_cannot "${packages[@]}" -- "$triple needs a linker, C libraries and an emulator"
    fi
    has_target "$triple" || debian_compiler "$name" "$triple" "$arch"
    variable=CARGO_TARGET_$(tr a-z- A-Z_ <<< "$triple")
    export "${variable}_LINKER=$linker" CARGO_TARGET_DIR=$target/cross/$name

    if [ "$name" = aarch64 ]; then
        smallest "$triple"
        [ -z "$size_only" ] || return 0
    fi
    cargo build --release --target "$triple" "${program[@]}"
    built=$CARGO_TARGET_DIR/$triple/release/voxtral
    for runner in "${runners[@]}"; do
        say "== $name: $runner"
        export "${variable}_RUNNER=$runner"
        cargo test --release --target "$triple" -p voxtral-core --lib
        # Split into words on purpose.
        heard $runner "$built" > "$target/cross/$name.heard"
        diff "$target/cross/$class" "$target/cross/$name.heard" || die "$name: text or logits differ (left: here)"
        sed -n 'p;n' "$target/cross/$name.heard" | diff "$target/cross/expected" - || die "$name: the text is not right"
    done
    say "$name: text and logits of ${#clips[@]} clips are those of this machine; $(stat -c %s "$built") bytes"
}

for name in "${targets[@]}"; do
    begun=$SECONDS
    (cross "$name")
    say "$name: $(((SECONDS - begun) / 60)) min $(((SECONDS - begun) % 60)) s"
done
