"""pyhost.run: a snippet in a child process of its own, below a cap and a limit of time; what came of it is data."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import namedtuple

import pyhost

Verdict = namedtuple("Verdict", "reason result output error status seconds peak_bytes lines")
Verdict.__doc__ = """What came of a snippet, as pyhost.run() returns it; _asdict() makes a dictionary that JSON can hold.

reason: 'ok', 'memory' (a MemoryError, or the cap's last resort), 'time', 'error' (another error), 'exit' (SystemExit) or 'signal'. result: the
value of the last expression, as JSON can hold it, else its repr(); output: stdout and stderr together; error: the traceback, None without
one; status: of the process, below zero for a signal; seconds: of the whole process; peak_bytes: its highest resident size; lines: the ten
lines with the most bytes then, as dictionaries. A process that was killed has neither peak nor lines (None and empty).
"""

# The most characters of output and result that are kept, and how long a snippet has to end after its time.
_MOST, _GRACE = 1 << 20, 1.0

# What the child runs. A process that the snippet forks off writes nothing. The buffer is small: it has to fit below a cap that was reached.
_CHILD = '''
def main(folder, most):
    import ast, builtins, json, linecache, os, sys, traceback
    with open(folder + "/code", encoding="utf-8") as file, open(folder + "/verdict", "w"):
        text = file.read()
    space = {"__name__": "__main__", "__builtins__": builtins}
    linecache.cache["<snippet>"] = len(text), None, text.splitlines(True), "<snippet>"
    own, found, status = os.getpid(), {"reason": "ok"}, 0
    try:
        tree, last = ast.parse(text, "<snippet>"), None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = compile(ast.Expression(tree.body.pop().value), "<snippet>", "eval")
        exec(compile(tree, "<snippet>", "exec"), space)
        if last:
            value = eval(last, space)
            try:
                shown = json.dumps(value)
            except (TypeError, ValueError, RecursionError):
                shown = json.dumps(repr(value)[:most])
            found["result"] = json.loads(shown) if len(shown) <= most else repr(value)[:most]
    except SystemExit as error:
        found["reason"], status = "exit", error.code
    except BaseException as error:
        found["reason"], status = "memory" if isinstance(error, MemoryError) else "error", 1
        calls = error.__traceback__
        while calls and calls.tb_frame.f_code.co_filename != "<snippet>":
            calls = calls.tb_next
        found["error"] = "".join(traceback.format_exception(type(error), error, calls))[-most:]
        print(found["error"], end="", file=sys.stderr)
        del error
    if os.getpid() == own:
        with open(folder + "/verdict", "w", 4096) as file:
            json.dump(found, file)
    sys.exit(status)

import sys
main(sys.argv.pop(1), int(sys.argv.pop(1)))
'''


def run(code, *, cap="256M", seconds=10, cwd=None):
    """Run a snippet of Python in a child process of the host, and return its Verdict; errors of the snippet are in it, and not raised.

    The child and all hosts that descend from it have `cap` together, or each has it below the tree's if this process is below one. After
    `seconds` the child gets a KeyboardInterrupt, and a second later it is killed; all processes of its group are killed when it has ended. It
    has this process's environment, packages and rights, and no standard input: it is no sandbox. Any thread; with asyncio, `await
    asyncio.to_thread(pyhost.run, code)`. ValueError: the host refused `cap`. OSError: no child could be started.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYHOST_")}
    caps = os.environ.get("PYHOST_CAP", "")
    if "tree=" in caps:
        environment.update(PYHOST_CAP=f"{caps};{cap}", PYHOST_TREE=os.environ.get("PYHOST_TREE", ""))
    else:
        environment["PYHOST_CAP"] = f"tree={cap}"
    with tempfile.TemporaryDirectory(prefix="pyhost-run-") as folder:
        with open(os.path.join(folder, "code"), "w", encoding="utf-8") as file:
            file.write(code)
        report = os.path.join(folder, "report")
        environment.update(PYHOST_STATS=f"json,file={report.replace(',', ',,')}", PYHOST_LINES="on")
        host = [] if pyhost.active else ["-m", "pyhost"]
        command = [sys.executable, *host, "-c", _CHILD, folder, str(_MOST)]
        status, output, is_late, took = _attend(command, seconds, env=environment, cwd=cwd)
        has_begun, found, said = "verdict" in os.listdir(folder), _read(folder, "verdict"), _read(folder, "report")
    if status == 2 and not has_begun:
        raise ValueError(f"run: bad cap {cap!r}; expected a size such as '64M', 16M at least")
    reason = "memory" if status == 53 else "signal" if status < 0 else "exit"
    reason = "time" if is_late else found.get("reason", reason)
    peak, lines = said.get("process", {}).get("peak_resident_bytes"), said.get("lines") or {}
    return Verdict(reason, found.get("result"), output, found.get("error"), status, took, peak, _largest(lines.get("at_resident_peak") or lines.get("at_peak", ())))


def _attend(command, seconds, **options):
    """Runs a command to its end or until it is late; returns its status, what it wrote, whether it was late, and how long it took."""
    began, is_late, kept = time.monotonic(), False, []
    deadline = began + float(seconds)
    inner, outer = os.pipe()
    reader = threading.Thread(target=_collect, args=(inner, kept), daemon=True)
    reader.start()
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=outer, stderr=outer, start_new_session=True, **options)
    finally:
        os.close(outer)
    try:
        while not os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            if time.monotonic() > deadline:
                child.send_signal(signal.SIGKILL if is_late else signal.SIGINT)
                is_late, deadline = True, time.monotonic() + _GRACE
            time.sleep(0.01)
    finally:
        # It is not waited for yet: its number is nobody else's.
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        reader.join(_GRACE)
    return child.returncode, b"".join(kept).decode(errors="replace"), is_late, time.monotonic() - began


def _collect(pipe, kept):
    """Reads a pipe to its end, and keeps the begin. It may be open for longer than the child, in a process that left its group."""
    left = _MOST
    with open(pipe, "rb", 0) as file:
        while piece := file.read(1 << 16):
            kept.append(piece[:left])
            left -= len(kept[-1])


def _read(folder, name):
    """A file that the child may have written: an empty dictionary without it."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def _largest(stacks):
    """The ten lines with the most bytes: of each stack the innermost call of the snippet, or in a thread without one of Python. What the
    child made for itself, and what its host imported before, is left out."""
    found = {}
    for stack in stacks:
        calls = stack["stack"]
        own = [call for call in calls if call["file"] == "<snippet>"]
        is_childs = any(call["file"] == "<string>" for call in calls) or calls[-1:] and calls[-1]["file"].startswith("<frozen importlib.")
        for call in (own or ([] if is_childs else calls))[:1]:
            place = call["file"], call["line"], call["function"]
            found[place] = found.get(place, 0) + stack["bytes"]
    largest = sorted(found.items(), key=lambda item: -item[1])[:10]
    return [{"file": file, "line": line, "function": function, "bytes": size} for (file, line, function), size in largest]
