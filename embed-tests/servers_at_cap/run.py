#!/usr/bin/env python3
"""Runs servers to their cap with a slow leak, and judges how each process ends.

    run.py --pyhost target/release/pyhost --python python3.11 [--slice]

Several clients ask a route that keeps some kilobytes, until the process has ended or far more was asked for than fits.
Allowed: a process that ends has status 53 and one line `pyhost: fatal: ...`; one that does not answers /health. From the
first request on there is an answer, of any status, or an end at least every five seconds; if a master starts a worker
again, as long as the server took to start comes on top. No process is ended by a signal of its own.

In celery-held tasks that need 200 KB run beside one that holds all that it gets: each task must succeed.

Exit status: 0; 1 with what failed; 2 for a bad command line.
"""

import argparse
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

# The longest time without an answer or an end.
SILENCE = 5
# Bounds of one run: requests, seconds, and ends of workers that a master replaces.
REQUESTS, SECONDS, ENDS = 6000, 150, 2
CLIENTS = 4
START = 60
# Lines of a host; of one among several it names its process.
FATAL = re.compile(r"^pyhost(?:\[\d+\])?: fatal: ", re.MULTILINE)
REACHED = re.compile(r"^pyhost(?:\[\d+\])?: cap of ", re.MULTILINE)
# How masters report the end of a worker: a status, or the name of a signal.
WORKER_END = re.compile(r"Worker \(pid:\d+\) exited with code (-?\d+)|Worker \(pid:\d+\) was sent (SIG\w+)"
                        r"|exited with '(?:exitcode|signal) (-?\w+)")
BAD = re.compile(r"Fatal Python error.*|.*terminate called.*|.*WORKER TIMEOUT.*|.*SIGABRT.*|.*SIGSEGV.*")

GUNICORN = ["-m", "gunicorn", "-w", "1", "-b", "127.0.0.1:{port}", "leaky:flask_app()"]
CELERY = ["-m", "celery", "-A", "leaky:tasks", "worker", "--without-gossip", "--without-mingle",
          "--without-heartbeat", "-c"]
# The servers, with the cap of each.
SERVERS = {
    "flask": ("32M", ["-m", "flask", "--app", "leaky:flask_app", "run", "-p", "{port}"]),
    "gunicorn-sync": ("32M", GUNICORN),
    "gunicorn-gthread": ("32M", [*GUNICORN, "-k", "gthread", "--threads", "4"]),
    "gunicorn-gevent": ("48M", [*GUNICORN, "-k", "gevent"]),
    "uvicorn": ("32M", ["-m", "uvicorn", "leaky:asgi", "--port", "{port}", "--no-access-log"]),
    "celery-prefork": ("64M", [*CELERY, "1"]),
    "celery-threads": ("64M", [*CELERY, "4", "-P", "threads"]),
    "celery-held": ("120M", [*CELERY, "4", "-P", "threads"]),
    "http.server": ("24M", [str(HERE / "leaky.py"), "{port}"]),
}
# What the clients ask, where it is not /leak, and how often in all.
HELD, HELD_REQUESTS = ["/hold", "/need", "/need", "/need"], 200
SLICE = ["flask", "gunicorn-gthread", "http.server"]


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    parser.add_argument("--packages", type=pathlib.Path, help="site-packages with the servers (default: made)")
    parser.add_argument("--servers", nargs="+", choices=SERVERS, metavar="NAME", help=", ".join(SERVERS))
    parser.add_argument("--runs", type=int, help="of each server (10)")
    parser.add_argument("--slice", action="store_true", help=f"one run of {', '.join(SLICE)}")
    parser.add_argument("--logs", type=pathlib.Path, help="a folder that keeps the servers' output")
    return parser.parse_args(arguments)


class OverHttp:
    """Asks a server on a port, each time over a new connection."""

    def __init__(self, port):
        self.port = port

    def ask(self, path):
        """Returns the status of the answer, or None if there was none."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2 * SILENCE)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def close(self):
        pass


class OverBroker:
    """Asks a worker of celery, by a process that has celery."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.process.stdout.readline()  # it is ready

    def ask(self, path):
        """Returns 200 for a task that succeeded, 500 for one that failed, or None if nothing came back."""
        try:
            self.process.stdin.write(path + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().strip()
        except (OSError, ValueError):
            return None  # it was closed meanwhile
        return {"SUCCESS": 200, "FAILURE": 500}.get(answer)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Server:
    """A server under the host, its output in a file, and its clients."""

    def __init__(self, name, options, packages, folder, limit=None, kept=None):
        """Below the cap of the table, or the limit that is given; a request keeps so many bytes, if given."""
        cap, command = SERVERS[name]
        self.log = folder / "log"
        self.is_held = name.endswith("-held")
        self.answers, self.lock = {}, threading.Lock()
        self.silence, self.seen_ends = 0, 0
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYHOST"))}
        environment.update(PYTHONPATH=f"{packages}{os.pathsep}{HERE}", BROKER=str(folder), PYTHONDONTWRITEBYTECODE="1")
        is_celery = name.startswith("celery")
        if kept or is_celery:
            environment["KEPT"] = str(kept or 8000)  # a task takes long
        if is_celery:
            for part in ("new", "queue", "control", "results"):
                (folder / part).mkdir()
        port = make.free_port()
        command = [part.format(port=port) for part in command]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([str(options.pyhost.resolve()), *(limit or ("--cap", cap)), *command], cwd=folder,
                                            env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if is_celery:
            self.client = lambda: OverBroker([options.python, str(HERE / "leaky.py")], environment)
        else:
            self.client = lambda: OverHttp(port)
        self.last = time.monotonic()

    def text(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def ends(self):
        """Returns how each process ended, as text."""
        ends = ["".join(found) for found in WORKER_END.findall(self.text())]
        status = self.process.poll()
        return ends if status is None else [*ends, str(status)]

    def note(self, status):
        """Notes an answer, or a request that got none."""
        with self.lock:
            now = time.monotonic()
            self.answers[status] = self.answers.get(status, 0) + 1
            ends = len(self.ends()) if status is None else self.seen_ends
            self.silence = max(self.silence, now - self.last)
            if status is not None or ends > self.seen_ends:
                self.last, self.seen_ends = now, ends

    def has_started(self):
        client = self.client()
        try:
            for _ in range(START * 5):
                if client.ask("/health") == 200:
                    self.start_seconds = time.monotonic() - self.last
                    return True
                if self.process.poll() is not None:
                    return False
                time.sleep(0.2)
        finally:
            client.close()
        return False

    def load(self):
        """Asks /leak until the process has ended, or enough was asked for."""
        until = time.monotonic() + SECONDS
        left = iter(range(HELD_REQUESTS if self.is_held else REQUESTS))

        def work(client, path):
            while self.process.poll() is None and time.monotonic() < until and self.silence < 2 * SILENCE:
                if next(left, None) is None or len(self.ends()) >= ENDS:
                    break
                status = client.ask(path)
                if self.process.poll() is None or status is not None:
                    self.note(status)
                if status is None:
                    time.sleep(0.05)

        self.clients = [self.client() for _ in range(CLIENTS)]
        self.last = time.monotonic()
        paths = HELD if self.is_held else ["/leak"] * CLIENTS
        threads = [threading.Thread(target=work, args=both) for both in zip(self.clients, paths)]
        for thread in threads:
            thread.start()
        # Beside the clients: one may wait for an answer that never comes.
        while any(thread.is_alive() for thread in threads):
            if self.process.poll() is not None or time.monotonic() - self.last > 2 * SILENCE:
                break
            time.sleep(0.1)
        with self.lock:
            self.silence = max(self.silence, time.monotonic() - self.last)
        for client in self.clients:
            client.close()
        for thread in threads:
            thread.join()

    def is_healthy(self):
        """Whether /health is answered within the time; a process that has ended need not."""
        client = self.client()
        self.last = time.monotonic()
        until = self.last + SILENCE
        try:
            while self.process.poll() is None and time.monotonic() < until:
                status = client.ask("/health")
                self.note(status)
                if status == 200:
                    return True
                time.sleep(0.1)
        finally:
            client.close()
        return self.process.poll() is not None

    def stop(self):
        self.stopped = self.process.poll() is None
        if self.stopped:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def judge(server, healthy, ends):
    """Returns the failures as lines."""
    text = server.text()
    failures = [f"a process ended with {end}" for end in ends if end != "53"]
    failures += [found.strip()[:160] for found in sorted(set(BAD.findall(text)))]
    if not healthy:
        failures.append("/health was not answered")
    if server.silence > SILENCE + (server.start_seconds if WORKER_END.search(text) else 0):
        failures.append(f"{server.silence:.1f} s without an answer or an end")
    if not REACHED.search(text):
        failures.append("the cap was not reached")
    if server.is_held and set(server.answers) != {200}:
        failures.append("a task did not succeed")
    fatal = len(FATAL.findall(text))
    if fatal != len(ends):
        failures.append(f"{fatal} lines 'pyhost: fatal: ...' of {len(ends)} ends")
    return failures


def one(name, options, packages):
    """Returns one run's failures, and what it was like."""
    with tempfile.TemporaryDirectory(prefix="servers-") as folder:
        server = Server(name, options, packages, pathlib.Path(folder))
        try:
            if not server.has_started():
                return ["it did not start:", *server.text().splitlines()[-20:]], ""
            server.load()
            healthy = server.is_healthy()
            ends = server.ends()
        finally:
            server.stop()
        if options.logs:
            options.logs.mkdir(parents=True, exist_ok=True)
            (options.logs / f"{name}-{time.time():.0f}.log").write_text(server.text())
        answers = {str(status): count for status, count in server.answers.items()}
        return judge(server, healthy, ends), f"answers {answers}, ends {ends}, silence {server.silence:.1f} s"


def main(arguments):
    options = parse(arguments)
    packages = options.packages or make.site_packages(make.environment(options.python, "servers"))
    names = options.servers or (SLICE if options.slice else list(SERVERS))
    passed = failed = 0
    for name in names:
        for number in range(options.runs or (1 if options.slice else 10)):
            failures, facts = one(name, options, packages)
            print(f"{name} {number + 1}: {'FAILED' if failures else 'ok'}: {facts}", *failures, sep="\n    ", flush=True)
            failed += bool(failures)
            passed += not failures
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
