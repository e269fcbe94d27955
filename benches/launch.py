"""Starts the processes that are measured: a clean environment, no input, and an error that says what went wrong.

Nothing of the caller's shell that steers an interpreter or an allocator reaches them, and string hashing is the same
in every process, so that two interpreters do the same work.
"""

import json
import os
import re
import subprocess
import time

STEERING = ("PYTHON", "PYHOST_", "MIMALLOC_", "MALLOC_", "LD_", "GLIBC_TUNABLES", "_RJEM_")
FIXED = {"PYTHONHASHSEED": "0", "PYTHONNOUSERSITE": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class Failed(Exception):
    """A measured process did not end well; the message is one line."""


def clean_environment(more=()):
    """Returns the caller's environment without what steers an interpreter or an allocator, and with `more`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(STEERING)}
    return {**kept, **FIXED, **dict(more)}


def output_of(command, env=None, timeout=1800):
    """Runs a command and returns what it wrote to its standard output and standard error."""
    try:
        answer = subprocess.run(
            [str(word) for word in command], env=clean_environment() if env is None else env, timeout=timeout,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
        )
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"{command_line(command)}: not ended after {timeout} s") from None
    if answer.returncode != 0:
        said = last_line(answer.stderr) or last_line(answer.stdout) or "no output"
        raise Failed(f"{command_line(command)}: exit status {answer.returncode}: {said}")
    return answer.stdout, answer.stderr


def json_of(command, env):
    """Runs a command and returns the JSON in the last line of its standard output."""
    output, _ = output_of(command, env)
    lines = output.strip().splitlines()
    try:
        return json.loads(lines[-1])
    except (IndexError, ValueError):
        raise Failed(f"{command_line(command)}: no JSON in its last line") from None


def times_of(command, env):
    """Runs a command and returns its seconds: elapsed, and of the processor (its own and the kernel's for it)."""
    return usage_of(command, env)[:2]


def usage_of(command, env):
    """Runs a command and returns its seconds, as `times_of`, and the peak of its resident KiB."""
    began = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, close_fds=False)
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.perf_counter() - began
    process.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    if process.returncode != 0:
        raise Failed(f"{command_line(command)}: exit status {process.returncode}")
    return elapsed, usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def last_line(output):
    """Returns the last line that is not empty and not Valgrind's, or "" without one."""
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith("==")]
    return lines[-1].strip() if lines else ""


def command_line(command):
    """Returns a command for a message: files by their names alone, and not all of a long script."""
    words = [re.sub(r"/\S*/", "", str(word)) for word in command]
    return " ".join(word if len(word) < 40 and "\n" not in word else "..." for word in words[:8])
