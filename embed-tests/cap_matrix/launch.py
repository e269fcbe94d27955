"""Runs one script below a cap, with an eye on the process from outside.

The process has no standard input, none of the caller's PYTHON* and PYHOST_* variables, and faulthandler, so that one
that crashes or hangs says where it was. Its own report goes to a file; what it has resident is sampled from /proc.
"""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from outcomes import MIB, Run

SECONDS_BETWEEN_SAMPLES = 0.01
SECONDS_TO_ABORT = 5
KEPT_OUTPUT = 6000


@dataclasses.dataclass(frozen=True)
class Task:
    """One cell of the matrix: a script with a seed below a cap, on one host."""

    host: object
    script: str
    cap: int
    seed: int

    def key(self):
        """The inputs of a result: a kept result with the same inputs is used again."""
        return (self.host.identity, self.script, self.cap, self.seed)

    def command(self, scripts):
        return [self.host.path, "--cap", f"{self.cap // MIB}M", str(scripts / self.script), str(self.seed)]

    def environment(self):
        """The variables that are set beside the caller's own."""
        added = {"PYTHONFAULTHANDLER": "1", "PYTHONHASHSEED": str(self.seed), "PYTHONDONTWRITEBYTECODE": "1"}
        return {**added, "PYTHONPATH": self.host.site} if self.host.site else added

    def repeat(self, scripts):
        """The command line that does the run again."""
        variables = [f"{name}={value}" for name, value in self.environment().items()]
        return " ".join(["env", *variables, *self.command(scripts)])


def clean_environment():
    """Returns the caller's environment without what steers an interpreter."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYHOST_"))}


def launch(task, scripts, timeout, stop):
    """Runs a task to its end and returns its Run and seconds; None where `stop` was set meanwhile."""
    with tempfile.TemporaryDirectory(prefix="cap-") as folder:
        folder = pathlib.Path(folder)
        [host, *rest] = task.command(scripts)
        command = [host, f"--stats=file={folder / 'report'}", *rest]
        began = time.monotonic()
        with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
            process = subprocess.Popen(command, cwd=folder, env={**clean_environment(), **task.environment()},
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
            watched = Watched(process, 4 * task.cap + 512 * MIB)
            try:
                while process.poll() is None and not stop.is_set():
                    watched.sample()
                    if watched.ran_away or time.monotonic() - began > timeout:
                        break
                    time.sleep(SECONDS_BETWEEN_SAMPLES)
                timed_out = process.poll() is None and not watched.ran_away
                end(process, timed_out and not stop.is_set())
            finally:
                kill_session(process)
        if stop.is_set():
            return None
        run = Run(
            cap=task.cap, status=process.returncode, timed_out=timed_out, ran_away=watched.ran_away,
            stdout=text_of(folder / "out"), stderr=text_of(folder / "err"), peak_bytes=peak_of(folder / "report"),
            resident_anonymous=watched.anonymous, resident=watched.resident, baseline_anonymous=watched.baseline,
        )
        return run, round(time.monotonic() - began, 2)


class Watched:
    """The most that a process was seen to have, by /proc/PID/status."""

    def __init__(self, process, bound):
        self.path, self.bound = f"/proc/{process.pid}/status", bound
        self.anonymous = self.resident = 0
        self.baseline = 0
        self.ran_away = False

    def sample(self):
        try:
            text = pathlib.Path(self.path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        anonymous = kilobytes(fields.get("RssAnon"))
        self.anonymous = max(self.anonymous, anonymous)
        self.resident = max(self.resident, kilobytes(fields.get("VmHWM")))
        self.ran_away = anonymous > self.bound


def kilobytes(field):
    """Returns the bytes of a field such as "112 kB"; 0 for one that a process about to end lacks."""
    return int(field.split()[0]) * 1024 if field else 0


def end(process, with_tracebacks):
    """Ends a process that is still there; faulthandler answers SIGABRT with the threads' tracebacks."""
    if process.poll() is None and with_tracebacks:
        process.send_signal(signal.SIGABRT)
        try:
            process.wait(SECONDS_TO_ABORT)
        except subprocess.TimeoutExpired:
            pass
    if process.poll() is None:
        process.kill()
    process.wait()


def kill_session(process):
    """Kills what a script has left running; each has a session, and so a process group, of its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def text_of(path):
    text = path.read_text(encoding="utf-8", errors="replace")
    if len(text) <= 2 * KEPT_OUTPUT:
        return text
    return f"{text[:KEPT_OUTPUT]}\n[...]\n{text[-KEPT_OUTPUT:]}"


def peak_of(path):
    """Returns the total's peak from the process's report; None where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))["total"]["peak_bytes"]
    except (FileNotFoundError, ValueError, KeyError):
        return None
