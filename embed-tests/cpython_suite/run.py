"""Runs one of CPython's test modules with one interpreter, in a process, a session and a folder of its own.

Stock Python and the host are started by the same lines here; only the executable's path differs. The process has no
standard input, none of the caller's PYTHON* and PYHOST_* variables, and default signal dispositions. What it leaves
running is found by a mark in its environment and killed. `cases_from` turns the recorder's events into results.
"""

import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from classify import is_trouble
from interpreters import clean_environment, module_path

RECORDER = pathlib.Path(__file__).with_name("record_cases.py")
MARK = "CPYTHON_SUITE_RUN"
MODULE_CASE = "(module)"
SECONDS_TO_ABORT = 10
SECONDS_BETWEEN_LOOKS = 0.5
ALTERED = re.compile(r"^Warning -- (.+?) was modified by ", re.MULTILINE)


class Stopped(Exception):
    """The comparison was interrupted while this run went on; nothing is kept of it."""


class Runner:
    """Runs modules until `stop` is set; its methods may be called on any thread."""

    def __init__(self, timeout, extra_tests=None):
        self.timeout = timeout
        self.extra_tests = extra_tests
        self.stop = threading.Event()

    def can_run(self, interpreter, module):
        """Says whether the module is installed with this Python, or is among the extra tests."""
        return interpreter.has_module(module) or bool(self.extra_tests and module_path(self.extra_tests, module))

    def run(self, interpreter, module, log_path):
        """Runs the module and returns its record: how it ended, its cases, its seconds."""
        if self.stop.is_set():
            raise Stopped
        mark = secrets.token_hex(8)
        # A short path: cases put Unix sockets below it, whose paths have at most 107 bytes.
        folder = pathlib.Path(tempfile.mkdtemp(prefix="cps-"))
        try:
            return self._run_in(folder, mark, interpreter, module, log_path)
        finally:
            kill_marked(mark)
            shutil.rmtree(folder, ignore_errors=True)

    def _run_in(self, folder, mark, interpreter, module, log_path):
        start_folder, events = folder / "cwd", folder / "events"
        start_folder.mkdir()
        (folder / "tmp").mkdir()
        shutil.copy(RECORDER, start_folder)
        env = {**clean_environment(), **dict(interpreter.variables), MARK: mark, "TMPDIR": str(folder / "tmp")}
        if not interpreter.has_module(module):
            env["PYTHONPATH"] = str(folder / "path")
            overlay_tests(folder / "path" / "test", interpreter.tests, self.extra_tests)
        command = [interpreter.executable, "-m", RECORDER.stem, str(events), module]
        began = time.monotonic()
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with open(log_path, "wb") as log:
            end = self._end_of(command, start_folder, env, log)
        seconds = round(time.monotonic() - began, 1)
        cases = cases_from(events, end)
        cases[MODULE_CASE] = {"outcome": module_outcome(end, cases, log_path)}
        return {"end": end, "seconds": seconds, "timeout": self.timeout, "cases": cases}

    def _end_of(self, command, folder, env, log):
        process = subprocess.Popen(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        deadline = time.monotonic() + self.timeout
        while time.monotonic() < deadline:
            try:
                return end_of_status(process.wait(SECONDS_BETWEEN_LOOKS))
            except subprocess.TimeoutExpired:
                if self.stop.is_set():
                    raise Stopped from None
        abort(process)
        return "timed out"


def abort(process):
    """Ends a process so that its log says where it was: regrtest has faulthandler answer SIGABRT with tracebacks."""
    process.send_signal(signal.SIGABRT)
    try:
        process.wait(SECONDS_TO_ABORT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_of_status(status):
    """Returns "exit 2" or "killed by SIGSEGV"."""
    return f"exit {status}" if status >= 0 else "killed by " + signal_name(-status)


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def default_signals():
    """Undoes what `nohup` and a shell's `&` ignore; a child would inherit that, and test_signal would see it.

    A handler, unlike SIG_IGN, becomes SIG_DFL in a child; SIGHUP so still does not end the comparison itself.
    """
    signal.signal(signal.SIGHUP, lambda number, frame: None)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def ignore_interrupts():
    """Lets an interrupted comparison end in peace: a second interrupt would end it before its children."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def kill_marked(mark):
    """Kills every process whose environment has the mark, until none is left."""
    wanted = f"{MARK}={mark}".encode()
    found = True
    while found:
        found = False
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
                    found = True
            except OSError:
                continue
        if found:
            time.sleep(0.05)


def overlay_tests(overlay, installed, extra):
    """Makes a `test` package of links: all that is installed, and from `extra` what the installation lacks.

    It goes on PYTHONPATH, so that the cases' children find it too; only modules that need it are run so.
    """
    overlay.mkdir(parents=True)
    for entry in pathlib.Path(installed).iterdir():
        if entry.name != "__pycache__":
            (overlay / entry.name).symlink_to(entry)
    for entry in pathlib.Path(extra).absolute().iterdir():
        if not (overlay / entry.name).exists():
            (overlay / entry.name).symlink_to(entry)


def module_outcome(end, cases, log_path):
    """Returns how the module as a whole ended, and what it left altered.

    regrtest exits with 2 where a case has failed: the cases tell that themselves. Where none has, something else is
    wrong (the module could not be imported, say), and the status is told.
    """
    explained = end == "exit 2" and any(is_trouble(case["outcome"]) for case in cases.values())
    outcome = "finished" if end == "exit 0" or explained else end
    altered = sorted(set(ALTERED.findall(log_path.read_text(encoding="utf-8", errors="replace"))))
    return outcome + (", altered: " + ", ".join(altered) if altered else "")


def cases_from(events_path, end):
    """Returns {case: {"outcome": …, "detail": …}} from a recorder's events.

    An id that comes again (one class in two suites, say) is numbered: "id #2". A case that began and has no outcome
    is the one that the process ended in.
    """
    lines = events_path.read_text(encoding="ascii").splitlines() if events_path.exists() else []
    gathered, times_seen, running = {}, {}, None
    for event in map(json.loads, lines):
        case = event["case"]
        if event["event"] == "stop":
            running = None
            continue
        if running is None or running[0] != case:
            # A start, or an outcome without one: what befalls a class or a module as a whole.
            times_seen[case] = times_seen.get(case, 0) + 1
            key = case if times_seen[case] == 1 else f"{case} #{times_seen[case]}"
            gathered[key] = []
            if event["event"] == "start":
                running = (case, key)
        else:
            key = running[1]
        if event["event"] != "start":
            gathered[key].append(event)
    return {key: case_from(events, end) for key, events in gathered.items()}


def case_from(events, end):
    """Returns one case's result; outcomes after one another (of the test and of tearDown, say) are joined."""
    outcomes = list(dict.fromkeys(event["outcome"] for event in events if event["event"] == "outcome"))
    subtests = sum(event["event"] == "subtest" for event in events)
    if subtests:
        outcomes.append(f"failed in {subtests} subtests")
    details = "\n".join(event["detail"] for event in events if event.get("detail"))
    return {"outcome": ", ".join(outcomes) or f"not finished: {end}", **({"detail": details} if details else {})}
