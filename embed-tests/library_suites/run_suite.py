"""Runs one suite with one interpreter, in a process, a session and a folder of its own, as cpython_suite/run.py does.

Stock Python and the host are started by the same lines; only the executable's path differs, and that the host is
given its own options and told to leave a report. The process has none of the caller's variables that steer Python,
pytest, NumPy or the host. PYTHONPATH holds the environment's site-packages and a folder with the recorder; PATH begins
with the environment's tools, since NumPy's tests compile extensions by meson.

Tests are named by path, not by --pyargs: pandas' conftest.py has options, which pytest sees in time by path only. An
empty pytest.ini keeps pytest from the settings that a library may have left in its package.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import time

import interpreters
import run
from classify import is_trouble

RECORDER = pathlib.Path(__file__).with_name("record_outcomes.py")
STEERING = ("PYTHON", "PYHOST", "PYTEST", "NPY_", "NUMPY_", "HYPOTHESIS")
FACTS = "import json, sys; print(json.dumps({'release': '%d.%d.%d' % sys.version_info[:3], 'version': sys.version}))"


@dataclasses.dataclass(frozen=True)
class Side(interpreters.Interpreter):
    """An interpreter with what it is given to run; all of it makes a kept result stand for a run of today."""

    environment: str = ""  # a digest of the pins
    options: tuple = ()  # of the host
    arguments: tuple = ()  # of pytest

    def identity(self):
        return {**super().identity(), "environment": self.environment, "options": list(self.options),
                "arguments": list(self.arguments)}


def examine(kind, executable, site_packages, environment, options=(), variables=()):
    """Asks the executable, with its options, for its version; its runs have the variables."""
    path = pathlib.Path(executable).absolute()
    if not path.is_file():
        raise interpreters.UnusableInterpreter(f"{executable}: no such executable")
    answer = interpreters.ask(path, *options, "-c", FACTS)
    if answer.returncode != 0:
        raise interpreters.UnusableInterpreter(f"{executable}: cannot tell its version: {answer.stderr.strip()}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Side(kind, str(path), sha256=digest, tests=str(site_packages), environment=environment,
                options=tuple(options), variables=variables, **json.loads(answer.stdout))


class SuiteRunner(run.Runner):
    """Runs suites until `stop` is set; `tools` is the environment's folder of executables."""

    def __init__(self, timeout, tools):
        super().__init__(timeout)
        self.tools = tools

    def _run_in(self, folder, mark, interpreter, module, log_path):
        for name in ("cwd", "tmp", "recorder"):
            (folder / name).mkdir()
        for file in (RECORDER, run.RECORDER):
            shutil.copy(file, folder / "recorder")
        (folder / "cwd" / "pytest.ini").write_text("[pytest]\n", encoding="ascii")
        events, report = folder / "events", folder / "report.json"
        env = {**environment_for(interpreter, folder, self.tools), run.MARK: mark, "PYHOST_STATS": f"file={report}"}
        began = time.monotonic()
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with open(log_path, "wb") as log:
            end = self._end_of(command_for(interpreter, events), folder / "cwd", env, log)
        seconds = round(time.monotonic() - began, 1)
        cases = below_site_packages(run.cases_from(events, end), interpreter.tests)
        cases[run.MODULE_CASE] = process_case(end, cases)
        return {"end": end, "seconds": seconds, "timeout": self.timeout, "cases": cases, "numpy": numpy_account(report)}


def environment_for(interpreter, folder, tools):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(STEERING)}
    return {
        **kept,
        "PATH": os.pathsep.join([str(tools), kept.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join([str(folder / "recorder"), interpreter.tests]),
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "NPY_AVAILABLE_MEM": "4GB",  # one of NumPy's tests takes 17 GB where it may
        "TMPDIR": str(folder / "tmp"),
        **dict(interpreter.variables),
    }


def command_for(interpreter, events):
    return [
        interpreter.executable, *interpreter.options, "-m", "pytest", "-q", "--tb=short", "-c", "pytest.ini",
        f"--rootdir={interpreter.tests}", "-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin",
        "--hypothesis-seed=0", "-p", RECORDER.stem, f"--outcomes={events}", *interpreter.arguments,
    ]


def below_site_packages(cases, site_packages):
    """Returns the cases with paths in their details as in their names, since a report is no place for a machine's."""
    return {name: {key: text.replace(site_packages + os.sep, "") for key, text in case.items()}
            for name, case in cases.items()}


def process_case(end, cases):
    """Returns the case that stands for the process: how it ended, unless the cases tell that themselves.

    pytest exits with 1 where a case has failed. What ended otherwise, by a signal say, is told with the last case.
    """
    if end == "exit 0" or end == "exit 1" and any(is_trouble(case["outcome"]) for case in cases.values()):
        return {"outcome": "finished"}
    return {"outcome": end, "detail": "the last case was " + last_case(cases)}


def last_case(cases):
    """Returns the last case that began, by which a crash is to be found."""
    unfinished = [name for name, case in cases.items() if case["outcome"].startswith("not finished")]
    return (unfinished or list(cases) or ["none"])[-1]


def numpy_account(path):
    """Returns the account of NumPy's arrays in the host's report, or None: no report, or no handler installed."""
    try:
        account = json.loads(path.read_text(encoding="utf-8"))["accounts"]["numpy"]
    except FileNotFoundError:
        return None
    return account if account["active"] else None
