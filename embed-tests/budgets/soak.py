#!/usr/bin/env python3
"""Runs a server that leaks for ten minutes, with budgets and recycling, while everything looks on, and asks what drifts or stays.

    python3 embed-tests/budgets/soak.py --pyhost target/release/pyhost --python python3.11 [--minutes 10]

app.py's Flask on gunicorn (gthread, two workers), with a budget for each request, `--recycle-at 96M`, `--live` and `--service`. Four clients ask
for a route that needs little, one that leaks, and two that pass their budget. `pyhostctl top` in a terminal, `pyhostctl serve` and Debian's
Prometheus, which scrapes it each second, look on. It fails if

- a route that needs little or leaks is not answered with 200, or one that takes too much with 503;
- no worker was recycled; or the master's live bytes, or what is resident of `serve` or `top`, grow by more than 4 MiB after the first third;
- Prometheus has more series of a metric than the master's and one for each worker's place, but one for a worker that starts while another ends;
- when the server has ended, a host is in the next scrape, or a file in the directory of `--live`.

The last line is `ok` or what failed. Exit status: 0; 1 with what failed.
"""

import argparse
import collections
import json
import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

from run import GUNICORN, ask, environment, make

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20
DRIFT = 4 * MIB
SERVICE = 'service="soak"'
EXPECTED = {"small": (200, False), "leak": (200, False), "huge": (503, True), "strings": (503, True)}
CONFIGURATION = """global: {{scrape_interval: 1s}}
scrape_configs:
- job_name: pyhost
  static_configs: [{{targets: ['127.0.0.1:{port}']}}]
"""


def start(processes, command, **more):
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, **more)
    processes.append(process)
    return process


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return answer.read().decode()


def queried(port, query):
    """The value of a query that has one, 0 without one."""
    found = json.loads(get(port, "/api/v1/query?" + urllib.parse.urlencode({"query": query})))["data"]["result"]
    return float(found[0]["value"][1]) if found else 0


def resident(process):
    text = pathlib.Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii")
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wait_for(what, is_there):
    for _ in range(600):
        try:
            if is_there():
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"failed: {what}: not within a minute")


def client(port, number, stop, answers):
    routes = ["small"] * 12 + ["leak"] * 6 + ["huge", "strings"]
    turn = number * 5
    while not stop.is_set():
        route = routes[turn % len(routes)]
        turn += 1
        answers[route, ask(port, f"/{route}")] += 1


def soak(options, folder, processes):
    """Yields what is wrong."""
    live, log = folder / "live", folder / "log"
    controller = [options.pyhost.resolve().with_name("pyhostctl"), "--dir", live]
    port, metrics, prometheus = (make.free_port() for _ in range(3))
    host = [options.pyhost.resolve(), f"--live={live}", "--service", "soak", "--recycle-at", "96M"]
    gunicorn = [part.format(port=port) for part in GUNICORN]
    with open(log, "wb") as out:
        server = start(processes, [*host, *gunicorn, "gthread", "--threads", "4", "-w", "2", "app:flask_app"],
                       env=environment(options, "servers"), cwd=folder, stdout=out, stderr=out)
    wait_for("the server", lambda: ask(port, "/small"))
    serve = start(processes, [*controller, "serve", "--listen", f"127.0.0.1:{metrics}"], stdout=subprocess.DEVNULL)
    (folder / "prometheus.yml").write_text(CONFIGURATION.format(port=metrics), encoding="ascii")
    packages = subprocess.run([ROOT / "tools/debian-programs", "prometheus"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    start(processes, [f"{packages}/usr/bin/prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                      f"--web.listen-address=127.0.0.1:{prometheus}"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    leader, terminal = pty.openpty()
    top = subprocess.Popen([str(word) for word in [*controller, "top"]], stdin=terminal, stdout=terminal, stderr=subprocess.DEVNULL,
                           env={**os.environ, "TERM": "xterm"}, start_new_session=True)
    processes.append(top)
    threading.Thread(target=lambda: [None for _ in iter(lambda: os.read(leader, 65536), b"")], daemon=True).start()
    wait_for("Prometheus", lambda: queried(prometheus, f"count(pyhost_info{{{SERVICE}}})") >= 2)

    stop, answers, drifting = threading.Event(), collections.Counter(), {}
    clients = [threading.Thread(target=client, args=(port, number, stop, answers)) for number in range(4)]
    for thread in clients:
        thread.start()
    of_master = f'pyhost_memory_bytes{{account="total",{SERVICE},role="host"}}'
    figures = {"the master's live bytes": lambda: queried(prometheus, of_master),
               "serve's resident size": lambda: resident(serve), "top's resident size": lambda: resident(top)}
    begin, seconds = time.monotonic(), options.minutes * 60
    while time.monotonic() < begin + seconds:
        time.sleep(1)
        phase = "early" if time.monotonic() < begin + seconds / 3 else "late"
        for name, figure in figures.items():
            drifting[name, phase] = max(drifting.get((name, phase), 0), figure())
    stop.set()
    for thread in clients:
        thread.join()

    series = queried(prometheus, f'count(last_over_time(pyhost_memory_bytes{{account="total",{SERVICE}}}[1h]))')
    recycled = log.read_text(encoding="utf-8", errors="replace").count(" recycled by SIGTERM: ")
    for name in figures:
        early, late = drifting[name, "early"], drifting[name, "late"]
        print(f"{name}: at most {early / MIB:.1f} MiB in the first third, {late / MIB:.1f} MiB later")
        if late > early + DRIFT:
            yield f"{name} grew"
    print(f"{sum(answers.values())} requests, {recycled} workers recycled, {series:.0f} series of live bytes")
    if wrong := {key: count for key, count in answers.items() if EXPECTED[key[0]] != key[1]}:
        yield f"answers: {wrong}"
    if not recycled:
        yield "no worker was recycled"
    if series > 4:
        yield f"{series:.0f} series, expected at most 4"
    if top.poll() is not None or serve.poll() is not None:
        yield "top or serve has ended"
    server.terminate()
    server.wait(60)
    text = get(metrics, "/metrics")
    if SERVICE in text or "\npyhost_hosts 0\n" not in text:
        yield "a host is in a scrape after the server's end"
    if left := [str(path.relative_to(live)) for path in live.rglob("*") if path.is_file()]:
        yield f"files are left: {left}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    parser.add_argument("--minutes", type=float, default=10, metavar="N", help="how long (10)")
    options = parser.parse_args()
    processes = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        try:
            wrong = list(soak(options, folder, processes))
        finally:
            for process in processes:
                process.terminate()
                process.wait()
    print("failed: " + "; ".join(wrong) if wrong else "ok")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
