#!/usr/bin/env python3
"""Runs a leaking FastAPI service under a cap, sends it requests, and judges every answer.

    run.py --pyhost target/release/pyhost --python python3.11

uvicorn serves app.py with two workers, each under the cap. Several clients send requests over connections that stay
open, most of them to a route that keeps what it makes, until far more was asked for than fits. Then:

- no connection was reset or closed without an answer while its worker lived;
- every answer was 200, 503 or 500;
- each worker that ran into the cap had errors, and went on: /health answers 20 of 20 at the end;
- no worker was ended.

Exit status: 0; 1 with what failed; 2 for a bad command line.
"""

import argparse
import collections
import http.client
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "environments"))
import make  # noqa: E402

ALLOWED = {200, 500, 503}
HEALTH = 20
# How long an answer, or the start, may take: a bound against hangs, not a measurement.
PATIENCE = 60


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    parser.add_argument("--packages", type=pathlib.Path, help="site-packages with fastapi and uvicorn (default: made)")
    parser.add_argument("--cap", default="96M", help="of each worker (%(default)s)")
    parser.add_argument("--requests", type=int, default=700, help="in all (%(default)s)")
    parser.add_argument("--clients", type=int, default=8, help="connections at a time (%(default)s)")
    parser.add_argument("--count", type=int, default=1200, help="rows that a request makes (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes (%(default)s)")
    return parser.parse_args(arguments)


class Service:
    """uvicorn under the host, its output in a file."""

    def __init__(self, options, packages, folder):
        self.port = make.free_port()
        self.log = folder / "log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYHOST"))}
        environment["PYTHONPATH"] = str(packages)
        command = [str(options.pyhost.resolve()), "--cap", options.cap, "-m", "uvicorn", "app:app",
                   "--app-dir", str(HERE), "--host", "127.0.0.1", "--port", str(self.port),
                   "--workers", str(options.workers), "--no-access-log"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait(options.workers)

    def text(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait(self, workers):
        """Waits until each worker has started."""
        for _ in range(PATIENCE * 10):
            if self.text().count("Application startup complete") >= workers:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.stop()
        raise SystemExit(f"run.py: the service did not start:\n{self.text()[-3000:]}")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Client:
    """One connection that is opened again only after it was lost, which is noted."""

    def __init__(self, port, results):
        self.port, self.results, self.connection = port, results, None

    def get(self, path):
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            self.connection.request("GET", path)
            answer = self.connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.results[f"{path.split('?')[0]}: {type(error).__name__}"] += 1
            self.close()
            return None
        self.results[answer.status] += 1
        if answer.will_close:
            self.close()
        return answer.status

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def load(options, port):
    """Sends the requests; how often each status came, and each failure of a connection."""
    results, lock, left = collections.Counter(), threading.Lock(), iter(range(options.requests))
    paths = ["/leak", "/leak", "/leak-in-thread", "/leak", "/work"]

    def work():
        client = Client(port, results)
        while True:
            with lock:
                number = next(left, None)
            if number is None:
                return client.close()
            client.get(f"{paths[number % len(paths)]}?count={options.count}")

    threads = [threading.Thread(target=work) for _ in range(options.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def health(port):
    """Asks for /health over fresh connections, so that both workers are asked; how many answered 200."""
    answered = 0
    for _ in range(HEALTH):
        client = Client(port, collections.Counter())
        answered += client.get("/health") == 200
        client.close()
    return answered


def judge(results, healthy, log):
    """Returns the failures as lines."""
    failures = [f"{count} times {what}" for what, count in results.items() if what not in ALLOWED]
    if healthy != HEALTH:
        failures.append(f"/health answered {healthy} of {HEALTH}")
    if not (results[500] or results[503]):
        failures.append("no request was refused: the cap was not reached")
    for line in re.findall(r"^pyhost(?:\[\d+\])?: fatal.*$|^.*Fatal Python error.*$|^.*SystemError.*$|^.*died.*$", log, re.MULTILINE):
        failures.append(line[:200])
    if log.count("Started server process") != log.count("Application startup complete"):
        failures.append("a worker did not start")
    return failures


def main(arguments):
    options = parse(arguments)
    packages = options.packages or make.site_packages(make.environment(options.python, "service"))
    with tempfile.TemporaryDirectory() as name:
        service = Service(options, packages, pathlib.Path(name))
        try:
            results = load(options, service.port)
            healthy = health(service.port)
        finally:
            service.stop()
        log = service.text()
    failures = judge(results, healthy, log)
    print(f"answers: {dict(results)}; /health {healthy} of {HEALTH}; status {service.process.returncode}")
    if failures:
        print("\n".join(["failed:", *failures]))
        print("the last lines of the service:", *log.splitlines()[-60:], sep="\n  ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
