"""Changes a control group's limit while a process with `--cap auto` grows and is refused in it, again and again; or four with `--cap tree=auto`.

    python3 embed-tests/cgroup_limit/changes.py --host PYHOST [--runs N] [--seconds N]

Each process keeps a MiB a step and drops half of them at each MemoryError. The limit is 256 MiB, then 384, then, while the processes
hold 100 MiB, 192; each for two seconds, the first for twice as long. What the group is charged must pass nine tenths of each limit in half of
that time, and never the limit, and the kernel must kill nobody. On an emulated machine --seconds must be more.

Exit status 0 if all is so, 1 if not, 2 for a bad command line; where no group can be made 0, and the last line begins with `skipped: `.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from groups import MIB, Group, clean_environment
from run import tell

COLUMNS = ("cgroup", "processes", "limit MiB", "seconds to 0.9 of it", "most charged MiB", "--cap auto says", "kills", "")
SCRIPT = """
import os, pathlib, pyhost, signal, subprocess, sys, time
processes, first = int(sys.argv[2]), os.getpid()
if processes > 1 and len(sys.argv) == 3:
    subprocess.Popen([sys.executable, *sys.argv, "child"])
    for _ in range(2, processes):
        if os.getpid() == first:
            os.fork()
most, kept, holds = 1 << 40, [], False
def turn(*_):
    global holds
    holds = not holds
signal.signal(signal.SIGUSR1, turn)
while True:
    try:
        if holds and len(kept) >= 100 // processes:
            del kept[100 // processes:]
            time.sleep(0.01)
        else:
            kept.append(b"1" * (1 << 20))
            time.sleep(0.001)
    except MemoryError:
        del kept[len(kept) // 2:]
        said = pathlib.Path(f"{sys.argv[1]}{os.getpid()}")
        said.write_text(str(pyhost.get_cap() >> 20))
        said.replace(sys.argv[1])
"""


def charged(group):
    """Returns the anonymous memory that the group is charged."""
    name = "anon" if group.version == 2 else "total_rss"
    lines = (group.folder / "memory.stat").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.split()[0] == name)


def watched(group, limit, seconds):
    """Returns after what time nine tenths of the limit were charged, and the most that was."""
    begin, reached, most = time.monotonic(), None, 0
    while time.monotonic() < begin + seconds:
        most = max(most, charged(group))
        if reached is None and most >= limit * MIB * 0.9:
            reached = time.monotonic() - begin
        time.sleep(0.005)
    return reached, most


def rows_of(version, options, folder):
    for processes, cap in [(1, "auto"), (4, "tree=auto")] * options.runs:
        said, script = folder / "said", folder / "grows.py"
        said.unlink(missing_ok=True)
        script.write_text(SCRIPT, encoding="ascii")
        with Group(version, 256 * MIB) as group:
            command = [options.host.absolute(), "--cap", cap, script, said, str(processes)]
            process = subprocess.Popen(
                command, env=clean_environment(), stderr=subprocess.DEVNULL, preexec_fn=group.enter, start_new_session=True)
            try:
                for limit in (256, 384, 192):
                    if limit == 192:
                        os.killpg(process.pid, signal.SIGUSR1)
                        time.sleep(1)
                    group.change(limit * MIB)
                    if limit == 192:
                        os.killpg(process.pid, signal.SIGUSR1)
                    reached, most = watched(group, limit, options.seconds * (1 + (limit == 256)))
                    text, kills = said.read_text(encoding="ascii") if said.exists() else "-", group.kills()
                    is_soon = reached is not None and (limit == 256 or reached <= options.seconds / 2)
                    is_right = is_soon and most <= limit * MIB and text == str(limit) and not kills
                    yield (f"v{version}", str(processes), str(limit), "-" if reached is None else f"{reached:.2f}", f"{most / MIB:.0f}", text, str(kills),
                           "" if is_right and len(group.processes()) == processes else "WRONG")
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", required=True, type=pathlib.Path, metavar="PYHOST", help="the host")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="of each version (1)")
    parser.add_argument("--seconds", type=float, default=2, metavar="N", help="for which a limit stays (2)")
    options = parser.parse_args(arguments)
    if not options.host.is_file():
        parser.error(f"{options.host}: no such executable")
    with tempfile.TemporaryDirectory() as folder:
        return tell(COLUMNS, lambda version: rows_of(version, options, pathlib.Path(folder)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
