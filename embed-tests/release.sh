#!/usr/bin/env bash
# Makes a release of the last commit in a clean clone, by tools/release, and installs and uses each of its files:
#
#   embed-tests/release.sh [--made] [--aarch64] [VERSION...]      VERSION: of the wheels (default: 3.11 3.13); a CPython of this machine and of a Debian
#
# The sums hold. A wheel is installed in a fresh environment of its Python here, and in the Debian that has its CPython
# (embed-tests/wheel/run.py); one for musl in a root made of musl (embed-tests/wheel/in_musl.sh). A Debian package is installed, used and removed (embed-tests/deb.sh). The source distribution becomes
# a wheel in a Debian, which then runs a script. The manual pages and completions are tried in that Debian (tools/manual/test.py), and the site
# in Chromium, without a network. With --aarch64 the release has wheels and Debian packages for aarch64, too. The clone is target/release-clone; with --made it is there, and only tried. Needs root, 10 GB,
# and half an hour. The last line is `N passed, N failed`. Exit status: 0; 1 if something failed.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/debians.sh

made= aarch64=()
[ "${1:-}" != --made ] || { made=1; shift; }
[ "${1:-}" != --aarch64 ] || { aarch64=(--aarch64); shift; }
versions=("$@")
[ $# -gt 0 ] || versions=(3.11 3.13)
[ "$(id -u)" = 0 ] || { echo "release.sh: needs root, to make a Debian and to enter it" >&2; exit 2; }
pythons=()
for version in "${versions[@]}"; do
  python=$(tools/pythons --any | grep -m1 "python$version\$") || { echo "release.sh: there is no CPython $version" >&2; exit 2; }
  [ -n "${debians[$version]:-}" ] || { echo "release.sh: no Debian has CPython $version; expected ${!debians[*]}" >&2; exit 2; }
  pythons+=("$python")
done

clone=$PWD/target/release-clone
if [ -z "$made" ]; then
  rm -rf "$clone"
  git clone --quiet . "$clone"
  (cd "$clone" && env -u CARGO_TARGET_DIR tools/release "${aarch64[@]}" "${pythons[@]}")
fi
cd "$clone"
unset CARGO_TARGET_DIR
files=target/release-files
unpacked=target/unpacked
rm -rf "$unpacked"
mkdir -p "$unpacked" target/debs

passed=0 failed=0
try() { # what is tried, a command
  echo "$1:"
  if "${@:2}" 2>&1 | sed 's/^/  /'; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "failed: $1"; fi
}

unpack() { # the archive's kind, a folder of its content
  mkdir -p "$2"
  tar --extract --file "$(echo "$files/pyhost-$1"-*.tar.xz)" --directory "$2" --strip-components 1
}

in_release() { # a version, its Debian's packages besides, a command
  tools/in-debian "${debians[$1]}" "python$1,python$1-venv,ca-certificates,procps,$2" "${@:3}"
}

from_source() { # a version
  rm -rf target/from-source
  # shellcheck disable=SC2016  # The shell in the Debian expands these.
  mkdir -p target/from-source && cargo fetch --locked --quiet &&
    python3 -m pip download --quiet --disable-pip-version-check --only-binary=:all: --python-version "$1" -d target/wheelhouse-source \
      hatchling==1.27.0 &&
    in_release "$1" "$source_needs" env CARGO_NET_OFFLINE=true TMPDIR=/pyhost/target/from-source sh -euc '
      "python$1" -m venv /tmp/venv
      /tmp/venv/bin/pip install --quiet --no-index --find-links target/wheelhouse-source target/release-files/pyhost-*.tar.gz
      /tmp/venv/bin/pyhost --stats python-scripts/where_memory_went.py
      test "$(/tmp/venv/bin/python -m pyhost -c "import pyhost; print(pyhost.active)")" = True' sh "$1"
}

source_needs=gcc,libc6-dev,binutils,man-db,bash-completion,zsh,fish,python${versions[0]}-dev
try "the sums" sh -euc 'cd "$1"; sha256sum --check --quiet SHA256SUMS; for file in *; do
  case $file in SHA256SUMS | CONTENTS.md) ;; *) grep --quiet --fixed-strings "| $file |" CONTENTS.md ;; esac; done' sh "$files"
for number in "${!versions[@]}"; do
  version=${versions[$number]}
  try "the wheel for $version, with pip" python3 embed-tests/wheel/run.py "${pythons[$number]}"
  packages=libstdc++6
  [ "$number" -gt 0 ] || packages=$source_needs
  try "the wheel for $version in ${debians[$version]}" in_release "$version" "$packages" \
    "python$version" embed-tests/wheel/run.py --wheelhouse "$(tools/wheelhouse "$version" "$(uname -m)")" "python$version"
  try "the wheel for $version in a root of musl" embed-tests/wheel/in_musl.sh "$version"
  cp "$files"/pyhost_*+py"$version"_*.deb target/debs
  try "the Debian package for $version" embed-tests/deb.sh "${debians[$version]}"
  if [ ${#aarch64[@]} -gt 0 ]; then
    try "the wheel for $version on aarch64, emulated" embed-tests/wheel/in_arm64.sh "$version"
    try "the wheel for $version in a root of musl on aarch64, emulated" embed-tests/wheel/in_musl.sh --aarch64 "$version"
    try "the Debian package for $version on aarch64, emulated" embed-tests/deb_arm64.sh "$version"
  fi
done
try "the source distribution" from_source "${versions[0]}"
unpack manual "$unpacked/manual/share"
try "the manual pages and completions" in_release "${versions[0]}" "$source_needs" "python${versions[0]}" tools/manual/test.py "$unpacked/manual"
unpack site "$unpacked/site"
try "the site" tools/site --look --made "$unpacked/site"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
