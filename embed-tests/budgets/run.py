#!/usr/bin/env python3
"""Runs units of work with a budget, some of which take too much, and asks which of them got the error.

    python3 embed-tests/budgets/run.py --pyhost target/release/pyhost --python python3.11 [--slice]

- units.py: 1,000 asyncio tasks, 200 tasks whose work a pool of threads does, 50 threads, 200 generators, and 500 greenlets where gevent is
  pinned, each with a budget of 4 MiB. Ten take more, in small objects, large blocks, one huge block or one call of C. With each of 20
  seeds exactly these ten get MemoryError; and the sum of the units' live bytes is what the process grew by, within four standard errors
  of the estimate and 2% of the growth, which is what tasks and frames have outside of the units.
- app.py: Flask in threads, Flask on gunicorn (sync, gthread, gevent), Django on gunicorn, FastAPI and plain ASGI on uvicorn, behind the middleware
  with 24 MiB a request. Clients ask at the same time for a route that needs little, one that leaks, one that wants 200 MB, one that builds 3 million
  strings. The first two are all 200, the others all 503 with Retry-After, by a process that goes on.
- tasks.py: the same functions as tasks of Celery (prefork, threads) and dramatiq. The first two all end well, the others all by their budget.

--requests N: of a route that needs little N for each of four clients (100), a tenth and a twentieth of the two that take much.
--slice makes 2 runs of each kind, and asks two servers and one queue. Packages are installed, pinned, below target/. The last line is
`N passed, N failed`. Exit status: 0; 1 with what failed; 2 if it cannot run.
"""

import argparse
import collections
import http.client
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "environments"))

import make  # noqa: E402

KINDS = ("tasks", "pool", "threads", "generators", "greenlets")
GUNICORN = ["-m", "gunicorn", "-b", "127.0.0.1:{port}", "-w", "1", "--timeout", "60", "-k"]
UVICORN = ["-m", "uvicorn", "--port", "{port}", "--log-level", "critical"]
# The environment of each server, its command, and what is behind a route's name.
SERVERS = {
    "flask in threads": ("servers", [str(HERE / "app.py"), "{port}"], [""]),
    "FastAPI on uvicorn": ("service", [*UVICORN, "app:fastapi_app"], ["", "/async"]),
    "ASGI on uvicorn": ("servers", [*UVICORN, "app:asgi_app"], [""]),
    "Flask on gunicorn sync": ("servers", [*GUNICORN, "sync", "app:flask_app"], [""]),
    "Flask on gunicorn gthread": ("servers", [*GUNICORN, "gthread", "--threads", "8", "app:flask_app"], [""]),
    "Flask on gunicorn gevent": ("servers", [*GUNICORN, "gevent", "app:flask_app"], [""]),
    "Django on gunicorn gthread": ("servers", [*GUNICORN, "gthread", "--threads", "8", "app:django_app"], [""]),
}
QUEUES = ("dramatiq", "celery-threads", "celery-prefork")
SLICE = ["flask in threads", "Django on gunicorn gthread"]
# Standard errors, and the share of the growth that lies outside of the units.
ERRORS, OUTSIDE = 4, 0.02
# Of the requests of each client, those for a route; and whether it takes more than its budget.
ROUTES = {"small": (1, False), "leak": (1, False), "huge": (0.1, True), "strings": (0.05, True)}
CLIENTS = 4


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    parser.add_argument("--seeds", type=int, default=20, metavar="N", help="runs of each kind (20)")
    parser.add_argument("--requests", type=int, default=100, metavar="N", help="of each client for a route (100)")
    parser.add_argument("--slice", action="store_true", help="2 runs of each kind, two servers, one queue")
    options = parser.parse_args(arguments)
    if options.slice:
        options.seeds = 2
    return options


def environment(options, name):
    """The variables of a run with the packages of an environment."""
    packages = make.site_packages(make.environment(options.python, name))
    return {**make.clean_environment(), "PYTHONPATH": f"{packages}{os.pathsep}{HERE}", "PYTHONDONTWRITEBYTECODE": "1"}


def units(options, kind, seed, variables):
    """Runs units of a kind; what is wrong, or None."""
    command = [options.pyhost.resolve(), HERE / "units.py", kind, str(seed)]
    answer = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    lines = answer.stdout.splitlines()
    if answer.returncode != 0 or not lines:
        return f"status {answer.returncode}: {answer.stderr[-500:]}"
    found = json.loads(lines[-1])
    if found["failed"] != found["greedy"] or found["others"]:
        return f"expected errors in {found['greedy']}, found them in {found['failed']}; {found['others'][:3]}"
    bound = ERRORS * found["error"] + OUTSIDE * found["growth"]
    if abs(found["sum"] - found["growth"]) > bound:
        return f"the units have {found['sum']}, the process grew by {found['growth']}; expected at most {bound:.0f} between them"
    return None


def ask(port, path):
    """The status of a request, and whether it may be tried again; None without an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.getheader("Retry-After") is not None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def served(options, name, folder):
    """Asks a server; what is wrong, or None."""
    packages, command, suffixes = SERVERS[name]
    port = make.free_port()
    command = [options.pyhost.resolve(), *[part.format(port=port) for part in command]]
    log = folder / "log"
    with open(log, "wb") as out:
        process = subprocess.Popen(command, env=environment(options, packages), cwd=folder, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=out)
    answers, counts = collections.Counter(), {route: int(share * options.requests) for route, (share, _) in ROUTES.items()}

    def client(number):
        asked = [route for route, count in counts.items() for _ in range(count)]
        for index in range(len(asked)):
            route = asked[index * 37 % len(asked)]
            suffix = suffixes[(index + number) % len(suffixes)]
            answers[route, ask(port, f"/{route}{suffix}")] += 1

    try:
        for _ in range(300):
            if process.poll() is not None or ask(port, f"/small{suffixes[0]}"):
                break
            time.sleep(0.1)
        clients = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
        is_alive = process.poll() is None
    finally:
        process.terminate()
        process.wait()
    expected = {(route, (503, True) if is_greedy else (200, False)): CLIENTS * counts[route]
                for route, (_, is_greedy) in ROUTES.items()}
    if not is_alive or answers != expected:
        last = log.read_text(encoding="utf-8", errors="replace")[-300:]
        return f"{'' if is_alive else 'the server ended; '}{dict(answers)}; {last}"
    return None


def queued(options, name, variables):
    """Runs the tasks of a queue; what is wrong, or None."""
    command = [options.pyhost.resolve(), HERE / "tasks.py", name, str(CLIENTS * options.requests)]
    answer = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=3600)
    expected = {f"{route}: {'out of budget' if is_greedy else 'done'}": int(share * CLIENTS * options.requests)
                for route, (share, is_greedy) in ROUTES.items()}
    lines = answer.stdout.splitlines()
    if answer.returncode != 0 or not lines or json.loads(lines[-1]) != expected:
        return f"status {answer.returncode}: {lines[-1:]} {answer.stderr[-500:]}"
    return None


def main(arguments=None):
    options = parse(arguments)
    try:
        variables = environment(options, "servers")
    except (make.BadName, make.Unmakable) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    passed = failed = 0

    def note(name, wrong):
        nonlocal passed, failed
        passed, failed = passed + (not wrong), failed + bool(wrong)
        if wrong:
            print(f"failed: {name}: {wrong}", flush=True)

    for kind in KINDS:
        for seed in range(options.seeds):
            note(f"{kind}, seed {seed}", units(options, kind, seed, variables))
        print(f"{kind}: {options.seeds} seeds", flush=True)
    for name in SLICE if options.slice else SERVERS:
        with tempfile.TemporaryDirectory() as folder:
            note(name, served(options, name, pathlib.Path(folder)))
        print(name, flush=True)
    for name in QUEUES[:1] if options.slice else QUEUES:
        note(name, queued(options, name, variables))
        print(name, flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
