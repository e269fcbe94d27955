#!/usr/bin/env python3
"""Ten hosts at once that start and die at random, under `top`, `top --once` and `serve`.

    run.py --pyhost PROGRAM --pyhostctl PROGRAM [--seconds 60] [--hosts 10] [--seed N] [--no-serve]

The hosts (member.py) exit, are killed, fork, become other programs or themselves again. All the while
`pyhostctl top` runs in tmux and its pane is read, `pyhostctl top --once` runs over and over, and `/metrics` of
`pyhostctl serve` is scraped. Ends with status 1 where one of them fails, lists a process that was gone
before it looked, or leaves one out that ran all the while. Of `top` two refreshes are waited for: the
pane shows how many there were, so no clock is asked.
"""

import argparse
import itertools
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from ledger import Fleet

HERE = Path(__file__).resolve().parent
REFRESH = "200ms"
# Wide and high enough for every row.
COLUMNS, LINES = "140", "90"


class Runner:
    """Keeps the hosts running and looks at them."""

    def __init__(self, options, folder):
        self.options = options
        self.directory = folder / "live"
        self.fleet = Fleet()
        self.chance = random.Random(options.seed)
        self.members = {}
        self.wrong = []
        self.looks = {"ps": 0, "top": 0, "serve": 0}

    # The members.

    def start_member(self):
        seed = self.chance.randrange(1 << 30)
        command = [self.options.pyhost, f"--live={self.directory}", HERE / "member.py", str(seed)]
        # The next process that starts reports the killed ones; this test does not judge that.
        member = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.fleet.started(member.pid)
        self.members[member.pid] = member
        threading.Thread(target=self.listen, args=(member,), daemon=True).start()

    def listen(self, member):
        """Takes down what a member and its children say."""
        for line in member.stdout:
            word, pid = line.split()
            getattr(self.fleet, word.decode())(int(pid))

    def tend(self):
        """Kills one now and then, buries the dead, and keeps their number up."""
        if self.members and self.chance.random() < 0.1:
            victim = self.chance.choice(list(self.members.values()))
            self.fleet.doom(victim.pid)
            victim.kill()
        for pid, member in list(self.members.items()):
            if member.poll() is not None:
                self.fleet.doom(pid)
                self.fleet.gone(pid)
                del self.members[pid]
                if member.returncode not in (0, 3, -9):
                    self.wrong.append(f"member {pid} ended with {member.returncode}")
        while len(self.members) < self.options.hosts:
            self.start_member()

    # The looks. What members had said before a look ended is in their pipes by then: a moment is
    # given to the threads that read them, and what still seems missing is asked about again.

    def judge(self, kind, listed, began):
        self.looks[kind] += 1
        for _ in range(500):
            wrong = self.fleet.judge(listed, began)
            if not wrong:
                return
            time.sleep(0.02)
        self.wrong.extend(f"{kind}: {text}" for text in wrong)

    def look_by_ps(self):
        began = self.fleet.now()
        done = self.ctl("top", "--once")
        if done.returncode or done.stderr:
            self.wrong.append(f"ps: status {done.returncode}, {done.stderr!r}")
            return
        rows = done.stdout.splitlines()[1:]
        self.judge("ps", [int(row.split()[0]) for row in rows], began)

    def ctl(self, *words):
        command = [self.options.pyhostctl, "--dir", self.directory, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def scrape(self, address):
        began = self.fleet.now()
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        pids = {int(pid) for pid in re.findall(r'^[^#\n]*\bpid="(\d+)"', text, re.M)}
        self.judge("serve", pids, began)


class Top:
    """`top` in a terminal of its own."""

    def __init__(self, runner, folder):
        self.runner = runner
        self.socket = folder / "tmux"
        self.marks = []
        # The shell notes the status: tmux 3.3a never learns one in five of a busy machine.
        self.status = folder / "status"
        command = (
            f"'{runner.options.pyhostctl}' --dir '{runner.directory}' top --interval {REFRESH};"
            f" echo $? >'{self.status}.new'; mv '{self.status}.new' '{self.status}'"
        )
        size = ["-x", COLUMNS, "-y", LINES]
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, command)
        # Its last output stays on the screen.
        self.tmux("set-option", "-g", "remain-on-exit", "on")

    def tmux(self, *words):
        command = ["tmux", "-S", self.socket, *words]
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
        if done.returncode:
            raise RuntimeError(f"tmux {words[0]}: {done.stderr}")
        return done.stdout

    def read(self):
        """The number of the refresh that the pane shows and the process ids of its list. A pane that is
        being drawn is read again: two readings that are alike count."""
        lines = []
        for _ in range(500):
            before, lines = lines, self.tmux("capture-pane", "-p").splitlines()
            head = re.search(r"#(\d+)", lines[0]) if lines else None
            titles = [at for at, line in enumerate(lines) if line.split()[:1] == ["PID"]]
            if lines == before and head and titles:
                rows = itertools.takewhile(str.strip, lines[titles[0] + 1 :])
                return int(head[1]), [int(row.split()[0]) for row in rows]
        raise RuntimeError("top: no list in " + "\n".join(lines))

    def look(self):
        """Judges the pane. A refresh that ends two after this one began after all that happened by now."""
        now = self.runner.fleet.now()
        number, rows = self.read()
        known = [event for seen, event in self.marks if seen + 2 <= number]
        if known:
            self.runner.judge("top", rows, known[-1])
        self.marks = [mark for mark in self.marks if mark[0] + 2 > number]
        if known:
            self.marks.insert(0, (number - 2, known[-1]))
        self.marks.append((number, now))

    def leave(self):
        """Leaves it; it must end well."""
        self.tmux("send-keys", "q")
        for _ in range(500):
            if self.status.exists():
                break
            time.sleep(0.02)
        status = self.status.read_text().strip() if self.status.exists() else "still running"
        if status != "0":
            self.runner.wrong.append(f"top: status {status}")


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % probe.getsockname()[1]


def start_server(runner):
    """`serve`, and where it listens, once it does."""
    address = free_address()
    command = [runner.options.pyhostctl, "--dir", runner.directory, "serve", "--listen", address]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    host, port = address.split(":")
    for _ in range(500):
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return server, address
        except OSError:
            if server.poll() is not None:
                break
            time.sleep(0.02)
    sys.exit(f"run.py: `pyhostctl serve` does not listen (status {server.poll()})")


def run(options, folder):
    runner = Runner(options, folder)
    runner.tend()
    top = Top(runner, folder)
    server, address = (None, None) if options.no_serve else start_server(runner)
    end = time.monotonic() + options.seconds
    try:
        while time.monotonic() < end and not runner.wrong:
            runner.tend()
            runner.look_by_ps()
            top.look()
            if server:
                runner.scrape(address)
        top.leave()
        if server and server.poll() is not None:
            runner.wrong.append(f"serve: ended with status {server.returncode}")
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        runner.wrong.append(f"{type(error).__name__}: {error}")
    finally:
        top.tmux("kill-server")
        for process in [*runner.members.values(), *([server] if server else [])]:
            process.kill()
            process.wait()
    seen = runner.fleet.count()
    looks = ", ".join(f"{count} by {kind}" for kind, count in runner.looks.items() if count)
    print(f"{seen} processes; looks: {looks}")
    for text in runner.wrong:
        print(f"wrong: {text}")
    return 1 if runner.wrong or not runner.looks["ps"] or not runner.looks["top"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, help="the host")
    parser.add_argument("--pyhostctl", required=True, help="what looks at it")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--hosts", type=int, default=10, help="how many run at a time")
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--no-serve", action="store_true", help="leave `serve` out")
    options = parser.parse_args()
    # A socket's path is short.
    with tempfile.TemporaryDirectory(prefix="fleet-", dir="/tmp") as folder:
        sys.exit(run(options, Path(folder)))


if __name__ == "__main__":
    main()
