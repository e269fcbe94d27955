#!/usr/bin/env bash
# Tries the wheels for musl that `tools/build-wheels --musl` has built, in roots made of musl (musl_root.py), with the checks of run.py:
#
#   in_musl.sh [--aarch64 [--pages 4k|16k]] [VERSION...]      default: 3.11; the first time each builds a CPython from its source
#                                                             (four minutes)
#
# The roots have musl, busybox and that CPython alone. Needs root, but with --aarch64: there QEMU emulates the processor, or with
# --pages a whole machine (tools/in-arm).
set -euo pipefail
cd "$(dirname "$0")/../.."

processor=$(uname -m) pages=() mode=()
if [ "${1:-}" = --aarch64 ]; then
  processor=aarch64 mode=(--emulated)
  shift
  [ "${1:-}" != --pages ] || { pages=(--pages "$2") mode=(); shift 2; }
  mode+=(--seconds 900)
  enter() { tools/in-arm "${pages[@]}" --in "$root" "$@"; }
else
  enter() {
    unshare --mount --propagation private bash -euo pipefail -c '
      mount --bind . "$root/pyhost"
      for folder in proc dev sys; do mount --rbind "/$folder" "$root/$folder"; done
      mount -t tmpfs none "$root/tmp"
      exec chroot "$root" /bin/env -i HOME=/root TERM=dumb PATH=/usr/bin:/bin sh -c '\''cd /pyhost; exec "$@"'\'' sh "$@"
    ' sh "$@"
  }
fi
export root
[ $# -gt 0 ] || set -- 3.11
status=0
for version in "$@"; do
  root=$(embed-tests/wheel/musl_root.py --python "$version" --processor "$processor")
  wheelhouse=$(tools/wheelhouse "$version" "$processor" musl)
  enter python3 embed-tests/wheel/run.py "${mode[@]}" --wheelhouse "$wheelhouse" python3 || status=1
done
exit $status
