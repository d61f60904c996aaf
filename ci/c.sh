#!/bin/bash
# The C surface: builds the libraries, compiles the examples of core/ffi with every warning an error, and compares what
# they say of clips with what the program says; then under valgrind, and compiled anew with AddressSanitizer. With
# --bare-metal, the static library for a Cortex-M4F instead, which has to link with nothing else.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

if [ "${1:-}" = --bare-metal ]; then
    triple=thumbv7em-none-eabihf
    unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS RUSTC_WRAPPER RUSTUP_TOOLCHAIN
    debian_bare_metal "the static library for bare metal needs Debian's Rust with its sources"
    export CARGO_TARGET_DIR=$target/c/bare-metal
    # build-std is unstable: this lets the stable compiler do it.
    RUSTC_BOOTSTRAP=1 PATH=/usr/bin:$PATH RUSTC=/usr/bin/rustc /usr/bin/cargo rustc --profile small --locked \
        -Zbuild-std=core,compiler_builtins -Zbuild-std-features=compiler-builtins-mem --target "$triple" \
        -p voxtral-ffi --no-default-features --lib --crate-type staticlib
    library=$CARGO_TARGET_DIR/$triple/small/libvoxtral_ffi.a
    image=$CARGO_TARGET_DIR/$triple/small/image
    needed=()
    for name in $(grep -o 'vx_[a-z0-9_]*(' core/ffi/include/voxtral.h | tr -d '(' | sort -u); do
        case $name in
            vx_open | vx_close | vx_stream_open | vx_stream_close | vx_model_explain) ;;
            *) needed+=(-u "$name") ;;
        esac
    done
    flavour=()
    [[ $linker == *rust-lld ]] && flavour=(-flavor gnu)
    # Anything that it lacks is an undefined symbol, and an error.
    "$linker" "${flavour[@]}" --gc-sections -e vx_stream_get "${needed[@]}" "$library" -o "$image"
    if nm "$image" | grep -E '(malloc|calloc|realloc|free|__rust_alloc)$'; then
        die "an allocator is linked into $image"
    fi
    size "$image"
    say "$library: links by itself, with all of voxtral.h that needs no system"
    exit
fi

command -v cc > /dev/null || install_or_cannot gcc libc6-dev -- "needs a C compiler"
if ! command -v valgrind > /dev/null; then
    if in_ci || can_install; then
        install_or_cannot valgrind libc6-dbg -- "needs valgrind"
    else
        say "valgrind is not installed: left out"
    fi
fi

ffi=$root/core/ffi
out=$target/c
mkdir -p "$out"
cargo build --release -p voxtral -p voxtral-ffi
program=$target/release/voxtral
strict=(-std=c99 -Wall -Wextra -pedantic -Werror -O2 -g -I"$ffi/include")
# What Rust's own library needs of the system.
system=(-lpthread -ldl -lm -lgcc_s)

# compile NAME OUTPUT FLAGS...: against the static library.
compile() {
    local name=$1 output=$2
    shift 2
    cc "${strict[@]}" "$@" "$ffi/examples/$name.c" "$target/release/libvoxtral_ffi.a" "${system[@]}" -o "$output"
}

# The header by itself, as C and as C++.
printf '#include "voxtral.h"\n' | cc "${strict[@]}" -x c -c - -o "$out/header.o"
if command -v c++ > /dev/null; then
    printf '#include "voxtral.h"\n' | c++ -Wall -Wextra -pedantic -Werror -I"$ffi/include" -x c++ -c - -o "$out/header.o"
fi

compile transcribe "$out/transcribe"
compile stream "$out/stream"
cc "${strict[@]}" "$ffi/examples/transcribe.c" -L"$target/release" -lvoxtral_ffi -o "$out/transcribe-shared"
compile transcribe "$out/transcribe-asan" -fsanitize=address
compile stream "$out/stream-asan" -fsanitize=address

model=host/nano
clips=(tests/nano/clips/0[0-8]*.wav)

# words FILE...: what the streaming example says, its words joined.
words() {
    sed -n 's/^.*%  "\([^"]*\)".*/\1/p' "$@" | tr -d '\n' | sed 's/^ *//'
}

# said CLIP: by the command line.
said() {
    "$program" --silent -d "$model" "$1"
}

for clip in "${clips[@]}"; do
    expected=$(said "$clip")
    [ -n "$expected" ] || die "$program says nothing to $clip"
    for example in transcribe transcribe-shared; do
        found=$(LD_LIBRARY_PATH=$target/release "$out/$example" "$model" "$clip")
        [ "$found" = "$expected" ] || die "$example: $clip: $found, expected: $expected"
    done
    tail -c +45 "$clip" | "$out/stream" "$model" > "$out/stream.txt" 2> /dev/null
    found=$(words "$out/stream.txt")
    [ "$found" = "$expected" ] || die "stream: $clip: $found, expected: $expected"
done
say "examples: what the program says of ${#clips[@]} clips"

# checked NAME COMMAND...: both examples on the shortest clip and on files that are none, run by the command.
checked() {
    local name=$1 suffix=$2 status clip=tests/nano/clips/02-espeak.wav expected found
    shift 2
    expected=$(said "$clip")
    found=$("$@" "$out/transcribe$suffix" "$model" "$clip") || die "$name: status $?"
    [ "$found" = "$expected" ] || die "$name: transcribe says: $found"
    tail -c +45 "$clip" | "$@" "$out/stream$suffix" "$model" > "$out/stream.txt" 2> "$out/stream.err" ||
        die "$name: $(cat "$out/stream.err")"
    found=$(words "$out/stream.txt")
    [ "$found" = "$expected" ] || die "$name: stream says: $found"
    status=0
    "$@" "$out/transcribe$suffix" tests "$clip" > /dev/null 2> "$out/refused.err" || status=$?
    [ "$status" = 1 ] || die "$name: status $status where a directory is refused: $(cat "$out/refused.err")"
    say "$name: no errors"
}

checked AddressSanitizer -asan
if command -v valgrind > /dev/null; then
    checked valgrind "" valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite
fi

if command -v pkg-config > /dev/null; then
    # As an installation has it.
    prefix=$out/prefix
    rm -rf "$prefix"
    bash "$ffi/install.sh" "$prefix" > /dev/null
    flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs voxtral)
    # The words of it are words here, too.
    cc "$ffi/examples/transcribe.c" $flags -o "$out/transcribe-installed"
    found=$(LD_LIBRARY_PATH=$prefix/lib "$out/transcribe-installed" "$model" "${clips[0]}")
    [ "$found" = "$(said "${clips[0]}")" ] || die "by pkg-config: $found"
    say "pkg-config: $flags"
fi
if command -v cmake > /dev/null; then
    rm -rf "$out/cmake"
    cmake -S "$ffi/examples" -B "$out/cmake" -DVOXTRAL_PREFIX="$prefix" > /dev/null
    cmake --build "$out/cmake" > /dev/null
    found=$("$out/cmake/transcribe" "$model" "${clips[0]}")
    [ "$found" = "$(said "${clips[0]}")" ] || die "by CMake: $found"
    say "CMake: built and run"
fi
