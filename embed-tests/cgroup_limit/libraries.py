"""Runs libraries with allocators of their own in a control group with a memory limit, with `--cap auto`.

    python3 embed-tests/cgroup_limit/libraries.py --host PYHOST --site FOLDER [--runs N | --slice]

Each of polars, pyarrow with its three pools, and a script that maps memory itself grows by steps from 256 KiB to 8 MiB
until it is refused. It must catch a MemoryError, drop all and finish; no process may be killed by the kernel, nor
end with status 53. Where the library maps past malloc, the balance sheet must give at least 90% of what is mapped
and resident to the file of that library. FOLDER has polars and pyarrow; without it the script alone runs.

Exit status 0 if all is so, 1 if not, 2 for a bad command line; where no group can be made 0, and the last line begins
with `skipped: `.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from groups import MIB, Group, clean_environment
from run import end_of, tell

SCRIPT = pathlib.Path(__file__).resolve().parent / "libraries" / "growing.py"
# A kind, and what the name of the file begins with that maps for it; none for malloc.
KINDS = {"polars": ("_polars", "polars"), "system": (), "jemalloc": ("libarrow",), "mimalloc": ("libarrow",),
         "mmap": ("mmap.", "libpython", "python")}
SMALLEST, LARGEST = 256 << 10, 8 << 20
COLUMNS = ("kind", "step KiB", "end", "kills", "peak MiB", "mapped MiB", "of it the library's", "")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", required=True, type=pathlib.Path, metavar="PYHOST", help="the host")
    parser.add_argument("--site", default="", metavar="FOLDER", help="where polars and pyarrow are")
    parser.add_argument("--limit", type=int, default=512, metavar="MIB", help="the group's limit (512)")
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="runs of each kind, of growing steps (20)")
    parser.add_argument("--slice", action="store_true", help="2 runs of each kind")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="these kinds (default: all)")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="for one run (120)")
    options = parser.parse_args(arguments)
    if not options.host.is_file():
        parser.error(f"{options.host}: no such executable")
    if options.slice:
        options.runs = 2
    return options


def steps(runs, largest=LARGEST, multiple=64 << 10):
    """Returns the bytes of each run's steps, from the smallest to the largest, each a multiple of 64 KiB or as said."""
    ratio = (largest / SMALLEST) ** (1 / max(runs - 1, 1))
    return [round(SMALLEST * ratio ** run / multiple) * multiple for run in range(runs)]


def run_one(group, options, kind, step, folder):
    told = pathlib.Path(folder) / "told.json"
    told.unlink(missing_ok=True)
    command = [str(options.host.absolute()), "--cap", "auto", str(SCRIPT), kind, str(step), str(told)]
    own = {"PYTHONPATH": options.site, "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(command, env={**clean_environment(), **own}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace", preexec_fn=group.enter)
    try:
        stdout, stderr = process.communicate(timeout=options.timeout)
        end = end_of(process.returncode, stdout, stderr)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        end = "timed out"
    try:
        return end, json.loads(told.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return end, None  # the script did not come to tell, or not to the end


def share(kind, told):
    """Returns the resident bytes that are mapped, and the part of them that the balance sheet gives to the library."""
    bytes_of = {row["library"]: row["resident_bytes"] for row in told["mapped"]}
    own = sum(size for name, size in bytes_of.items() if name.startswith(KINDS[kind]))
    total = sum(bytes_of.values())
    return total, own / total if total else 0.0


def is_right(kind, end, kills, told):
    """Says whether a run ended as it must."""
    if kills or not end.endswith("; finished") or told is None:
        return False
    return not KINDS[kind] or share(kind, told)[1] >= 0.9


def row_of(kind, step, end, kills, peak, told):
    total, own = share(kind, told) if told and KINDS[kind] else (0, 0.0)
    return (kind, str(step >> 10), end, str(kills), f"{peak / MIB:.1f}" if peak is not None else "-",
            f"{total / MIB:.1f}" if total else "-", f"{own:.1%}" if total else "-",
            "" if is_right(kind, end, kills, told) else "WRONG")


def rows_of(version, options, folder):
    for kind in options.kinds:
        if kind != "mmap" and not options.site:
            continue
        for step in steps(options.runs):
            with Group(version, options.limit * MIB) as group:
                end, told = run_one(group, options, kind, step, folder)
                row = row_of(kind, step, end, group.kills(), group.peak(), told)
            print("\t".join(row), file=sys.stderr, flush=True)
            yield row


def main(arguments):
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="cgroup-libraries-") as folder:
        return tell(COLUMNS, lambda version: rows_of(version, options, folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
