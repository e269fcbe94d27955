#!/usr/bin/env python3
"""Calls published packages with extensions in a loop under what looks for bugs of extensions, and expects that nothing is reported.

    run.py --pyhost target/release/pyhost --python python3.11 [--environment NAME] [--only NAME ...] [--report FILE.md]

packages/ has the calls, some hundred for each package. They are made four times:

    stock     by the interpreter alone: what fails here has nothing to do with the host
    hooks     under --debug-hooks --leak-check=native
    guard     under --guard=library=TEXT, of the package's libraries; at least one block must have been guarded
    leaks     by pyhost.leaks()

A package passes if each run ends with status 0 and none says a word, or what it says is a bug of the package's own: references that
grow as fast under stock Python, which is tried at once, or what packages/ tells and docs/results/leak-free.md explains, with the false
alarms that are known. That blocks went unguarded, since the guard took all mappings, is not a report, but a figure of the table. The packages are pinned in embed-tests/environments/pins, and tried if the environment has
them. The last line is `N passed, N failed`. Exit status: 0; 1 with what was reported; 2 if it cannot
run.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "environments"), str(HERE.parent / "cpython_suite")]

import make  # noqa: E402
import report  # noqa: E402
from interpreters import host_version  # noqa: E402
from packages import PACKAGES  # noqa: E402

COLUMNS = ["package", "version", "of", "calls", "hooks, leak check", "guard", "guarded blocks", "not guarded", "pyhost.leaks()"]
REFERENCES = ["package", "references that are lost", "a call, by pyhost.leaks()", "stock"]
SILENT, OWN, KNOWN, FALSE = "silent", "its own bug", "false alarm", "REPORTED"
# A built-in rule for leaks says what it leaves out, and the guard what it had no room for.
REMARK = re.compile(r"pyhost: (\d+ leaked blocks? not reported|--guard: \d+ of \d+ blocks were not guarded)")
VERSIONS = "import importlib.metadata as m, json; print(json.dumps({d.metadata['Name'].lower(): d.version for d in m.distributions()}))"
# A bound against hangs, not a measurement.
PATIENCE = 900


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    parser.add_argument("--environment", default="leak-free", metavar="NAME", help="where the packages are installed [%(default)s]")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=PACKAGES, help="these packages, as they are imported")
    parser.add_argument("--jobs", type=int, default=2, help="packages at a time [%(default)s]")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE.md", help="put the results into a Markdown file")
    options = parser.parse_args(arguments)
    options.pyhost = options.pyhost.resolve()
    return options


class Runner:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.lost = []
        environment = make.environment(options.python, options.environment)
        self.variables = {**make.clean_environment(), "PYTHONPATH": str(make.site_packages(environment)),
                          "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}
        said = subprocess.run([environment / "bin" / "python", "-I", "-c", VERSIONS], check=True, text=True, stdout=subprocess.PIPE)
        self.versions = json.loads(said.stdout)

    def version(self, name):
        """Returns a package's version, or None if the environment lacks it."""
        return self.versions.get(PACKAGES[name].distribution.lower())

    def run(self, command):
        """Runs a command; returns its status, or None after a hang, and all that it said."""
        try:
            ended = subprocess.run(list(map(str, command)), env=self.variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace", timeout=PATIENCE, cwd=self.folder)
        except subprocess.TimeoutExpired as expired:
            return None, (expired.stdout or b"").decode(errors="replace")
        return ended.returncode, ended.stdout

    def try_it(self, name):
        """Makes the calls of a package in all ways; returns a row of the table, and what was reported."""
        package, troubles = PACKAGES[name], []
        calls = [HERE / "calls.py", name, package.calls]
        file = self.folder / f"{name}.json"

        def verdict(way, *command):
            status, said = self.run(command)
            lines = [line for line in said.splitlines() if line and not REMARK.match(line)]
            if status == 0 and not lines:
                return SILENT
            if is_told := told(package, said):
                return is_told
            troubles.append(f"{name} {way}: status {status}\n{said}")
            return FALSE

        row = [name, self.version(name), package.language, str(package.calls)]
        if verdict("stock", self.options.python, *calls) == SILENT:
            row.append(verdict("hooks", self.options.pyhost, "--debug-hooks", "--leak-check=native", *calls))
            row.append(verdict("guard", self.options.pyhost, f"--guard=library={package.library}", f"--stats=json,file={file}", *calls))
            row += self.guarded(name, file, troubles)
            row.append(self.leaks(name, troubles))
        return [*row, *["-"] * (len(COLUMNS) - len(row))], troubles

    def guarded(self, name, file, troubles):
        """Returns how many blocks were guarded, and how many were not, for want of mappings."""
        try:
            guards = json.loads(file.read_text(encoding="utf-8"))["guards"]
        except (OSError, ValueError):
            return "-", "-"
        if not guards["guarded_blocks"]:
            troubles.append(f"{name} guard: no block was guarded; which library is it?")
        return f"{guards['guarded_blocks']:,}", f"{guards['missed_blocks']:,}"

    def leaks(self, name, troubles):
        """Returns the verdict of pyhost.leaks()."""
        status, said = self.run([self.options.pyhost, HERE / "calls.py", name])
        try:
            found = json.loads(said.splitlines()[-1])
        except (IndexError, ValueError):
            found = None
        if status == 0 and found and not (found["bytes_per_call"] or found["blocks_per_call"] or found["references"]):
            return SILENT
        if found and not found["blocks_per_call"] and self.are_lost(name, found["references"]):
            return OWN
        if status == 0 and (is_told := told(PACKAGES[name], said)):
            return is_told
        troubles.append(f"{name} leaks: status {status}\n{said}")
        return FALSE


    def are_lost(self, name, references):
        """Says whether stock Python has these references, too; if so, they get rows of their own."""
        status, said = self.run([self.options.python, HERE / "calls.py", name, "references"])
        try:
            grown = json.loads(said.splitlines()[-1])
        except (IndexError, ValueError):
            return False
        rows = [[f"{PACKAGES[name].distribution} {self.version(name)}", one["object"], str(one["references_per_call"]),
                 f"{grown.get(one['object'], 0):.2f}"] for one in references]
        self.lost += sorted(rows)
        return status == 0 and all(grown.get(one["object"], 0) * 4 >= one["references_per_call"] * 3 for one in references)


def told(package, said):
    """Returns the verdict if packages/ has what was said, or None."""
    return next((verdict for words, verdict in ((package.bug, OWN), (package.alarm, KNOWN)) if words and re.search(words, said)), None)


def markdown(options, rows, lost):
    version = make.run([options.python, "-I", "-c", "import sys; print(sys.version)"]).stdout
    alarms = sum(KNOWN in row or FALSE in row for row in rows)
    own = sum(OWN in row and not (KNOWN in row or FALSE in row) for row in rows)
    facts = [host_version(options.pyhost), "Python " + report.one_line(version),
             f"{len(rows)} packages: {len(rows) - own - alarms} without a report, {own} with a bug of their own, {alarms} with a false alarm"]
    return "\n\n".join([report.heading_of(version.split()[0]), "\n".join(f"- {fact}" for fact in facts),
                        report.markdown_table(COLUMNS, rows), report.markdown_table(REFERENCES, sorted(lost))]) + "\n"


def main(arguments):
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="leak-free-") as folder:
        try:
            runner = Runner(options, pathlib.Path(folder))
        except (make.Unmakable, make.BadName, OSError) as error:
            print(f"run.py: {error}", file=sys.stderr)
            return 2
        names = [name for name in options.only or PACKAGES if runner.version(name)]
        rows, failed = [], 0
        with ThreadPoolExecutor(options.jobs) as pool:
            for done in as_completed([pool.submit(runner.try_it, name) for name in names]):
                row, troubles = done.result()
                rows.append(row)
                failed += bool(troubles)
                print("  ".join(row), *(f"failed: {trouble}" for trouble in troubles), sep="\n", flush=True)
    rows.sort(key=lambda row: row[0].lower())
    if options.report:
        report.write_section(options.report, markdown(options, rows, runner.lost))
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
