#!/usr/bin/env bash
# Tries the wheels in Debians that are older and newer than most machines: Debian 11 (3.9, glibc 2.31) and sid (whose
# CPythons' wheels are built there). Makes the systems below target/ (tools/in-debian) and gives them the packages of
# the checks in folders, so they need no network. Needs root.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/debians.sh

first=${newest[0]}
for version in 3.9 "${newest[@]}"; do tools/wheelhouse "$version" >/dev/null; done
python3 -m pip download --quiet --disable-pip-version-check --only-binary=:all: --python-version "$first" \
  -d "target/wheelhouse-$first" hatchling==1.27.0

packages=gcc,libc6-dev,ca-certificates,valgrind,tmux,procps,python3
for version in "${newest[@]}"; do
  packages+=,python$version,libpython$version,python$version-dev,python$version-venv
done
# The C library to link against is made here, too.
python39=$(tools/pythons --any | grep -m1 'python3\.9$') || { echo "in_debian.sh: there is no CPython 3.9" >&2; exit 2; }
tools/build-wheels "$python39"
cargo fetch --locked --quiet
status=0
tools/in-debian bullseye python3,python3-venv,ca-certificates \
  python3 embed-tests/wheel/run.py --wheelhouse target/wheelhouse-3.9 python3 || status=1
tools/in-debian sid "$packages" env CARGO_NET_OFFLINE=true PIP_NO_INDEX=1 PIP_FIND_LINKS="/pyhost/target/wheelhouse-$first" \
  tools/build-wheels "${newest[@]/#/python}"
for version in "${newest[@]}"; do
  tools/in-debian sid "$packages" "python$first" embed-tests/wheel/run.py --wheelhouse "target/wheelhouse-$version" \
    "python$version" || status=1
done
exit $status
