#!/usr/bin/env python3
"""Builds a device folder for another processor and tries it on a machine of that kind, emulated with a real kernel:

    run.py --target aarch64 --pages 4k|16k|64k [--python 3.11] [--from-source] [--slice]
    run.py --target armv7 [--python 3.11] [--from-source] [--slice]

The folder is made by devices/build, with --from-source as a static executable; the machine is that of tools/in-arm, with a
Debian as its root that is read-only. checks.py runs there, then modules of CPython's own tests, by the host and by the machine's
python3, and the embed tests, which are built for it: all but those of left_out.txt, or some modules. For aarch64 NumPy is in the
folder; for armv7 a slice of the cap matrix (embed-tests/cap_matrix) runs, too. The last line says how many checks and tests
passed and failed.
"""

import argparse
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE / "devices"))
import machine  # noqa: E402
import packages  # noqa: E402
import stock  # noqa: E402
from toolchain import build, cpython, sources, targets  # noqa: E402

PAGES = {"4k": 4096, "16k": 16384, "64k": 65536}
TRIPLES = {"aarch64": "aarch64-unknown-linux-gnu", "armv7": "armv7-unknown-linux-gnueabihf"}
MODULES = "json,sqlite3,http.server,ctypes,subprocess,threading"
# Modules of CPython's tests.
SUITE_SLICE = ["test_gc"]
SUITE = ["test_capi", "test_gc", "test_threading", "test_subprocess", "test_json", "test_sqlite3"]
# Modules of the embed tests that need no network, no NumPy, and nothing that writes beside /tmp.
SLICE = ["domains", "exactness::peaks"]
FURTHER = ["caps", "exactness", "expected", "forks", "frames", "live", "peak", "timeline"]
# Packages whose programs the whole embed suite runs, beside the compiler.
TOOLS = ["python3-minimal", "grep", "mount", "sed", "tmux", "ncurses-base"]


def embed_tests(root, target, static):
    """Builds the embed tests for the target, beside the device's host; their program."""
    # What the tests write goes to the machine's /tmp: all else is read-only there.
    written = build.cache(root, target, static) / target.triple / "tmp"
    if not written.is_symlink():
        written.parent.mkdir(parents=True, exist_ok=True)
        written.symlink_to("/tmp")
    command = ["cargo", "test", "--quiet", "--locked", "--no-default-features", "--target", target.triple, "--no-run"]
    command += ["--profile", "device", "--test", "embed", "--message-format=json"]
    answer = targets.output_of(*command, env=build.environment(root, target, static, {}))
    built = [json.loads(line) for line in answer.splitlines() if line.startswith("{")]
    return next(each["executable"] for each in built if each.get("target", {}).get("name") == "embed" and each.get("executable"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", required=True, choices=list(TRIPLES))
    parser.add_argument("--pages", choices=list(PAGES), help="of the kernel (default: 16k, and 4k for armv7)")
    parser.add_argument("--python", default="3.11", metavar="VERSION")
    parser.add_argument("--from-source", action="store_true", help="libpython is static, and built from CPython's source")
    parser.add_argument("--slice", action="store_true", help="a few modules of the tests, not all that can run there")
    options = parser.parse_args()
    is_64 = options.target == "aarch64"
    pages = options.pages or ("16k" if is_64 else "4k")
    if pages != "4k" and not is_64:
        parser.error(f"--pages: bad value '{pages}'; expected 4k, the pages of every kernel for armv7")
    version, target = options.python, targets.find(TRIPLES[options.target])
    try:
        build.prepare_tools(target)
    except targets.Missing as missing:
        print(f"skipped: a board: {missing}\n0 passed, 0 failed")
        return 0
    static = options.from_source
    folder = HERE / f"target/devices/board-{options.target}-{version}{'-source' if static else ''}"
    command = ["devices/build", "--target", target.triple, "--python", version]
    command += ["--folder", folder, "--with-pyhostctl", *["--from-source"] * static]
    # The cap matrix needs most modules.
    if is_64:
        command += ["--modules", MODULES, "--packages", packages.numpy(version, options.target)]
    said = targets.output_of(*command)
    print(said, flush=True)
    programs = said.splitlines()[0]
    root = (cpython if static else targets).root_of_target(version, target)
    stock.link(root, target, static, folder)
    tests = embed_tests(root, target, static)

    command = ["devices/tests/checks.py", os.path.relpath(folder, HERE), "--pages", str(PAGES[pages]), "--embed", tests]
    # For armv7 there is no NumPy.
    modules = SLICE if options.slice else ["all"] if is_64 else SLICE + FURTHER
    command += ["--embed-modules", ",".join(modules)]
    command += ["--embed-numpy", packages.numpy(version, options.target)] if is_64 else []
    command += ["--suite", f"{programs}/pyhost", "--suite-modules", ",".join(SUITE_SLICE if options.slice else SUITE)]
    command += [] if options.slice else ["--suite-folder", sources.of_python(version) / "Lib/test"]
    command += ["--with-numpy"] if is_64 else ["--matrix"]
    tools = [] if options.slice else ["gcc", "libc6-dev", f"libpython{version}-dev", *TOOLS]
    passed, failed = machine.run(options.target, pages, version, command, tools)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    targets.run(main, "devices/tests/board.py")
