"""Starts the command of a wheel many times, several at once, while other libraries are preloaded.

    starts.py --pyhost PYHOST [--starts 200] [--at-once 8]

PYHOST is the launcher of target/inside/py-X.Y/bin or of an installed wheel. Each start must run hosted, with the
preloaded library in place for the script, or end with one line and status 1, as with a sanitizer, which must be the
first library. The libraries are Debian's, unpacked below target/. Prints a line a library; status 0 if all is well.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGES = {"jemalloc": ("libjemalloc2", "libjemalloc.so.2"),
            "tcmalloc": ("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
            "eatmydata": ("libeatmydata1", "libeatmydata.so")}
CODE = """
import os, pyhost, subprocess, sys
kept = [bytearray(n) for n in range(2000)]
stats = pyhost.memory_stats()
assert stats["accounts"]["obj"]["live_bytes"] > 2_000_000, stats
assert os.environ.get("LD_PRELOAD", "") == sys.argv[1], os.environ.get("LD_PRELOAD")
child = subprocess.run([sys.executable, "-c", "import pyhost; print(pyhost.active)"], stdout=subprocess.PIPE)
assert child.stdout == b"True\\n", child
print("hosted")
"""
SECONDS = 300


def libraries(pyhost, folder):
    """The values of LD_PRELOAD by name, and whether a start with them is hosted."""
    packages = [package for package, _ in PACKAGES.values()]
    unpacked = subprocess.run([ROOT / "tools/debian-programs", *packages], check=True, stdout=subprocess.PIPE)
    root = pathlib.Path(unpacked.stdout.decode().strip())
    yield "none", "", True
    for name, (_, file) in PACKAGES.items():
        yield name, str(next(root.rglob(file))), True
    yield "jemalloc and eatmydata", ":".join(str(next(root.rglob(PACKAGES[name][1]))) for name in ("jemalloc", "eatmydata")), True
    own = pathlib.Path(pyhost).resolve().parent.parent / "lib/pyhost/libpyhost.so"
    second = folder / "libpyhost.so"
    shutil.copy(own, second)
    yield "a second pyhost", str(second), True
    asan = subprocess.run(["cc", "-print-file-name=libasan.so"], stdout=subprocess.PIPE).stdout.decode().strip()
    yield "AddressSanitizer", os.path.realpath(asan), False


def start(pyhost, preload, is_hosted):
    """What is wrong with a start; None if nothing is."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYHOST", "PYTHON"))}
    if preload:
        environment["LD_PRELOAD"] = preload
    done = subprocess.run([pyhost, "-c", CODE, preload], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", timeout=SECONDS)
    if is_hosted:
        good = (done.returncode, done.stdout, done.stderr) == (0, "hosted\n", "")
    else:
        good = (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    return None if good else f"status {done.returncode}: {done.stdout!r} {done.stderr[-400:]!r}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pyhost", required=True)
    parser.add_argument("--starts", type=int, default=200, help="of each library (%(default)s)")
    parser.add_argument("--at-once", type=int, default=8, help="(%(default)s)")
    arguments = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="pyhost-starts-") as folder, \
            concurrent.futures.ThreadPoolExecutor(arguments.at_once) as threads:
        for name, preload, is_hosted in libraries(arguments.pyhost, pathlib.Path(folder)):
            runs = [threads.submit(start, arguments.pyhost, preload, is_hosted) for _ in range(arguments.starts)]
            said = [run.result() for run in runs]
            bad = [text for text in said if text is not None]
            wrong += len(bad)
            how = "hosted" if is_hosted else "told in a line"
            print(f"{name}: {len(said) - len(bad)} of {len(said)} {how}", *bad[:1], sep="\n  ", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
