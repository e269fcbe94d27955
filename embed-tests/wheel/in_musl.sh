#!/usr/bin/env bash
# Tries the wheels for musl that `tools/build-wheels --musl` has built, in roots made of musl (musl_root.py), with the checks of run.py:
#
#   in_musl.sh [VERSION...]      default: 3.11; the first time each builds a CPython from its source (four minutes)
#
# The roots have musl, busybox and that CPython alone. Needs root.
set -euo pipefail
cd "$(dirname "$0")/../.."

[ $# -gt 0 ] || set -- 3.11
status=0
for version in "$@"; do
  root=$(embed-tests/wheel/musl_root.py --python "$version")
  wheelhouse=$(tools/wheelhouse "$version" "$(uname -m)" musl)
  export root
  unshare --mount --propagation private bash -euo pipefail -c '
    mount --bind . "$root/pyhost"
    for folder in proc dev sys; do mount --rbind "/$folder" "$root/$folder"; done
    mount -t tmpfs none "$root/tmp"
    cd /
    exec chroot "$root" /bin/env -i HOME=/root TERM=dumb PATH=/usr/bin:/bin "$@"
  ' sh python3 /pyhost/embed-tests/wheel/run.py --wheelhouse "/pyhost/$wheelhouse" python3 || status=1
done
exit $status
