#!/bin/bash
# Builds the program for other machines, and runs tests and three clips there, emulated: ci/cross.sh [PART...]
#
#     aarch64      64-bit Arm Linux, on emulated Cortex-A72 and Cortex-A76
#     armv7        32-bit Arm Linux with hardware floating point (pointers of 32 bits), on an emulated Cortex-A7
#     i686         32-bit x86 Linux, run by this machine
#     big-endian   that core refuses machines with the other byte order, at compile time
#     size         builds the smallest program for 64-bit Arm, and prints how large it is
#
# All if none is named. Each of the three machines runs core's unit tests; of the test crate the equality of kernels,
# the logit hashes, the goldens, and all readers of formats with the stored fuzz corpora; then it packs the small model,
# and transcribes clips by the program and by the firmware's application, whose text, token ids and logits have to be
# those of every machine (ci/same.py).
#
# Left out, and why:
#   the rest of the test crate   drives the program's command line, or shows at length what the above shows in short
#   on armv7, attention, depends_neither, clips_are_transcribed
#                                multiply-add is done by software there, on an emulator whose memory moreover grows with
#                                every thread that ever ran. Such kernels are the scalar ones, all of which i686 tests;
#                                the clips are those that are transcribed anyway, and more.
#
# The compiler is rustup's if it has the target. Otherwise it is Debian's: the installed one with the target's standard
# library unpacked beside everything else for aarch64; one of the oldest Rust that is supported, unpacked, for the
# others. What is installed is said, and how long everything took.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

parts=("$@")
[ $# -gt 0 ] || parts=(aarch64 armv7 i686 big-endian size)
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
series=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
# WAV only: other formats are libraries of others, and take long to build.
program=(-p voxtral --bin voxtral --no-default-features --features embedded-model)
tests=(kernels targets goldens corpus safetensors params vocabulary json wav)

# Bytes that the smallest program for 64-bit Arm may have.
most=3000000

mkdir -p "$target/cross"
command -v python3 > /dev/null || install_or_cannot python3 -- "comparing with other machines needs python3"
clips=($(python3 ci/same.py --clips))

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

# prepare NAME: all that building for it and running there needs; sets triple, sysroot, class, runners and left_out.
prepare() {
    local name=$1 arch linker packages variable
    class=separate left_out=()
    case $name in
        aarch64)
            triple=aarch64-unknown-linux-gnu arch=arm64 class=fused linker=aarch64-linux-gnu-gcc
            packages=(qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross) sysroot=/usr/aarch64-linux-gnu
            runners=("qemu-aarch64 -cpu cortex-a72 -L $sysroot" "qemu-aarch64 -cpu cortex-a76 -L $sysroot")
            ;;
        armv7)
            triple=armv7-unknown-linux-gnueabihf arch=armhf linker=arm-linux-gnueabihf-gcc
            packages=(qemu-user gcc-arm-linux-gnueabihf libc6-dev-armhf-cross) sysroot=/usr/arm-linux-gnueabihf
            runners=("qemu-arm -cpu cortex-a7 -L $sysroot")
            left_out=(--skip attention --skip depends_neither --skip clips_are_transcribed)
            ;;
        i686)
            triple=i686-unknown-linux-gnu arch=i386 linker=i686-linux-gnu-gcc
            packages=(gcc-i686-linux-gnu libc6-dev-i386-cross) sysroot=/usr/i686-linux-gnu
            runners=("$sysroot/lib/ld-linux.so.2 --library-path $sysroot/lib")
            ;;
    esac
    if ! command -v "$linker" > /dev/null || [ ! -d "$sysroot" ] || ! command -v "${runners[0]%% *}" > /dev/null; then
        install_or_cannot "${packages[@]}" -- "$triple needs a linker, C libraries and an emulator"
    fi
    has_target "$triple" || debian_compiler "$name" "$triple" "$arch"
    variable=CARGO_TARGET_$(tr a-z- A-Z_ <<< "$triple")
    export "${variable}_LINKER=$linker" CARGO_TARGET_DIR=$target/cross/$name
}

# cross NAME
cross() {
    local name=$1 triple class sysroot runners left_out runner built image application clip test named=()
    prepare "$name"
    for test in "${tests[@]}"; do
        named+=(--test "$test")
    done
    cargo build --release --target "$triple" "${program[@]}"
    cargo build --release --locked --target "$triple" --manifest-path tests/firmware/app/Cargo.toml --example linux
    built=$CARGO_TARGET_DIR/$triple/release/voxtral
    application=$CARGO_TARGET_DIR/$triple/release/examples/linux
    image=$target/cross/$name.image
    for runner in "${runners[@]}"; do
        say "== $name: $runner"
        export "CARGO_TARGET_$(tr a-z- A-Z_ <<< "$triple")_RUNNER=$runner"
        cargo test --release --target "$triple" -p voxtral-core --lib
        cargo test --release --target "$triple" -p voxtral-tests "${named[@]}" -- "${left_out[@]}"
        # Split into words on purpose.
        $runner "$built" pack host/nano "$image"
        (cd tests/nano/clips && $runner "$application" baseline "$image" "${clips[@]}") | tee "$target/cross/heard"
        python3 ci/same.py "$class" < "$target/cross/heard"
        for clip in "${clips[@]}"; do
            heard "$clip" $runner "$built"
        done | tee "$target/cross/heard"
        python3 ci/same.py --no-tokens "$class" < "$target/cross/heard"
    done
    say "$name: the program has $(stat -c %s "$built") bytes"
}

# heard CLIP COMMAND...: what the program says of a clip, and its logits, in one line.
heard() {
    local clip=$1 text debug=$target/cross/debug
    shift
    text=$("$@" --debug "tests/nano/clips/$clip" 2> "$debug") || die "status $?: $(cat "$debug")"
    say "$clip: $text [logits $(sed -n 's/^voxtral: logit hash //p' "$debug")]"
}

# smallest: WAV only, no model inside, and a profile that counts bytes.
smallest() {
    local triple class sysroot runners left_out built bytes
    prepare aarch64
    cargo build -q --profile small --target "$triple" -p voxtral --bin voxtral --no-default-features
    built=$CARGO_TARGET_DIR/$triple/small/voxtral
    bytes=$(stat -c %s "$built")
    printf '%-44s %10d bytes\n' "64-bit Arm: WAV only, no model, profile small" "$bytes"
    [ "$bytes" -lt "$most" ] || die "$built has $bytes bytes, $most are allowed"
}

# refused: the other byte order is an error of core's own.
refused() {
    local triple=s390x-unknown-linux-gnu told=$target/cross/refused status=0 build=()
    if ! has_target "$triple"; then
        debian_bare_metal "$triple: rustup target add $triple, or Debian's Rust with its sources"
        unset RUSTC_WRAPPER RUSTUP_TOOLCHAIN
        # build-std is unstable: this lets the stable compiler do it.
        export RUSTC_BOOTSTRAP=1 PATH=/usr/bin:$PATH RUSTC=/usr/bin/rustc
        build=(-Zbuild-std=core)
    fi
    export CARGO_TARGET_DIR=$target/cross/big-endian
    cargo check --release "${build[@]}" --target "$triple" -p voxtral-core 2>&1 | tee "$told" || status=$?
    [ "$status" != 0 ] || die "core builds for $triple, whose byte order it cannot read"
    grep -q '^error: voxtral-core is for little-endian targets only' "$told" || die "$triple is refused, but not by core"
    say "$triple: refused by core, as it should be"
}

# part NAME
part() {
    case $1 in
        aarch64 | armv7 | i686) cross "$1" ;;
        big-endian) refused ;;
        size) smallest ;;
        *) die "no such part: $1" ;;
    esac
    say "$1: installed ${installed:-nothing that was not here}" >> "$target/cross/report"
}

: > "$target/cross/report"
for name in "${parts[@]}"; do
    begun=$SECONDS
    (part "$name")
    say "$name: $(((SECONDS - begun) / 60)) min $(((SECONDS - begun) % 60)) s" >> "$target/cross/report"
done
cat "$target/cross/report"
