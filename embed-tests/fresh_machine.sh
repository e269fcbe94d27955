#!/usr/bin/env bash
# Tries tools/setup and README's first command on a fresh Debian, made by mmdebstrap with the least that one has:
#
#   embed-tests/fresh_machine.sh [--no-build] [SUITE...]      without SUITE: bookworm trixie
#
# An ordinary user is told the line for root; root and `sudo` install what is missing; nothing is missing then; the first command
# builds the host, as the ordinary user, and runs its script. Needs root. The systems and builds are below
# target/fresh-SUITE, a few GB, and are made anew each time. cargo's downloads are this machine's.
set -euo pipefail
cd "$(dirname "$0")/.."

build=1
[ "${1:-}" != --no-build ] || { build=; shift; }
suites=("$@")
[ $# -gt 0 ] || suites=(bookworm trixie)
[ "$(id -u)" = 0 ] || { echo "fresh_machine.sh: needs root, to make a Debian and to enter it" >&2; exit 2; }
tools/install-packages mmdebstrap:mmdebstrap

fail() {
  printf 'failed: %s\n%s\n' "$1" "$text" >&2
  exit 1
}

# Runs words in the system, as a user: the output, and the status as its last line.
within() {
  user=$1 words=$2
  text=$(user=$user words=$words root=$root registry=${CARGO_HOME:-$HOME/.cargo}/registry unshare --mount --propagation private bash -euc '
    mount --bind . "$root/pyhost"
    mount --bind "$root/build" "$root/pyhost/target"
    mount --bind "$registry" "$root/registry"
    for folder in proc dev sys; do mount --rbind "/$folder" "$root/$folder"; done
    mount -t tmpfs none "$root/tmp"
    exec chroot "$root" su -s /bin/sh "$user" -c "cd /pyhost; export CARGO_HOME=/home/cargo; $words"' </dev/null 2>&1; echo "status $?")
}

for suite in "${suites[@]}"; do
  root=$PWD/target/fresh-$suite
  rm -rf "$root"
  # The lists of a mirror that is kept as a copy may be past their date.
  mmdebstrap --quiet --variant=minbase --include=ca-certificates,sudo --aptopt='Acquire::Check-Valid-Until "false"' "$suite" "$root"
  mkdir -p "$root"/{pyhost,build,registry} "$root/home/cargo"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
  ln -s /registry "$root/home/cargo/registry"
  chroot "$root" useradd ann
  chroot "$root" useradd -G sudo bob
  echo '%sudo ALL=(ALL) NOPASSWD: ALL' > "$root/etc/sudoers.d/sudo"
  chroot "$root" chown -R ann /build /home/cargo
  mv "$root/usr/bin/sudo" "$root/sudo"

  within ann tools/setup
  [[ $text == *"missing: Rust "*"a C compiler, CPython with its headers and a shared libpython"*"as root, run:"*"status 1" ]] ||
    fail "$suite: what an ordinary user is told"
  echo "$suite: $text" | sed -n 1,3p
  mv "$root/sudo" "$root/usr/bin/sudo"
  within bob tools/setup
  [[ $text == *"to install: sudo apt-get install"*"nothing was installed"*"status 1" ]] || fail "$suite: without --yes and a terminal"
  within bob "tools/setup --yes"
  [[ $text == *"nothing is missing: "*"status 0" ]] || fail "$suite: tools/setup --yes by sudo"
  within root "apt-get -qq autoremove --purge -y libpython3-dev >/dev/null; tools/setup --check"
  [[ $text == *"missing: headers and a shared libpython of CPython 3."*"status 1" ]] || fail "$suite: some is missing"
  within root "tools/setup --yes"
  [[ $text == *"nothing is missing: "*"status 0" ]] || fail "$suite: tools/setup --yes by root"
  echo "$suite: $(echo "$text" | grep nothing)"
  if [ -n "$build" ]; then
    within ann "cargo run --quiet --release -- --stats python-scripts/where_memory_went.py"
    [[ $text == *"20 MB of payload"*"total "*"status 0" ]] || fail "$suite: README's first command"
    echo "$suite: $text" | head -n 3
  fi
done
