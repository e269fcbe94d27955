"""The facts of an interpreter that the comparison uses, and which of CPython's test modules it runs with it.

`Interpreter` is plain data that names one executable, stock Python or the host, so exactly that a kept result can be
told from the result of another build. The list of modules and the short slice of it are here too.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import subprocess

MODULES = (
    "test_cmd_line", "test_sys", "test_site", "test_venv", "test_subprocess", "test_signal", "test_threading",
    "test_multiprocessing_spawn", "test_multiprocessing_fork", "test_multiprocessing_forkserver", "test_gc",
    "test_tracemalloc", "test_faulthandler", "test_capi", "test_exceptions", "test_io", "test_ssl", "test_sqlite3",
    "test_import", "test_importlib", "test_runpy", "test_zipimport", "test_asyncio", "test_concurrent_futures",
)
SLICE = ("test_sys", "test_cmd_line", "test_gc", "test_exceptions", "test_runpy", "test_site", "test_faulthandler")

# Of each side with CPython's debug hooks: the host's lie over its own.
DEBUG_HOOKS = {"stock": (("PYTHONMALLOC", "debug"),), "pyhost": (("PYHOST_DEBUG_HOOKS", "1"),)}

FACTS = """
import json, os, sys, test
print(json.dumps({
    "release": "%d.%d.%d" % sys.version_info[:3],
    "version": sys.version,
    "tests": os.path.dirname(os.path.abspath(test.__file__)),
}))
"""


@dataclasses.dataclass(frozen=True)
class Interpreter:
    """One executable under test; `kind` is "stock" or "pyhost", and the folder that its results are kept in."""

    kind: str
    executable: str
    release: str
    version: str
    sha256: str
    tests: str
    # Of the environment of its runs, beside the caller's.
    variables: tuple = ()

    @property
    def minor(self):
        """The release without its last part: "3.11" for "3.11.7"."""
        return self.release.rsplit(".", 1)[0]

    def identity(self):
        """Returns what a kept result must have been made with to stand for this interpreter."""
        variables = {"variables": dict(self.variables)} if self.variables else {}
        return {"executable": self.executable, "version": self.version, "sha256": self.sha256, **variables}

    def module_name(self, module):
        """Returns the name that this release has for a module: sqlite's tests were renamed in 3.11."""
        old = tuple(map(int, self.minor.split("."))) < (3, 11)
        return "test_sqlite" if module == "test_sqlite3" and old else module

    def has_module(self, module):
        """Says whether the module was installed with this Python; some releases forget a few."""
        return module_path(self.tests, module) is not None


class UnusableInterpreter(Exception):
    """The executable cannot be asked what it is, or has no test suite."""


def examine(kind, executable, variables=()):
    """Asks the executable, a path or a name on PATH, for its version and its tests; its runs have the variables."""
    path = pathlib.Path(shutil.which(executable) or executable).absolute()
    if not path.is_file():
        raise UnusableInterpreter(f"{executable}: no such executable")
    answer = ask(path, "-c", FACTS)
    if answer.returncode != 0:
        raise UnusableInterpreter(f"{executable}: cannot tell its version and tests: {answer.stderr.strip()}")
    facts = json.loads(answer.stdout)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Interpreter(kind, str(path), sha256=digest, variables=variables, **facts)


def host_version(executable):
    """Returns what `pyhost --host-version` says, or "unknown" for a stand-in that has no such option."""
    answer = ask(executable, "--host-version")
    return answer.stdout.strip() if answer.returncode == 0 else "unknown"


def ask(executable, *arguments):
    """Runs the executable where no folder of the caller's can be imported by mistake."""
    return subprocess.run(
        [str(executable), *arguments],
        cwd="/", env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )


def clean_environment():
    """Returns the caller's environment without what steers an interpreter."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYHOST_"))}


def module_path(folder, module):
    """Returns the file or the package of a test module below a folder of tests, or None."""
    for path in (pathlib.Path(folder, module + ".py"), pathlib.Path(folder, module)):
        if path.is_file() or (path / "__init__.py").is_file():
            return path
    return None
