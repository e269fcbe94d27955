"""Runs a table of steps on two processors, and reports on them; steps.py has the table.

A step starts when the steps that it needs have passed, those that it comes after have ended, nothing holds its locks, and its
processors are free. Of several, the one with the longest path comes first: its seconds, and those of the steps that wait for it.
Steps that share a lock wait for one another in the order of the table. A step whose need failed does not run, and counts as failed.

What a step prints goes to a file, and is printed whole when the step ends. Each minute a line says what runs. The end: seconds of
each step and of its processors, skipped tests with their reasons, lines of what failed, and its names.
"""

import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

PROCESSORS = 2
HEARTBEAT = 60
TELLS = re.compile(r"^failures:|panicked at|^error|DIFFERENT|FAILED|Traceback")
SKIPPED = re.compile(r"(skipped|not tried): ")


@dataclasses.dataclass
class Step:
    """A row. What it `needs` must pass; what it comes `after` must only end. Steps with the same lock never run at the same time.

    `processors` is how many it keeps busy: 2 if it needs the machine to itself. `seconds` is an estimate, for the order. In the
    `environment`, None removes a variable.
    """

    name: str
    command: list
    needs: tuple = ()
    after: tuple = ()
    processors: float = 1
    seconds: int = 10
    environment: dict = dataclasses.field(default_factory=dict)
    locks: tuple = ()


def check(steps):
    """Each name is there once, and each need is a row further up: so the order of the table is a possible one."""
    seen = set()
    for step in steps:
        unknown = [need for need in (*step.needs, *step.after) if need not in seen]
        if step.name in seen or unknown or not 0 < step.processors <= PROCESSORS:
            raise ValueError(f"{step.name}: twice, with bad processors, or before its needs {unknown}")
        seen.add(step.name)


def paths(steps):
    """The seconds of the longest path that begins with each step, by its name."""
    found = {}
    for index in reversed(range(len(steps))):
        step, later = steps[index], steps[index + 1:]
        behind = [found[other.name] for other in later
                  if step.name in (*other.needs, *other.after) or set(step.locks) & set(other.locks)]
        found[step.name] = step.seconds + max(behind, default=0)
    return found


def choose(waiting, running, passed, failed, path):
    """The step to start now, or None."""
    free = PROCESSORS - sum(step.processors for step in running)
    held = {lock for step in running for lock in step.locks}
    ready = [step for step in waiting if step.processors <= free and passed.issuperset(step.needs)
             and passed.union(failed).issuperset(step.after) and held.isdisjoint(step.locks)]
    return max(ready, key=lambda step: path[step.name], default=None)


class Run:
    """A run of a table. Each step has two files in `folder`: what it prints, and the skipped tests that it names by SKIPPED."""

    def __init__(self, steps, folder, skipped=(), say=sys.stdout):
        check(steps)
        self.steps, self.folder, self.say = steps, pathlib.Path(folder), say
        self.start = time.monotonic()
        self.running = {}  # by process: the step, when it started
        self.times, self.skipped, self.excerpts, self.failed, self.passed = [], list(skipped), [], [], set()

    def line(self, text=""):
        print(text, file=self.say, flush=True)

    def file(self, step, ending):
        return self.folder / (re.sub(r"\W+", "-", step.name) + ending)

    def read(self, step, ending):
        return self.file(step, ending).read_text(encoding="utf-8", errors="replace")

    def run(self):
        """Runs all; whether all passed."""
        waiting, path, said = list(self.steps), paths(self.steps), time.monotonic()
        try:
            while waiting or self.running:
                while step := choose(waiting, [step for step, _ in self.running.values()], self.passed, self.failed, path):
                    waiting.remove(step)
                    self.begin(step)
                for step in list(waiting):
                    if lacks := [need for need in step.needs if need in self.failed]:
                        waiting.remove(step)
                        self.fail(step, f"not run: it needs {', '.join(lacks)}")
                if self.running:
                    self.end_one()
                if time.monotonic() - said >= HEARTBEAT:
                    said = time.monotonic()
                    self.heartbeat()
        except (KeyboardInterrupt, SystemExit):
            for process, (step, _) in self.running.items():
                os.killpg(process, signal.SIGTERM)
                self.print_file(step)
                self.fail(step, "interrupted")
        return self.report()

    def begin(self, step):
        self.file(step, ".skipped").write_text("")
        environment = {**os.environ, **step.environment, "SKIPPED": str(self.file(step, ".skipped").absolute())}
        environment = {name: value for name, value in environment.items() if value is not None}
        with open(self.file(step, ".output"), "wb") as output:
            try:
                # In a group of its own, which can be ended with it.
                process = subprocess.Popen(step.command, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                           stderr=subprocess.STDOUT, start_new_session=True)
            except OSError as error:
                self.fail(step, str(error))
                return
        process.returncode = 0  # os.wait4() waits for it, for its processor time
        self.running[process.pid] = step, time.monotonic()

    def end_one(self):
        """Waits for a step, or a fifth of a second."""
        process, status, used = os.wait4(-1, os.WNOHANG)
        if process not in self.running:
            time.sleep(0.2)
            return
        step, start = self.running.pop(process)
        self.line(f"\n=== {step.name}")
        text = self.print_file(step)
        busy = used.ru_utime + used.ru_stime
        self.times.append(f"{time.monotonic() - start:5.0f} s, processors {busy:5.0f} s  {step.name}")
        self.line(f"=== {self.times[-1]}")
        lines = [line for line in text.splitlines() if SKIPPED.match(line)]
        self.skipped += [f"{step.name}: {line}" for line in self.read(step, ".skipped").splitlines() + lines]
        if status == 0:
            self.passed.add(step.name)
        else:
            self.fail(step, excerpt(text))

    def print_file(self, step):
        text = self.read(step, ".output")
        self.say.write(text if text.endswith("\n") or not text else text + "\n")
        return text

    def fail(self, step, why):
        self.failed.append(step.name)
        self.excerpts.append(f"\n=== what failed: {step.name}\n{why}")

    def heartbeat(self):
        now = time.monotonic()
        running = [f"{step.name} ({now - start:.0f} s)" for step, start in self.running.values()]
        self.line(f"=== {now - self.start:.0f} s, running: {', '.join(running)}")

    def report(self):
        self.line(f"\n{time.monotonic() - self.start:5.0f} s in all, of which")
        for line in [*self.times, f"\n{len(self.skipped)} tests skipped", *self.skipped, *self.excerpts, ""]:
            self.line(line)
        for name in self.failed:
            self.line(f"failed: {name}")
        if not self.failed:
            self.line("all passed")
        return not self.failed


def excerpt(text):
    """The lines that say what failed: of a test its name, of the rest some that follow; and the last ones."""
    lines = text.splitlines()
    found = [index for index, line in enumerate(lines) if TELLS.search(line)]
    # The test runner prints the names of all tests first, and then what those that failed have said.
    follow = {index: 1 if lines[index].endswith("... FAILED") else 21 for index in found}
    near = sorted({number for index in found for number in range(index, min(index + follow[index], len(lines)))})
    told = [f"{number + 1}: {lines[number]}" for number in near]
    return "\n".join([*told[:150], "...", *lines[-20:]])
