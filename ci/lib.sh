# Shared by the scripts of this directory; sourced, never run.

# The directory that this repository is checked out in.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Everything that is built goes below here.
target=${CARGO_TARGET_DIR:-$root/target}
case $target in
    /*) ;;
    *) target=$PWD/$target ;;
esac
export CARGO_TARGET_DIR=$target

# A service without a login has no rustup on its PATH, and a Debian cargo that comes first has no clippy.
if ! command -v rustup > /dev/null && [ -x "${HOME:-/root}/.cargo/bin/rustup" ]; then
    PATH=${HOME:-/root}/.cargo/bin:$PATH
fi

say() {
    printf '%s\n' "$*"
}

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Exit status of a script that could not do its work on this machine, as automake and meson have it.
not_run=77

in_ci() {
    case ${CI:-false} in
        false | 0 | no) return 1 ;;
        *) return 0 ;;
    esac
}

# cannot WHAT: something is missing here that cannot be installed. A person is told; in CI it is an error.
cannot() {
    if in_ci; then
        die "$* (CI is set, so nothing may be left out)"
    fi
    say "not run: $*"
    exit "$not_run"
}

# Whether packages can be installed: apt, and root (a sudo that asks for nothing counts in CI only).
can_install() {
    command -v apt-get > /dev/null || return 1
    if [ "$(id -u)" = 0 ]; then
        as_root=()
    elif in_ci && sudo -n true 2> /dev/null; then
        as_root=(sudo -n)
    else
        return 1
    fi
}

# What these scripts have added to the system, or unpacked beside it, as words for people.
installed=

# apt_install PACKAGE...: the package lists are fetched only when the ones that are there do not serve.
apt_install() {
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq
        -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
    say "installing: $*"
    installed+="${installed:+, }$*"
    if "${apt[@]}" install -y --no-install-recommends "$@" < /dev/null > /dev/null 2>&1; then
        return 0
    fi
    # One source that is out of order does not matter if the package comes from another.
    "${apt[@]}" update < /dev/null || true
    "${apt[@]}" install -y --no-install-recommends "$@" < /dev/null > /dev/null
}

# install_or_cannot PACKAGE... -- WHAT
install_or_cannot() {
    local packages=()
    while [ "$1" != -- ]; do
        packages+=("$1")
        shift
    done
    shift
    can_install || cannot "$* (Debian or Ubuntu, as root: apt-get install ${packages[*]})"
    apt_install "${packages[@]}" || cannot "$*: apt-get could not install ${packages[*]}"
}

debian_source() {
    printf '%s/lib/rustlib/src/rust/library' "$(/usr/bin/rustc --print sysroot 2> /dev/null)"
}

debian_ready() {
    [ -x /usr/bin/cargo ] && [ -x /usr/bin/rustc ] && [ -f "$(debian_source)/core/src/lib.rs" ]
}

# rust-lld comes with rustup's toolchains; Debian's lld does as well.
find_lld() {
    local own
    own=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-lld
    if [ -x "$own" ]; then
        say "$own"
    else
        command -v rust-lld || command -v ld.lld
    fi
}

# debian_bare_metal NEED: Debian's Rust with its sources, and a linker for it in $linker; NEED says what is missing.
debian_bare_metal() {
    local need=$1
    if ! debian_ready; then
        can_install || cannot "$need"
        # Lists that came with the system may know an older Rust only, whose optimiser leaves ways to panic.
        "${as_root[@]}" apt-get -qq update < /dev/null || true
        # Debian 12 has a current Rust under these names; elsewhere it has the plain ones.
        apt_install rustc-web cargo-web rust-web-src || apt_install rustc cargo rust-src || cannot "$need"
        debian_ready || cannot "$need"
    fi
    linker=$(find_lld) || {
        install_or_cannot lld -- "$need and lld"
        linker=$(find_lld)
    }
}

# Where what CI unpacks beside the system is kept.
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/voxtral-ci

# unpack_std ARCHITECTURE VERSION DIRECTORY: Debian's standard library for another architecture, into a directory that
# it replaces. Apt's state is one of its own, so that this system learns of no second architecture.
unpack_std() {
    local arch=$1 version=$2 to=$3 work options
    work=$(mktemp -d)
    chmod 755 "$work"
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
    : > "$work/status"
    options=(-o Dir::State="$work" -o Dir::State::lists="$work/lists" -o Dir::State::status="$work/status"
        -o Dir::Cache="$work/cache" -o APT::Architecture="$arch" -o APT::Architectures::="$arch"
        -o APT::Sandbox::User=root)
    say "unpacking Debian's libstd-rust-web-dev $version for $arch into $to"
    installed+="${installed:+, }libstd-rust-web-dev:$arch $version (in $to)"
    # One source that is out of order does not matter if the package comes from another.
    apt-get -qq "${options[@]}" update < /dev/null || true
    if ! (cd "$work" && apt-get -qq "${options[@]}" download "libstd-rust-web-dev=$version"); then
        rm -rf "$work"
        cannot "no package libstd-rust-web-dev $version for $arch; rustup target add would do"
    fi
    mkdir "$work/root"
    dpkg-deb -x "$work"/libstd-rust-web-dev_*.deb "$work/root"
    rm -rf "$to"
    mkdir -p "$(dirname "$to")"
    mv "$work/root" "$to"
    rm -rf "$work"
}

# debian_version SERIES: the version of Debian's rustc-web of that series, if there is one.
debian_version() {
    apt-cache madison rustc-web 2> /dev/null | awk -v v="$1." 'index($3, v) == 1 && !n++ { print $3 }'
}

# unpack_rust SERIES: Debian's compiler of that series, into $cache/rust-SERIES, where its `rustc` runs it. What is
# missing is said, and is the status of it.
unpack_rust() {
    local series=$1 to=$cache/rust-$1 version work package lib
    if [ -x "$to/rustc" ] && "$to/rustc" --version > /dev/null 2>&1; then
        return 0
    fi
    can_install || { say "not Debian, or not root"; return 1; }
    version=$(debian_version "$series")
    if [ -z "$version" ]; then
        "${as_root[@]}" apt-get update -qq < /dev/null || true
        version=$(debian_version "$series")
    fi
    [ -n "$version" ] || { say "no package rustc-web $series"; return 1; }
    work=$(mktemp -d)
    chmod 755 "$work"
    say "unpacking Debian's rustc-web $version into $to"
    installed+="${installed:+, }rustc-web $version (in $to)"
    # The compiler is only unpacked, so its LLVM is the one package that has to be installed properly.
    apt_install libllvm19 || { say "no package libllvm19"; return 1; }
    (cd "$work" && apt-get download -qq "rustc-web=$version" "libstd-rust-web-$series=$version" \
        "libstd-rust-web-dev=$version") || { say "the packages cannot be downloaded"; return 1; }
    mkdir -p "$work/root"
    for package in "$work"/*.deb; do
        dpkg-deb -x "$package" "$work/root"
    done
    rm -rf "$to"
    mkdir -p "$(dirname "$to")"
    mv "$work/root" "$to"
    rm -rf "$work"
    lib=$(find "$to/usr/lib" -name 'librustc_driver-*.so' -not -path '*/rustlib/*' -printf '%h')
    # Last, so that an unpacking that was cut short is never taken for a whole one.
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s/usr/bin/rustc "$@"\n' "$lib" "$to" > "$to/rustc"
    chmod +x "$to/rustc"
    "$to/rustc" --version > /dev/null || { say "Debian's rustc $series does not start"; return 1; }
}
