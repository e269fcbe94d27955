#!/usr/bin/env python3
"""How full a region is when it refuses the first request: full.py HOST [SIZE ...].

A row a program, a number of threads and a size: what is live then, in percent of the size less what is committed when the script
starts; and whether the program goes on. Then a server with a thread for each request: how many of 60 requests that keep memory
and of 60 that keep none are answered, and whether it works when it has freed all.
"""

import pathlib
import re
import subprocess
import sys
import urllib.request

FILL = pathlib.Path(__file__).with_name("fill.py")
KINDS = ("lists", "dicts", "byte_strings", "arrays", "malloc", "sqlite", "mixed")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# The least that a program must come to, by the number of its threads. Blocks of C lie in pages of each thread's own.
LEAST = {1: 0.78, 20: 0.7}
LEAST_OF_C = 0.4
OF_C = ("malloc", "sqlite")
FULL = re.compile(r"region of .* is full: .* with ([\d.]+) (\w+) live")


def measure(host, size, kind, threads):
    """Live bytes at the first refusal, as a part of what the region has for the script; None if there was none."""
    run = subprocess.run([host, "--region", size, FILL, kind, str(threads)], capture_output=True, text=True, timeout=120)
    first = FULL.search(run.stderr)
    committed, live = map(int, run.stdout.split()[:2])
    is_alive = run.returncode == 0 and "alive 100" in run.stdout
    if not first:
        return None, is_alive, run.stderr
    full = float(first[1]) * UNITS[first[2]] - live
    return full / (int(size[:-1]) * UNITS["MiB"] - committed), is_alive, run.stderr


def answers(port, path):
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10).status == 200
    except OSError:
        return False


def serve(host, size):
    """Requests that were answered: of 60 that keep memory, of 60 that keep none, and of 10 after all was freed."""
    server = subprocess.Popen([host, "--region", size, FILL.with_name("keeping_server.py")], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    try:
        port = server.stdout.readline().strip()
        full = [(answers(port, "/"), answers(port, "/health")) for _ in range(60)]
        # A request may be refused while the thread of the one before it ends: a client asks again.
        any(answers(port, "/free") for _ in range(3))
        return *map(sum, zip(*full)), sum(answers(port, "/") for _ in range(10))
    finally:
        server.kill()
        server.wait()


def main(host, sizes):
    failed = 0
    for size in sizes:
        for threads in (1, 20):
            for kind in KINDS:
                part, is_alive, error = measure(host, size, kind, threads)
                told = "no refusal" if part is None else f"{part:6.1%}"
                print(f"{size:>5} {threads:3} threads {kind:14} {told:>10} {'goes on' if is_alive else 'ENDS'}", flush=True)
                least = min(LEAST[threads], LEAST_OF_C) if kind in OF_C else LEAST[threads]
                if part is None or not is_alive or part < least:
                    failed += 1
                    print(error[-500:])
        kept, health, after = serve(host, size)
        print(f"{size:>5} server: {kept} of 60 kept, /health {health} of 60, after /free {after} of 10", flush=True)
        failed += kept < 20 or health < 60 or after < 10
    print(f"{failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:] or ["24M", "64M"]))
