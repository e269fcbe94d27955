"""Runs growing scripts in a control group with a memory limit, without a cap and with `--cap auto`.

    python3 embed-tests/cgroup_limit/run.py --host PYHOST [--host PYHOST ...] [--limit MIB] [--site FOLDER]

Without a cap the kernel must stop what grows past the limit: that shows that the limit is at work. It kills it, or, on
a slow machine, takes the pages of the program's own files away as fast as they are read again. With `--cap auto`
the same script must catch its MemoryError and finish, or end with a traceback of one, and never be killed. Groups are
made of each interface whose memory controller this system has, below the caller's own group, and are removed again.

Exit status 0 if all is so, 1 if not, 2 for a bad command line; where no group can be made 0, and the last line begins
with `skipped: `.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

from groups import MIB, Group, Unavailable, clean_environment

SCRIPTS = pathlib.Path(__file__).resolve().parent / "scripts"
SHARED = "until_refused.py"
KILLED = -9
STALLED = "stalled at the limit"
# How long a run without a cap may take, in seconds, before it counts as stalled.
PATIENCE = 120
MEMORY_ERROR = re.compile(r"(\w+\.)*_?(Array)?MemoryError(:|$)")
COLUMNS = ("host", "cgroup", "script", "--cap", "end", "kills", "peak MiB", "")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", action="append", required=True, type=pathlib.Path, metavar="PYHOST",
                        help="a host; repeatable")
    parser.add_argument("--limit", type=int, default=128, metavar="MIB", help="the group's limit (128)")
    parser.add_argument("--site", default="", metavar="FOLDER", help="where NumPy is; its script is left out without")
    parser.add_argument("--scripts", nargs="+", metavar="NAME", help="these scripts (default: all)")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="for one run (120)")
    options = parser.parse_args(arguments)
    for host in options.host:
        if not host.is_file():
            parser.error(f"{host}: no such executable")
    return options


def run_in(group, options, host, script, capped, files):
    """Returns (end, kills, peak) of one script in a group of its own."""
    live = f"{files}/live"
    command = [str(host.absolute()), *(["--cap", "auto"] if capped else [f"--live={live}"]), str(SCRIPTS / script)]
    own = {"PYTHONPATH": options.site, "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1",
           "CGROUP_LIMIT_FILES": files, "CGROUP_LIMIT_MIB": str(options.limit)}
    process = subprocess.Popen(command, env={**clean_environment(), **own}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace", preexec_fn=group.enter)
    try:
        stdout, stderr = process.communicate(timeout=options.timeout if capped else min(options.timeout, PATIENCE))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        peak = group.peak()
        is_stalled = not capped and peak is not None and peak >= (options.limit - 1) * MIB
        return STALLED if is_stalled else "timed out", group.kills(), peak
    end, kills = end_of(process.returncode, stdout, stderr), group.kills()
    if end == "killed" and kills:
        listed = subprocess.run([host.with_name("pyhostctl"), "--dir", live, "killed"], stdout=subprocess.PIPE, text=True, check=True).stdout
        row = next((line for line in listed.splitlines() if line.split()[0] == str(process.pid)), "")
        if f"out-of-memory kills in its control group since it started: {kills}" not in row:
            end = f"killed, and `pyhostctl killed` says {row!r}"
    return end, kills, group.peak()


def end_of(status, stdout, stderr):
    """Returns how a run ended: its last line, "killed", "MemoryError", or what else it was."""
    last = (stdout.strip().splitlines() or [""])[-1]
    said = (stderr.strip().splitlines() or ["nothing on stderr"])[-1].strip()[:100]
    if status == KILLED:
        return "killed"
    if status == 0 and last.endswith("; finished"):
        return last
    if status == 1 and MEMORY_ERROR.match(said):
        return "MemoryError"
    return f"status {status}: {said}"


def is_right(script, capped, end, kills):
    """Says whether a run ended as it must."""
    if script == "page_cache.py":
        return end.endswith("; finished") and not kills
    if not capped:
        return end == STALLED or end == "killed" and kills > 0
    return not kills and end == ("MemoryError" if script == "uncaught.py" else "caught; finished")


def rows_of(version, options, files):
    names = sorted(path.name for path in SCRIPTS.glob("*.py") if path.name != SHARED)
    if options.scripts:
        names = [name for name in names if name.removesuffix(".py") in options.scripts]
    for host in options.host:
        for script in names:
            if "numpy" in script and not options.site:
                continue
            for capped in (False, True):
                with Group(version, options.limit * MIB) as group:
                    end, kills, peak = run_in(group, options, host, script, capped, files)
                right = is_right(script, capped, end, kills)
                yield (str(host), f"v{version}", script.removesuffix(".py"), "auto" if capped else "-", end, str(kills),
                       f"{peak / MIB:.1f}" if peak is not None else "-", "" if right else "WRONG")


def table(rows):
    widths = [max(map(len, cells)) for cells in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip() for cells in rows)


def tell(columns, rows_of):
    """Makes the rows of each version by `rows_of(version)` and prints them; returns the exit status."""
    rows, reasons = [], []
    for version in (1, 2):
        try:
            rows += rows_of(version)
        except Unavailable as error:
            reasons.append(str(error))
    if not rows:
        print("skipped: " + "; ".join(reasons))
        return 0
    print(table([columns, *rows]))
    for reason in reasons:
        print("not tried: " + reason)
    wrong = sum(row[-1] != "" for row in rows)
    print(f"\n{len(rows) - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


def main(arguments):
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="cgroup-limit-", dir="/var/tmp") as files:
        return tell(COLUMNS, lambda version: rows_of(version, options, files))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
