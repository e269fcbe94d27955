"""A run of program.py: its outcome, and where it ended."""

import re
import signal

MEMORY_ERROR = "MemoryError"
SURVIVED = "survived"
WRONG_RESULT = "wrong result"
OTHER_ERROR = "other exception"
FATAL = "fatal error"
HANG = "hang"
NOT_INJECTED = "not injected"
# In the order of the table; a crash is named by its signal.
ORDER = [MEMORY_ERROR, SURVIVED, OTHER_ERROR, WRONG_RESULT, FATAL, HANG, NOT_INJECTED]

_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)")
_MODULE = re.compile(r'^  File "(.*)", line (\d+),? in <module>$', re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')


def is_crash(outcome):
    """Says whether a signal, or CPython's last resort, ended the process."""
    return outcome == FATAL or outcome.startswith("SIG")


def is_bad(outcome):
    """Says whether the process did not end by itself."""
    return outcome == HANG or is_crash(outcome)


def last_exception(errors):
    """Returns the name of the exception that a traceback ends with, or None."""
    for line in reversed(errors.splitlines()[-12:]):
        found = _EXCEPTION.match(line)
        if found and not line.startswith(("Traceback", "Exception ignored")):
            return found[1].rpartition(".")[2]
    return None


def fatal_message(errors):
    """Returns what CPython said itself on its way out, or None; its faulthandler's words for a signal do not count."""
    for line in errors.splitlines():
        if line.startswith("Fatal Python error: "):
            text = line.removeprefix("Fatal Python error: ")
            if text not in ("Segmentation fault", "Aborted", "Bus error", "Floating point exception"):
                return text
    return None


def classify(status, output, errors, expected):
    """Returns the outcome of a run. `status` is subprocess's, None for a run that was ended; `expected` the result's
    line of a run without a failure."""
    if status is None:
        return HANG
    if status < 0:
        return FATAL if fatal_message(errors) else signal.Signals(-status).name
    if status == 0:
        return SURVIVED if expected in output.splitlines() else WRONG_RESULT
    name = last_exception(errors) or ""
    return MEMORY_ERROR if name.endswith(MEMORY_ERROR) else OTHER_ERROR


def python_stack(errors):
    """Returns the stack that faulthandler printed of the current thread, innermost first: [[file's name, line,
    function]]. Of a process with several threads, that of the one that crashed."""
    lines = errors.splitlines()
    starts = [index for index, line in enumerate(lines) if line.startswith(("Current thread", "Stack (most recent"))]
    stack = []
    for line in lines[starts[-1] + 1:] if starts else []:
        found = _FRAME.match(line)
        if not found:
            break
        stack.append([short(found[1]), int(found[2]), found[3]])
    return stack


def progress(errors):
    """Returns how far the modules had come that a run's last traceback, or the stack of its crash, names: [[file's name, line]], outermost first."""
    last = errors.rpartition("Traceback (most recent call last)")[2] if "Traceback (most" in errors else errors
    found = [[short(name), int(line)] for name, line in _MODULE.findall(last)]
    return found if "Traceback (most" in errors else found[::-1]


def is_before(left, right):
    """Says whether a run's progress is before another's; None if that cannot be told: they are at the same place, or in modules that differ."""
    for (file, line), (other, at) in zip(left, right):
        if file != other:
            return None
        if line != at:
            return line < at
    return None


def short(path):
    """Returns a file's name without the folders that differ between machines."""
    for mark in ("/site-packages/", "/lib/python3"):
        if mark in path:
            return path.rpartition(mark)[2].partition("/")[2] if mark.startswith("/lib") else path.rpartition(mark)[2]
    return path.rpartition("/")[2]
