"""Installs a wheel of target/wheels into a fresh venv of each Python and uses it as its users do.

    run.py [--wheelhouse FOLDER] PYTHON...      with wheels that tools/build-wheels has built; needs the module venv

Installed beside it are pytest, pytest-xdist, gunicorn and NumPy, pinned in ../environments/pins/pyX.Y-wheel.txt, by pip
or from the wheelhouse. Prints each check; exit status 0 if all hold.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "environments"))
import make  # noqa: E402

ROOT = HERE.parent.parent
PINS = HERE.parent / "environments" / "pins"
DEPLOY = ROOT / "docs" / "deploy"
SECONDS = 120  # for a command, see --seconds
SYSTEM = "manylinux" if platform.libc_ver()[0] == "glibc" else "musllinux"

START_METHODS = """
import multiprocessing, os, sys
def hosted(_):
    import pyhost
    return pyhost.active, os.environ.get("LD_PRELOAD"), os.path.realpath(sys.executable)
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            found = set(pool.map(hosted, range(4)))
        assert found == {(True, None, os.path.realpath(sys.executable))}, (method, found)
    print("ok")
"""
CHILDREN = """
import os, shutil, subprocess, sys
code = "import pyhost; print(pyhost.active)"
def said(*command, **settings):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, **settings).stdout.decode().strip()
assert "LD_PRELOAD" not in os.environ and "PYHOST_INSIDE" not in os.environ
assert said(sys.executable, "-c", code) == "True"
assert said("python", "-c", code, env={**os.environ, "A": "1"}) == "True"
assert said("/bin/sh", "-c", 'echo "$LD_PRELOAD$PYHOST_INSIDE"') == ""
assert "pyhost" not in said("/bin/cat", "/proc/self/maps")
assert "libpyhost" in said(sys.executable, "-c", "print(open('/proc/self/maps').read())")
assert said(sys.executable, "-c", "print(open('/proc/self/cmdline').read().split(chr(0))[0])") == sys.executable
# As by the plain python: a name that is in no PATH leads nowhere.
assert said("nonexistent", "-c", "import sys; print([sys.executable])", executable=sys.executable) == "['']"
print("ok")
"""
CAUGHT = """
kept = []
try:
    while True: kept.append(bytearray(100_000))
except MemoryError:
    del kept
    print("caught")
"""
APP = """
import pyhost
def app(environ, start):
    start("200 OK", [("Content-Type", "text/plain")])
    return [str(pyhost.active).encode()]
"""
TESTS = """
import pytest, pyhost
@pytest.mark.limit_memory("4 MB")
def test_small(): assert pyhost.active is %s
@pytest.mark.limit_memory("1 MB")
def test_large(): bytearray(8 << 20)
"""


class Environment:
    """A fresh venv with the wheel."""

    def __init__(self, python, folder, arguments):
        self.folder, self.wheelhouse, self.emulated = folder, arguments.wheelhouse, arguments.emulated
        self.python = folder / "bin" / "python"
        run([python, "-m", "venv", folder])
        self.version = make.minor_of(self.python)
        tag = self.version.replace(".", "")  # 313t without a GIL
        name = f"pyhost-*-cp{tag.rstrip('t')}-cp{tag}-{SYSTEM}_*_{os.uname().machine}.whl"
        wheels = sorted((ROOT / "target" / "wheels").glob(name))
        if not wheels:
            raise SystemExit(f"run.py: there is no wheel for {self.version}; expected 'tools/build-wheels {python}' first")
        self.wheel = wheels[-1]
        pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "--no-index", self.wheel])
        source = [] if self.wheelhouse is None else ["--no-index", "--find-links", self.wheelhouse]
        run([*pip, *source, "-r", PINS / f"py{self.version}-wheel.txt"])

    def command(self, *words, name="pyhost"):
        return [self.folder / "bin" / name, *words]

    def said(self, *words, **settings):
        """What a hosted program prints."""
        return said(self.command(*words), cwd=self.folder, **settings)

    def result(self, command, **settings):
        return subprocess.run(command, cwd=self.folder, env=clean(), timeout=SECONDS, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8", **settings)


def clean():
    """The environment, with the venv of the check first in PATH by its caller where it wants that."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYHOST", "PYTHON"))}


def run(command):
    subprocess.run(command, check=True, env=clean(), stdout=subprocess.DEVNULL, timeout=10 * SECONDS)


def said(command, **settings):
    done = subprocess.run(command, env=clean(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                          timeout=SECONDS, **settings)
    if done.returncode != 0:
        raise AssertionError(f"status {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout.strip()


def readme_example(environment):
    script = ROOT / "python-scripts" / "where_memory_went.py"
    done = environment.result(environment.command("--stats", script))
    assert done.returncode == 0 and re.search(r"^total +[\d.]+ MiB", done.stderr, re.M), done
    report = json.loads(environment.result(environment.command("--stats=json", script)).stderr)
    assert report["accounts"]["native"]["peak_bytes"] > 10_000_000, report["accounts"]


def same_python(environment):
    """The venv, its interpreter, its packages and what the kernel says (AT_PAGESZ) are those of the plain python."""
    code = ("import ctypes, sys; print(sys.prefix, sys.executable, sys.version, sys.path[1:], sys.flags,"
            "ctypes.CDLL(None).getauxval(6))")
    assert environment.said("-c", code) == said([environment.python, "-c", code], cwd=environment.folder)


def cap(environment):
    assert environment.said("--cap", "64M", "-c", CAUGHT) == "caught"
    refused = environment.result(environment.command("--cap", "much", "-c", ""))
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1), refused


def lines(environment):
    """`--lines` names the line that holds the memory."""
    script = environment.folder / "lines.py"
    script.write_text("import json\nkept = list(map(bytes, [1000] * 20_000))\n")
    done = environment.result(environment.command("--lines=16K", script))
    assert done.returncode == 0 and re.search(r"^ +\d+\.\d MiB ± .* obj .*lines\.py:2 in <module>", done.stderr, re.M), done


def growing_block(environment):
    """The kernel reads into a block that grows, and is moved by the page."""
    with subprocess.Popen(["head", "-c", "5000000", "/dev/zero"], stdout=subprocess.PIPE) as pipe:
        assert environment.said("-c", "print(len(open(0, 'rb', buffering=0).readall()))", stdin=pipe.stdout) == "5000000"


def by_module(environment):
    """`python -m pyhost`."""
    code = "import pyhost, sys; print(pyhost.active, sys.argv)"
    command = [environment.python, "-m", "pyhost", "--cap", "1G", "-c", code, "a b"]
    assert said(command) == "True ['-c', 'a b']"


def numpy(environment):
    code = ("import numpy, pyhost; a = numpy.ones(1_000_000); "
            "print(pyhost.memory_stats()['accounts']['numpy']['live_bytes'] >= a.nbytes)")
    assert environment.said("-c", code) == "True"


def start_methods(environment):
    script = environment.folder / "methods.py"
    script.write_text(START_METHODS)
    assert environment.said(script) == "ok"


def children(environment):
    settings = {**clean(), "PATH": f"{environment.folder / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(environment.command("-c", CHILDREN), env=settings, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", timeout=SECONDS)
    assert done.stdout == "ok\n", done.stderr


def users_preload(environment):
    """A list of libraries that the user preloads is the script's and its children's."""
    of_glibc = ("lib/*-linux-gnu*/libSegFault.so", "lib/*-linux-gnu*/libm.so.6")
    names = of_glibc if SYSTEM == "manylinux" else ("usr/lib/libpython3.so", "usr/local/lib/libpython3.so")
    library = next(path for name in names for path in pathlib.Path("/").glob(name))
    code = "import os; print(os.environ['LD_PRELOAD']); os.system('echo $LD_PRELOAD')"
    done = subprocess.run(environment.command("-u", "-c", code), env={**clean(), "LD_PRELOAD": str(library)},
                          stdout=subprocess.PIPE, encoding="utf-8", timeout=SECONDS)
    assert done.stdout.split() == [str(library)] * 2, done


def gunicorn(environment):
    if subprocess.run([environment.python, "-c", "import ssl"], stderr=subprocess.DEVNULL).returncode != 0:
        print("skipped: gunicorn: this Python has no module ssl, which it imports")
        return
    (environment.folder / "app.py").write_text(APP)
    command = environment.command("-m", "gunicorn", "--workers=2", "--bind=127.0.0.1:0", "app:app")
    server = subprocess.Popen(command, cwd=environment.folder, env=clean(), stderr=subprocess.PIPE, encoding="utf-8")
    watchdog = threading.Timer(SECONDS, server.kill)
    watchdog.start()
    try:
        line = next(line for line in server.stderr if "Listening at" in line)
        address = re.search(r"http://[\d.:]+", line).group()
        end = time.monotonic() + SECONDS
        answer = None
        while answer is None and time.monotonic() < end:
            try:
                answer = urllib.request.urlopen(address, timeout=5).read()
            except OSError:
                time.sleep(0.1)
        assert answer == b"True", answer
    finally:
        watchdog.cancel()
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=SECONDS)
    assert server.returncode == 0, server.returncode


def pytest(environment):
    tests = environment.folder / "test_memory.py"
    tests.write_text(TESTS % True)
    done = environment.result(environment.command("-m", "pytest", "-n2", "-p", "pyhost_pytest", tests))
    assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout, done.stdout
    tests.write_text(TESTS % False)
    plain = [environment.python, "-m", "pytest", "-p", "pyhost_pytest", "--memory-limit=1MB", tests]
    done = environment.result(plain)
    assert done.returncode == 0 and "no memory is measured" in done.stdout, done.stdout


def plain_import(environment):
    code = ("import pyhost; print(pyhost.active)\n"
            "@pyhost.track\ndef f(): return 7\n"
            "with pyhost.track() as t: f()\n"
            "print(t.peak_growth_bytes, pyhost.Snapshot, f.last_track.growth_bytes)\n"
            "try: pyhost.memory_stats()\nexcept RuntimeError as error: print(error)")
    done = environment.result([environment.python, "-c", code])
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[0] == "False" and "does not run under the host" in lines[2], done
    assert done.stderr.count("RuntimeWarning") == 1, done.stderr


def nested_venv(environment):
    nested = environment.folder / "nested"
    environment.said("-m", "venv", "--system-site-packages", nested)
    code = "import sys; print(sys.prefix)"
    assert environment.said("--python", nested / "bin" / "python", "-c", code) == str(nested)
    found = said([nested / "bin" / "python", "-c", "import sys; print(sys.prefix)"])
    assert found == str(nested), found


def pip_inside(environment):
    """The wheel is taken away and installed again by a pip that it runs."""
    wheel = str(environment.wheel)
    environment.said("-m", "pip", "install", "--quiet", "--no-index", "--force-reinstall", "--no-deps", wheel)
    assert environment.said("-c", "print(1)") == "1"


def installers(environment):
    """uv and pipx install the wheel, and run it without installing it."""
    if environment.wheelhouse is not None:
        print("skipped: installers: there is no index, which pipx needs")
        return
    folder = environment.folder / "installers"
    try:
        tools = make.environment(sys.executable, "installers") / "bin"
    except make.BadName as error:
        print(f"skipped: installers: {error}")
        return
    settings = {**clean(), "UV_CACHE_DIR": str(folder / "cache"), "PIPX_HOME": str(folder / "pipx"),
                "PIPX_BIN_DIR": str(folder / "bin")}
    # The interpreter beneath the venv: pipx makes no venv from one.
    python = said([environment.python, "-c", "import sys; print(sys._base_executable)"])
    uv, pipx = [str(tools / "uv"), "--quiet"], [str(tools / "pipx")]
    for command in (
        [*uv, "venv", "--python", python, folder / "venv"],
        [*uv, "pip", "install", "--no-index", "--python", folder / "venv", environment.wheel],
        [*pipx, "install", "--python", python, "--pip-args=--no-index", environment.wheel],
    ):
        done = subprocess.run(command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                              timeout=SECONDS)
        assert done.returncode == 0, (command, done.stdout)
    hosted = ["-c", "import pyhost; print(pyhost.active)"]
    for command in (
        [folder / "venv" / "bin" / "pyhost", *hosted],
        [folder / "bin" / "pyhost", *hosted],
        [*uv, "tool", "run", "--no-index", "--python", python, "--from", environment.wheel, "pyhost", *hosted],
        [*pipx, "run", "--python", python, "--pip-args=--no-index", "--spec", environment.wheel, "pyhost", *hosted],
    ):
        done = subprocess.run(command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                              timeout=SECONDS)
        assert done.stdout == "True\n", (command, done)


def clear_lines(environment):
    """What cannot be hosted is reported in one line."""
    script = environment.folder / "script"
    script.write_text("#!/bin/sh\nexec python3 \"$@\"\n")
    script.chmod(0o755)
    other = environment.command(name="pyhostctl")[0]
    for path, expected in [(script, "is a script"), ("/nowhere/python", "cannot be read"), (other, "is no CPython")]:
        done = environment.result(environment.command("--python", path, "-c", "print(1)"))
        assert done.returncode in (1, 2) and done.stdout == "", (path, done)
        assert done.stderr.count("\n") == 1 and expected in done.stderr, (path, done)


def controller(environment):
    done = environment.result(environment.command("--help", name="pyhostctl"))
    assert done.returncode == 0 and "usage" in done.stdout.lower(), done
    if environment.emulated:
        print("skipped: controller: QEMU's user mode refuses the process that makes the page (clone without SIGCHLD)")
        return
    page = environment.folder / "page.html"
    done = environment.result(environment.command(f"--stats=html,file={page}", "-c", "print(1)"))
    assert done.returncode == 0 and page.stat().st_size > 10_000, done


def deployment(environment):
    """The files of docs/deploy: the unit is one that systemd takes, and the commands run."""
    folder = environment.folder / "deploy"
    folder.mkdir()
    (folder / "server.py").write_text("import pyhost; print(pyhost.active, pyhost.get_cap() is not None)")
    unit = (DEPLOY / "app.service").read_text()
    unit = unit.replace("/opt/app/env", str(environment.folder)).replace("/opt/app", str(folder))
    (folder / "app.service").write_text(unit)
    if not shutil.which("systemd-analyze"):
        print("skipped: deployment: there is no systemd-analyze, which checks the unit")
    else:
        done = environment.result(["systemd-analyze", "verify", folder / "app.service"])
        assert (done.returncode, done.stderr) == (0, ""), done
    commands = [re.search("^ExecStart=(.*)", unit, re.M).group(1).replace("/run/app", str(folder)).split()]
    for file in ("Dockerfile", "kubernetes.yaml"):
        words = json.loads(re.search(r'\["pyhost".*\]', (DEPLOY / file).read_text()).group())
        commands.append([word.replace("/dev/termination-log", str(folder / file)) for word in words])
    settings = {**clean(), "PATH": f"{environment.folder / 'bin'}:{os.environ['PATH']}"}
    for command in commands:
        done = subprocess.run(command, cwd=folder, env=settings, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8", timeout=SECONDS)
        assert done.stdout.startswith("True"), (command, done)
    tests = re.findall("run: (pyhost .*)", (DEPLOY / "github-workflow.yml").read_text())
    (folder / "test_nothing.py").write_text("def test_nothing(): pass\n")
    done = subprocess.run(tests[0].split(), cwd=folder, env=settings, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8", timeout=SECONDS)
    assert done.returncode == 0 and "1 passed" in done.stdout, done


CHECKS = [readme_example, same_python, cap, lines, growing_block, by_module, numpy, start_methods, children, users_preload, gunicorn, pytest,
          plain_import, nested_venv, pip_inside, installers, clear_lines, controller, deployment]


def main():
    global SECONDS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("pythons", metavar="PYTHON", nargs="+")
    parser.add_argument("--wheelhouse", type=pathlib.Path, help="install packages from this folder, not from an index")
    parser.add_argument("--emulated", action="store_true", help="the processor is emulated by QEMU's user mode (in_arm64.sh)")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="longest time of a command")
    arguments = parser.parse_args()
    SECONDS = arguments.seconds
    failed = 0
    for python in arguments.pythons:
        path = shutil.which(python)
        with tempfile.TemporaryDirectory(prefix="pyhost-wheel-") as folder:
            environment = Environment(path, pathlib.Path(folder, "venv").resolve(), arguments)
            print(f"{environment.wheel.name} ({environment.wheel.stat().st_size:,} bytes) in {path}", flush=True)
            for check in CHECKS:
                try:
                    check(environment)
                except Exception as error:  # noqa: BLE001, a failed check stops no other
                    failed += 1
                    print(f"  {check.__name__}: FAILED: {type(error).__name__}: {error}", flush=True)
                else:
                    print(f"  {check.__name__}: ok", flush=True)
    total = len(CHECKS) * len(arguments.pythons)
    print(f"{total - failed} of {total} checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
