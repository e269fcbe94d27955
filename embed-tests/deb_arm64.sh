#!/usr/bin/env bash
# Installs, uses and removes the Debian packages for arm64 of tools/deb in the Debian of their CPython, emulated by QEMU (tools/in-arm):
#
#   embed-tests/deb_arm64.sh [VERSION...]      without VERSION: each that has a package in target/debs
#
# The system's files are only unpacked, so that dpkg takes no notice of what the package depends on. What is tried is a part of deb.sh:
# no other user, systemd, shell or gdb. The last line is `N passed, N failed`. Exit status: 0; 1 if a package failed.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/debians.sh

versions=("$@")
[ $# -gt 0 ] || mapfile -t versions < <(printf '%s\n' target/debs/pyhost_*_arm64.deb | sed -nE 's/.*[+]py([0-9.]+)_arm64[.]deb/\1/p')
passed=0 failed=0
for version in "${versions[@]}"; do
  package=$(echo target/debs/pyhost_*+py"$version"_arm64.deb)
  [ -e "$package" ] || { echo "deb_arm64.sh: there is no package for $version in target/debs; expected 'tools/deb WHEEL' first" >&2; exit 2; }
  # shellcheck disable=SC2016  # The shell in the Debian expands these.
  if tools/in-arm "${debians[$version]}" dpkg,coreutils,dash,bash,grep,sed,gzip,findutils,libc-bin,python3,diffutils bash -euc '
    version=$1 package=$2
    says() { # what is tried, what is to be printed, a command; "..." stands for anything
      text=$("${@:3}" 2>&1) && [[ $text == ${2//.../*} ]] || { printf "failed: %s\n%s\n" "$1" "$text"; exit 1; }
      echo "$version for arm64: $1: ok"
    }
    says "the processor" aarch64 uname -m
    mkdir -p /var/lib/dpkg/{info,updates,triggers}
    touch /var/lib/dpkg/status
    says "dpkg installs it" "..." dpkg --force-depends --install "$package"
    says "its files are whole" "" dpkg --verify pyhost
    says "the example of README" "...pyhost: Python $version.*native ...total ..." pyhost --stats python-scripts/where_memory_went.py
    says "the interpreter is that of Debian" "/usr/bin/python$version True" pyhost -c "import sys, pyhost; print(sys.executable, pyhost.active)"
    says "python3 -m pyhost" True python3 -m pyhost -c "import pyhost; print(pyhost.active)"
    says "a plain python3 imports it" False python3 -c "import pyhost; print(pyhost.active)"
    says "a cap" "...cap of 64.0 MiB...caught" pyhost --cap 64M -c "
try:
    kept = []
    while True: kept.append(bytearray(100_000))
except MemoryError:
    del kept
    print(\"caught\")"
    printf "kept = list(map(bytes, [1000] * 20_000))\n" >/tmp/lines.py
    says "lines" "...lines.py:1 in <module>..." pyhost --lines=16K /tmp/lines.py
    says "pyhostctl" "pyhostctl ..." pyhostctl --version
    says "a manual page" "...PYHOST..." gzip -dc /usr/share/man/man1/pyhost.1.gz
    dpkg -L pyhost >/tmp/files
    says "dpkg purges it" "..." dpkg --purge pyhost
    while read -r file; do [ -d "$file" ] || [ ! -e "$file" ] || echo "left: $file"; done </tmp/files >/tmp/left
    says "nothing is left" "" cat /tmp/left' bash "$version" "$package"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
