#!/bin/bash
# Links core into an image for a Cortex-M4F without std and without an allocator, and looks into the image; and all
# that reads bytes into another one, which links only if nothing in it can panic.
#
# The compiler is the installed one if it has the target (rustup target add thumbv7em-none-eabihf). Otherwise it is
# Debian's, which comes with the sources of Rust's own core library and builds that first.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Flags for the machine at hand are none for this one.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS

triple=thumbv7em-none-eabihf
out=$target/bare-metal
image=$out/$triple/release/link

has_target() {
    local lib
    lib=$(rustc --print target-libdir --target "$triple" 2> /dev/null) && [ -d "$lib" ]
}

need="linking for bare metal needs rustup target add $triple, or Debian's Rust with its sources"
if ! has_target; then
    debian_bare_metal "$need"
fi

# build NAME: the image of tests/firmware/NAME.
build() {
    cd "$root/tests/firmware/$1"
    export CARGO_TARGET_DIR=$out
    if has_target; then
        cargo build --release --target "$triple"
    else
        unset RUSTC_WRAPPER RUSTUP_TOOLCHAIN
        # build-std is unstable: this lets the stable compiler do it.
        export RUSTC_BOOTSTRAP=1
        export PATH=/usr/bin:$PATH RUSTC=/usr/bin/rustc
        export CARGO_TARGET_THUMBV7EM_NONE_EABIHF_LINKER=$linker
        /usr/bin/cargo build --release -Zbuild-std=core --target "$triple"
    fi
}

(build link)
(build no-panic) || die "something that reads input can panic, if the linker misses a_panic_path_is_left above"

if ! command -v nm > /dev/null || ! command -v readelf > /dev/null; then
    install_or_cannot binutils -- "looking into the image needs nm and readelf"
fi

symbols=$(nm -C "$image")
# Without this an image that lost its contents would pass.
grep -q 'voxtral_core::' <<< "$symbols" || die "$image holds nothing of core"
without_panic=$out/$triple/release/no-panic
# The reader of images is so small that it is part of the function that calls it.
for part in voxtral_core::audio no_panic::image voxtral_core::format::{json,params,safetensors,tekken,wav} voxtral_core::layout; do
    nm -C "$without_panic" | grep "$part" > /dev/null || die "$without_panic holds nothing of $part"
done
allocators='__rust_(alloc|dealloc|realloc)|__r(g|dl)_|[^_a-z](malloc|calloc|realloc|free|aligned_alloc|posix_memalign|_?sbrk)$|[ <]alloc::'
if found=$(grep -E "$allocators" <<< "$symbols"); then
    die "an allocator is linked into $image:"$'\n'"$found"
fi

# section NAME: its size in bytes.
section() {
    local hex
    hex=$(readelf -SW "$image" | sed 's/^ *\[ *[0-9]*\] *//' | awk -v name="$1" '$1 == name { print $5 }')
    printf '%d' "$((16#${hex:-0}))"
}

say "$image: no allocator in $(wc -l <<< "$symbols") symbols"
for name in .text .rodata .data .bss; do
    printf '%9d B %s\n' "$(section "$name")" "$name"
done
say "$without_panic: no way to panic"
