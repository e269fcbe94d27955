"""pyhost.run: what comes of snippets that end, fail, run late, take too much, write too much, and leave processes behind."""

import json
import os
import signal
import sys
import threading
import time

import pyhost

MIB = 1 << 20


def words(verdict):
    """Of the output, without the line of a free-threaded Python with a cap."""
    return [word for line in verdict.output.splitlines() if not line.startswith("pyhost: --cap, --region: ") for word in line.split()]


def values():
    assert pyhost.run("a = 20\na + 1").result == 21
    assert pyhost.run("[{'a': None}, 'é']").result == [{"a": None}, "é"]
    assert pyhost.run("{1, 2}").result == "{1, 2}"
    assert pyhost.run("a = 1").result is None
    verdict = pyhost.run("import sys\nprint('out')\nsys.stderr.write('err\\n')\nsys.argv, sys.stdin.read(), __name__")
    assert verdict.reason == "ok" and verdict.status == 0 and verdict.error is None, verdict
    assert sorted(words(verdict)) == ["err", "out"] and verdict.result == [["-c"], "", "__main__"], verdict
    assert 4 * MIB < verdict.peak_bytes < 100 * MIB and 0 < verdict.seconds < 10, verdict
    json.dumps(verdict._asdict())
    verdict = pyhost.run("rows = [str(n) for n in range(100_000)]")
    assert verdict.lines and {line["file"] for line in verdict.lines} == {"<snippet>"}, verdict


def errors():
    verdict = pyhost.run("def divide(by):\n    return 1 / by\n\ndivide(0)")
    assert verdict.reason == "error" and verdict.status == 1, verdict
    told = verdict.error.splitlines()
    assert told[0] == "Traceback (most recent call last):" and told[-1] == "ZeroDivisionError: division by zero", verdict
    assert '  File "<snippet>", line 4, in <module>' == told[1] and "    return 1 / by" in told, verdict
    told = pyhost.run("1 +").error.splitlines()
    assert told[0] == '  File "<snippet>", line 1' and told[-1].startswith("SyntaxError: invalid syntax"), told
    verdict = pyhost.run("import sys\nsys.exit(7)")
    assert (verdict.reason, verdict.status, verdict.error) == ("exit", 7, None), verdict
    verdict = pyhost.run("import os\nos.abort()")
    assert (verdict.reason, verdict.status) == ("signal", -signal.SIGABRT), verdict
    verdict = pyhost.run("import os\nos._exit(2)", cap="64M")
    assert (verdict.reason, verdict.status) == ("exit", 2), verdict
    for wrong in ("much", "1M"):
        try:
            pyhost.run("1", cap=wrong)
        except ValueError as error:
            assert str(error) == f"run: bad cap {wrong!r}; expected a size such as '64M', 16M at least", error
        else:
            raise AssertionError(wrong)


def memory():
    verdict = pyhost.run("rows = []\nwhile True:\n    rows.append(bytes(1000))", cap="64M")
    assert verdict.reason == "memory" and "MemoryError: cap of 64.0 MiB (tree) reached" in verdict.error, verdict
    assert 40 * MIB < verdict.peak_bytes < 90 * MIB, verdict
    line = verdict.lines[0]
    assert (line["file"], line["line"]) == ("<snippet>", 3) and 35 * MIB < line["bytes"] < 64 * MIB, verdict
    # Its processes have the cap together.
    verdict = pyhost.run("""
import subprocess, sys
code = "kept = [bytes(1000) for _ in range(30_000)]; print('kept', flush=True); input()"
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
children = []
for _ in range(4):
    children.append(subprocess.Popen([sys.executable, "-c", code], **pipes))
    print(children[-1].stdout.readline().decode())
[child.communicate(b"\\n") for child in children] and None""", cap="100M", seconds=60)
    assert verdict.reason == "ok" and words(verdict) == ["kept", "kept"], verdict


def time_limit():
    verdict = pyhost.run("kept = bytearray(20 << 20)\nwhile True:\n    pass", seconds=4)
    assert verdict.reason == "time" and verdict.error.endswith("KeyboardInterrupt\n") and verdict.seconds < 30, verdict
    assert verdict.lines[0]["line"] == 1 and verdict.lines[0]["bytes"] >= 20 * MIB, verdict
    verdict = pyhost.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", seconds=4)
    assert (verdict.reason, verdict.status, verdict.lines) == ("time", -signal.SIGKILL, []), verdict


def output():
    verdict = pyhost.run("import sys\nfor _ in range(4000):\n    sys.stdout.write('x' * 1000)\n'y' * 3_000_000")
    first, end, _ = verdict.output.partition("\n")  # of a free-threaded Python the line about caps
    notice = first + end if first.startswith("pyhost: --cap, --region: ") else ""
    assert verdict.output == (notice + "x" * MIB)[:MIB], verdict.output[:1000]
    assert verdict.reason == "ok" and verdict.result == "'" + "y" * (MIB - 1), verdict.reason
    verdict = pyhost.run("while True:\n    print('flood')", seconds=4)
    assert verdict.reason == "time" and len(verdict.output) == MIB, verdict.reason


def processes():
    verdict = pyhost.run("import subprocess\nsubprocess.Popen(['sleep', '600']).pid")
    assert verdict.reason == "ok" and verdict.seconds < 60, verdict
    for _ in range(200):
        try:
            os.kill(verdict.result, 0)
        except ProcessLookupError:
            break
        # It is an orphan: who adopts it has to wait for it.
        with open(f"/proc/{verdict.result}/stat") as file:
            if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                break
        time.sleep(0.01)
    else:
        raise AssertionError("a process of the snippet lives")
    began = time.monotonic()
    verdict = pyhost.run("import subprocess\nsubprocess.Popen(['sleep', '9'], start_new_session=True)\n1")
    assert (verdict.reason, verdict.result) == ("ok", 1) and time.monotonic() - began < 9, verdict
    verdict = pyhost.run("import os\nif os.fork():\n    os.wait()\n'parent' if os.getppid() == %d else 'child'" % os.getpid())
    assert verdict.result == "parent", verdict


def threads():
    found = {}

    def one(number):
        found[number] = pyhost.run(f"{number} * 2").result

    started = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert found == {number: number * 2 for number in range(4)}, found
    before = sorted(os.listdir("/proc/self/fd"))
    pyhost.run("1")
    assert sorted(os.listdir("/proc/self/fd")) == before


for case in (values, errors, memory, time_limit, output, processes, threads):
    if len(sys.argv) < 2 or case.__name__ in sys.argv[1:]:
        case()
print("ran")
