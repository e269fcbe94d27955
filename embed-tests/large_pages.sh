#!/usr/bin/env bash
# Runs the tests of the heaps as on a kernel with larger pages: `large_pages.sh BYTES [MODULE...]`, 16384 or 65536, with
# all modules of embed tests that touch the heaps, or those given. What libc shows of pages is rounded by a preloaded
# library; see c/large_pages.c.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
# All is built first: the compiler's own allocator refuses such pages.
cargo test --quiet --no-run
cargo test --quiet --no-run -p pyhost-tensorflow -p pyhost-heap --lib
mkdir -p "$target/tmp"
cc -O1 -shared -fPIC -Wl,-Bsymbolic embed-tests/c/large_pages.c -o "$target/tmp/large_pages.so"
library=$(realpath "$target/tmp/large_pages.so")
modules=("${@:2}")
[ $# -gt 1 ] || modules=(domains exactness forks guards leaks live native numpy ownership threads timeline)
export LD_PRELOAD=$library PAGE_BYTES=$1
cargo test --quiet -p pyhost-tensorflow -p pyhost-heap --lib
# libc's own part stays on real pages.
cargo test --quiet --test embed -- "${modules[@]/%/::}" --skip the_family_answers_as_libcs_does
