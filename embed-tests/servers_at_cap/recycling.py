#!/usr/bin/env python3
"""Runs servers with a leak under --recycle-at, and counts the requests that a worker's replacement costs.

    recycling.py --pyhost target/release/pyhost --python python3.11 [--requests N] [--servers NAME ...]

Four clients ask a route that keeps a hundred kilobytes, of a server with one worker, which its master replaces (uvicorn has two). Each request must be
answered 200, but for those that uvicorn drops at SIGTERM: of each client one at most. Each worker must end by its own line `recycled by SIGTERM`, and with status 0; of 2,000 requests at least one must:
a worker that never waits for work goes on.

The last line is `N passed, N failed`, in servers. Exit status: 0; 1 with what failed; 2 for a bad command line.
"""

import argparse
import pathlib
import re
import sys
import tempfile

import run
from run import make

LIMIT, KEPT = "48M", 100_000
RECYCLED = re.compile(r"^pyhost(?:\[\d+\])?: process (\d+) recycled by SIGTERM: ", re.MULTILINE)
# With a master that replaces a worker.
SERVERS = ("gunicorn-sync", "gunicorn-gthread", "gunicorn-gevent", "uvicorn")


def one(name, options, packages):
    """Returns one run's failures, and what it was like."""
    if name == "uvicorn":
        cap, command = run.SERVERS[name]
        run.SERVERS[name] = cap, [*command, "--workers", "2"]
    run.REQUESTS, run.ENDS = options.requests, options.requests
    with tempfile.TemporaryDirectory(prefix="servers-") as folder:
        server = run.Server(name, options, packages, pathlib.Path(folder), ("--recycle-at", LIMIT), KEPT)
        try:
            if not server.has_started():
                return ["it did not start:", *server.text().splitlines()[-20:]], ""
            server.load()
            healthy = server.is_healthy()
        finally:
            server.stop()
        text = server.text()
    if options.logs:
        options.logs.mkdir(parents=True, exist_ok=True)
        (options.logs / f"{name}.log").write_text(text)
    recycled, ends = RECYCLED.findall(text), run.WORKER_END.findall(text)
    failures = [found.strip()[:160] for found in sorted(set(run.BAD.findall(text)))]
    failures += [f"a worker ended with {end}" for end in map("".join, ends) if end != "0"]
    # At SIGTERM uvicorn closes connections whose request it has not read.
    lost = run.CLIENTS * len(recycled) if name == "uvicorn" else 0
    if not set(server.answers) <= {200, None} or server.answers.get(None, 0) > lost:
        failures.append(f"not all were answered 200: {server.answers}")
    if len(recycled) < max(1, options.requests // 2000) or len(set(recycled)) < len(recycled):
        failures.append(f"processes that were recycled: {' '.join(recycled) or 'none'}")
    if not healthy:
        failures.append("/health was not answered")
    return failures, f"{server.answers.get(200, 0)} answers 200, {server.answers.get(None, 0)} none, {len(recycled)} workers recycled, silence {server.silence:.1f} s"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    parser.add_argument("--packages", type=pathlib.Path, help="site-packages with the servers (default: made)")
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=SERVERS, metavar="NAME", help=", ".join(SERVERS))
    parser.add_argument("--requests", type=int, default=4000, help="of each server (4000)")
    parser.add_argument("--logs", type=pathlib.Path, help="a folder that keeps the servers' output")
    options = parser.parse_args(arguments)
    packages = options.packages or make.site_packages(make.environment(options.python, "servers"))
    failed = 0
    for name in options.servers:
        failures, facts = one(name, options, packages)
        print(f"{name}: {'FAILED' if failures else 'ok'}: {facts}", *failures, sep="\n    ", flush=True)
        failed += bool(failures)
    print(f"{len(options.servers) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
