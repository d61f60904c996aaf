#!/bin/bash
# Builds the firmware of tests/firmware, boots it on emulated boards with the small model in flash, and compares text,
# token ids and logits with those of every machine (ci/same.py); and those of the same application on this one.
#
#     ci/firmware.sh [--recipe RECIPE] [BOARD...]
#
# Boards are mps3-an547 (Cortex-M55), mps2-an500 (Cortex-M7) and virt (64-bit Arm); all if none is named. With a recipe of
# `voxtral quantize` the model in flash is the small one by that, and has to give on a board what it gives here.
#
# Prints a table of flash and RAM. Nothing in it is a time: the emulator counts instructions, not cycles.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

recipe=
if [ "${1:-}" = --recipe ]; then
    recipe=${2:?a recipe of voxtral quantize}
    shift 2
fi
boards=("$@")
[ $# -gt 0 ] || boards=(mps3-an547 mps2-an500 virt)
for board in "${boards[@]}"; do
    case $board in
        mps3-an547 | mps2-an500 | virt) ;;
        *) die "no such board: $board" ;;
    esac
done

# Flags for the machine at hand are none for these.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS

out=$target/firmware
# Seconds that one boot may take.
patience=240

has_targets() {
    local triple lib
    for triple in thumbv8m.main-none-eabihf thumbv7em-none-eabihf aarch64-unknown-none; do
        lib=$(rustc --print target-libdir --target "$triple" 2> /dev/null) && [ -d "$lib" ] || return 1
    done
}

need="firmware needs rustup target add thumbv8m.main-none-eabihf thumbv7em-none-eabihf aarch64-unknown-none, \
or Debian's Rust with its sources"
if ! has_targets; then
    debian_bare_metal "$need"
fi
if ! command -v qemu-system-arm > /dev/null || ! command -v qemu-system-aarch64 > /dev/null; then
    install_or_cannot qemu-system-arm -- "booting firmware needs qemu-system-arm and qemu-system-aarch64"
fi
if ! command -v nm > /dev/null || ! command -v readelf > /dev/null; then
    install_or_cannot binutils -- "looking into the images needs nm and readelf"
fi
command -v python3 > /dev/null || install_or_cannot python3 -- "comparing with other machines needs python3"

# build DIRECTORY TRIPLE: the image and what goes into its flash, $out/TRIPLE.flash.
build() {
    cd "$root/tests/firmware/$1"
    export CARGO_TARGET_DIR=$out FLASH_IMAGE=$out/$2.flash
    if has_targets; then
        cargo build --release --locked --target "$2"
    else
        unset RUSTC_WRAPPER RUSTUP_TOOLCHAIN
        # build-std is unstable: this lets the stable compiler do it.
        export RUSTC_BOOTSTRAP=1
        export PATH=/usr/bin:$PATH RUSTC=/usr/bin/rustc
        export CARGO_TARGET_THUMBV8M_MAIN_NONE_EABIHF_LINKER=$linker CARGO_TARGET_THUMBV7EM_NONE_EABIHF_LINKER=$linker
        export CARGO_TARGET_AARCH64_UNKNOWN_NONE_LINKER=$linker
        /usr/bin/cargo build --release --locked -Zbuild-std=core,compiler_builtins \
            -Zbuild-std-features=compiler-builtins-mem --target "$2"
    fi
}

# section IMAGE NAME: its size in bytes.
section() {
    local hex
    hex=$(readelf -SW "$1" | sed 's/^ *\[ *[0-9]*\] *//' | awk -v name="$2" '$1 == name { print $5 }')
    printf '%d' "$((16#${hex:-0}))"
}

# largest NAME LOG: the largest number that stands before "B" after a word of the log.
largest() {
    sed -n "s/.*$1 \([0-9]*\) B.*/\1/p" "$2" | sort -n | tail -n 1
}

allocators='__rust_(alloc|dealloc|realloc)|__r(g|dl)_|[^_a-z](malloc|calloc|realloc|free|aligned_alloc|posix_memalign|_?sbrk)$|[ <]alloc::'
table=()

# boot BOARD: builds its image, runs it with its flash filled, and looks at what it printed.
boot() {
    local board=$1 directory=cortex-m class=separate status=0 found triple address emulator
    case $board in
        mps3-an547) triple=thumbv8m.main-none-eabihf address=0x28000000 ;;
        mps2-an500) triple=thumbv7em-none-eabihf address=0x60000000 ;;
        virt) triple=aarch64-unknown-none address=0x04000000 directory=aarch64 class=fused ;;
    esac
    local image=$out/$triple/release/speech log=$out/$triple.log
    (build "$directory" "$triple")
    if found=$(nm -C "$image" | grep -E "$allocators"); then
        die "an allocator is linked into $image:"$'\n'"$found"
    fi
    if found=$(nm -C "$image" | grep -E 'flt2dec|fmt::float'); then
        die "code that prints numbers with fractions is linked into $image:"$'\n'"$found"
    fi
    case $board in
        virt) emulator=(qemu-system-aarch64 -cpu cortex-a53 -nodefaults -serial stdio -device "loader,file=$image,cpu-num=0") ;;
        *) emulator=(qemu-system-arm -serial none -kernel "$image") ;;
    esac
    say "== $board"
    timeout "$patience" "${emulator[@]}" -M "$board" -display none -monitor none -icount shift=0,sleep=off \
        -semihosting-config enable=on,target=native \
        -device "loader,file=$out/$triple.flash,addr=$address,force-raw=on" < /dev/null > "$log" || status=$?
    cat "$log"
    [ "$status" = 0 ] || die "$board: status $status"
    same "$class" "$log"
    table+=("$(printf '%-12s %9d %9d %9d %9d %9d %9d' "$board" \
        $(($(section "$image" .vector_table) + $(section "$image" .text) + $(section "$image" .rodata) \
            + $(section "$image" .data))) \
        "$(stat -c %s "$out/$triple.flash")" "$(largest state "$log")" "$(largest scratch "$log")" \
        $(($(section "$image" .data) + $(section "$image" .bss))) "$(largest stack "$log")")")
}

# same CLASS LOG: compares what was heard.
same() {
    if [ -z "$recipe" ]; then
        python3 "$root/ci/same.py" "$1" < "$2"
    else
        grep '\[logits' "$2" | diff "$out/expected.$1" - || die "$2: not what the same model gives here (left)"
    fi
}

# here CLASS IMAGE: the same application on this machine.
here() {
    cd "$root/tests/nano/clips"
    "$out/release/examples/linux" "$1" "$2" "${clips[@]}"
}

mkdir -p "$out"
clips=($(python3 "$root/ci/same.py" --clips))
(
    cd "$root/tests/firmware/app"
    CARGO_TARGET_DIR=$out cargo build --release --locked --example linux
)
model=$root/host/nano
packed=$out/${recipe:-plain}.image
(
    cd "$root"
    cargo build --release -p voxtral
)
if [ -n "$recipe" ]; then
    model=$out/$recipe
    rm -rf "$model"
    "$target/release/voxtral" quantize "$root/host/nano" "$model" --recipe "$recipe" > "$out/$recipe.log"
fi
# The build scripts of the images put its files into the flash.
export FLASH_MODEL=$model
"$target/release/voxtral" pack "$model" "$packed"
for class in separate fused; do
    (here "$class" "$packed") > "$out/here"
    grep '\[logits' "$out/here" | tee "$out/expected.$class"
    [ -n "$recipe" ] || python3 "$root/ci/same.py" "$class" < "$out/here"
done

for board in "${boards[@]}"; do
    boot "$board"
done

printf '%-12s %9s %9s %9s %9s %9s %9s\n' board code flash state scratch statics stack
printf '%s\n' "${table[@]}"
say "bytes; statics include state and scratch, flash holds the model and the recordings"
