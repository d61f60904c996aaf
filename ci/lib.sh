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

# apt_install PACKAGE...: the package lists are fetched only when the ones that are there do not serve.
apt_install() {
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq
        -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
    say "installing: $*"
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
        # Debian 12 has a current Rust under these names; elsewhere it has the plain ones.
        apt_install rustc-web cargo-web rust-web-src || apt_install rustc cargo rust-src || cannot "$need"
        debian_ready || cannot "$need"
    fi
    linker=$(find_lld) || {
        install_or_cannot lld -- "$need and lld"
        linker=$(find_lld)
    }
}
