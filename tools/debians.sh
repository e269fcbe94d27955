# The Debian release that has a CPython, for scripts that source this; none has 3.10 or 3.12.
declare -A debians=([3.9]=bullseye [3.11]=bookworm [3.13]=trixie [3.14]=sid [3.15]=sid)
# Those of sid, which are newer than most machines'.
mapfile -t newest < <(for each in "${!debians[@]}"; do [ "${debians[$each]}" != sid ] || echo "$each"; done | sort -V)
