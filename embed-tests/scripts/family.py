"""A tree of 30 descendants of all kinds, and what pyhostctl says of it beside what the kernel does.

    pyhost --live=DIR family.py PYHOSTCTL

Prints `ok`, or fails.
"""

import json
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

MIB = 1 << 20
PYHOST = [sys.executable, "-c"]
HOLDS = "import sys, time; kept = bytearray(int(sys.argv[1]) << 20); print(flush=True); time.sleep(600)"


def hold(ready, mebibytes):
    kept = [bytes(MIB) for _ in range(mebibytes)]
    ready.send(len(kept))
    time.sleep(600)


def hold_and_start(ready, mebibytes):
    child = multiprocessing.get_context("fork").Process(target=hold, args=(ready, mebibytes), daemon=False)
    child.start()
    hold(ready, mebibytes)


def parents():
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            found[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            pass
    return found


def descendants():
    found, line, all_parents = [], [os.getpid()], parents()
    while line:
        found += line
        line = [pid for pid, parent in all_parents.items() if parent in line]
    return found


def proportional(pid):
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


def ask(*words):
    return json.loads(subprocess.check_output([sys.argv[1], "tree", "--json", *words, str(os.getpid())]))


def main():
    own = bytearray(40 * MIB)
    receives, ready = multiprocessing.Pipe(duplex=False)
    killed = None
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        for number in range(4):
            work = hold_and_start if method == "fork" and number else hold
            process = context.Process(target=work, args=(ready, 2 + number))
            process.start()
            killed = killed or process
    programs = [subprocess.Popen([*PYHOST, HOLDS, "20"], stdout=subprocess.PIPE) for _ in range(4)]
    shell = ["sh", "-c", f'"{sys.executable}" -c "{HOLDS}" 10; true']
    programs += [subprocess.Popen(shell, stdout=subprocess.PIPE) for _ in range(3)]
    programs += [subprocess.Popen(["sleep", "600"]) for _ in range(3)]
    for _ in range(15):
        receives.recv()
    for program in programs[:7]:
        program.stdout.readline()
    os.kill(killed.pid, signal.SIGKILL)
    killed.join()

    expected = {pid: proportional(pid) for pid in descendants()}
    seen = ask()
    rows = {row["pid"]: row for row in seen["processes"]}
    running = {pid: row for pid, row in rows.items() if not row["ended"] and not row["command"].startswith("pyhostctl ")}
    assert running.keys() == expected.keys(), (sorted(running), sorted(expected))
    assert len(running) >= 30, len(running)
    assert rows[killed.pid]["ended"].startswith("was killed"), rows[killed.pid]
    found, all_parents = sum(row["memory"]["pss_bytes"] for row in running.values()), parents()
    total = sum(expected.values())
    assert abs(found - total) < total / 20, (found, total)
    assert abs(seen["sum"]["pss_bytes"] - total) < total / 20, (seen["sum"], total)
    assert all(row["parent"] == all_parents[pid] for pid, row in running.items())
    # Each block once: a forked child has what it added, and what the first process has is the first's alone.
    live = sum(row["live_bytes"] or 0 for row in running.values())
    assert live == seen["sum"]["live_bytes"] and live < total, (live, total)
    assert running[os.getpid()]["live_bytes"] > len(own)
    forks = [row for row in running.values() if row["parent"] == os.getpid() and row["role"] == "fork"]
    assert forks and all(MIB < row["live_bytes"] < 12 * MIB for row in forks), forks
    assert {row["role"] for row in running.values()} == {"host", "fork", "program"}

    # A process that ends while the command looks on.
    code = "import sys; kept = bytearray(60 << 20); print(flush=True); sys.stdin.read()"
    brief = subprocess.Popen([*PYHOST, code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    brief.stdout.readline()
    threading.Timer(2, brief.stdin.close).start()
    watched = ask("--for", "8s")
    assert next(row for row in watched["processes"] if row["pid"] == brief.pid)["ended"] == "has ended"
    assert watched["most"]["live"]["bytes"] > watched["sum"]["live_bytes"] + 50 * MIB, watched["most"]
    print("ok")


if __name__ == "__main__":
    try:
        main()
    finally:
        for pid in descendants()[1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
