#!/usr/bin/env bash
# Tries the wheels for aarch64 that `tools/build-wheels --target aarch64` has built, in the Debians that have their CPythons,
# emulated by QEMU (tools/in-arm, which needs no root):
#
#   in_arm64.sh [--pages 4k|16k] [VERSION...]      default: all of tools/debians.sh
#
# The last line says how many checks of run.py passed.
set -euo pipefail
cd "$(dirname "$0")/../.."

. tools/debians.sh
pages=() mode=(--emulated)
[ "${1:-}" != --pages ] || { pages=(--pages "$2") mode=(); shift 2; }
[ $# -gt 0 ] || mapfile -t versions < <(printf '%s\n' "${!debians[@]}" | sort -V)
[ $# = 0 ] || versions=("$@")
output=$(mktemp)
trap 'rm -f "$output"' EXIT
status=0
for version in "${versions[@]}"; do
  debian=${debians[$version]:-}
  [ -n "$debian" ] || { echo "in_arm64.sh: no Debian has CPython '$version'; expected ${!debians[*]}" >&2; exit 2; }
  wheelhouse=$(tools/wheelhouse "$version" aarch64)
  packages=ca-certificates,coreutils,dash,bash,libc-bin,procps,libstdc++6 # the last for NumPy
  for each in "${!debians[@]}"; do
    [ "${debians[$each]}" != "$debian" ] || packages+=,python$each-venv
  done
  tools/in-arm "${pages[@]}" "$debian" "$packages" "python$version" embed-tests/wheel/run.py "${mode[@]}" --seconds 900 \
    --wheelhouse "$wheelhouse" "python$version" | tee -a "$output" || status=1
done
awk '/^[0-9]+ of [0-9]+ checks passed$/ { passed += $1; all += $3 }
  END { print passed + 0 " of " all + 0 " checks passed" }' "$output"
exit $status
