"""A master and three workers that it forks: `pyhostctl lines --tree`, `leaks --tree` and the page of the master, with each block once.

    pyhost --live=DIRECTORY --lines=4K worker_lines.py PYHOSTCTL DIRECTORY

Prints "ok", or what is wrong.
"""

import json
import os
import subprocess
import sys
import time

CTL, DIRECTORY = sys.argv[1:]
MIB = 1 << 20


def kept(mebibytes):
    return [bytearray(1000) for _ in range(mebibytes * MIB // 1057)]


def of_worker(mebibytes):
    return [bytearray(1000) for _ in range(mebibytes * MIB // 1057)]


def ctl(*words, ends=0):
    done = subprocess.run([CTL, "--dir", DIRECTORY, "--dir", DIRECTORY + "/none", *words], stdout=subprocess.PIPE, text=True)
    if done.returncode != ends:
        sys.exit(f"{words}: status {done.returncode}")
    return done.stdout


def serve(number, said):
    own = of_worker(4 * number)
    if number == 3:
        before_fork.clear()  # what it was forked with is its master's still
    os.write(said, b".")
    while True:
        time.sleep(0.02)
        if number == 2:
            own += of_worker(1)


before_fork = kept(20)
reader, writer = os.pipe()
workers = []
for number in range(3):
    workers.append(os.fork())
    if not workers[-1]:
        serve(number + 1, writer)
for _ in workers:
    os.read(reader, 1)
master = str(os.getpid())
try:
    rows = json.loads(ctl("lines", "--tree", "--json", master))["rows"]
    lines = {row["line"]: row for row in rows if row.get("file") == __file__}
    first, second = (lines[code.co_firstlineno + 1] for code in (kept.__code__, of_worker.__code__))
    # A block takes up to a tenth more than what was asked for; were it counted in each process, they would be 80 MiB.
    if not 20 * MIB - first["error_bytes"] < first["bytes"] < 22 * MIB + first["error_bytes"]:
        sys.exit(f"kept before the fork: {first}")
    if second["bytes"] < 24 * MIB - second["error_bytes"]:
        sys.exit(f"of the workers: {second}")
    threads = {row["name"].split()[0] for row in json.loads(ctl("lines", "--tree", "--by", "thread", "--json", master))["rows"]}
    if not {str(pid) for pid in workers} <= threads:
        sys.exit(f"threads of {workers}: {threads}")
    for line in ctl("leaks", "--tree", "--for", "4s", "--json", master, ends=24).splitlines():
        leaks = json.loads(line)
        is_leaking = int(leaks["process"].split()[0]) == workers[1]
        if is_leaking != bool(leaks["rising"]):
            sys.exit(f"leaks: {line}")
    page = ctl("html", master)
    if not all(f"{pid}</td>" in page for pid in workers):
        sys.exit("the page lacks a worker")
finally:
    for pid in workers:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
print("ok")
