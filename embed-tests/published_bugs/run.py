#!/usr/bin/env python3
"""Finds bugs of published extensions: builds the versions around each fix from PyPI's sources, and runs a script on both.

    run.py --pyhost target/release/pyhost --python python3.11 [--pyhostctl target/release/pyhostctl]
           [--only TEXT] [--verbose] [--report FILE.md]

bugs.py lists the bugs. Each script is run as docs/debug/extension-authors.md recommends: `checked` (--debug-hooks --guard=all
--leak-check=native, with tracemalloc for the lines of leaks), `guarded` (--guard=min=1,every=1) and, if it lets requests
for memory fail, `sweep` (pyhostctl sweep, with --debug-hooks). Beside them it is run by the interpreter alone, and with
PYTHONMALLOC=debug.

A bug passes if the run named in bugs.py says the message that is expected of the version before the fix, and if no run
says anything about the version after it. The extensions are kept in target/published-bugs. The last line is
`N passed, N failed`. Exit status: 0; 1 with what failed; 2 if it cannot run.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path += [str(HERE), str(HERE.parent / "environments"), str(HERE.parent / "cpython_suite")]

import bugs  # noqa: E402
import make  # noqa: E402
import report  # noqa: E402
from interpreters import host_version  # noqa: E402

BUILDS = ROOT / "target" / "published-bugs"
RUNS = {
    "checked": ["--debug-hooks", "--guard=all", "--leak-check=native", "-X", "tracemalloc"],
    "guarded": ["--guard=min=1,every=1"],
    "sweep": ["sweep", "--when-open"],
}
# The project's own variables for the compiler stay in force behind it.
FLAGS = {"CFLAGS": "-O1 -g -w"}
SILENT, FOUND = "silent", "found"
PATIENCE = 120
LINE_OF_A_REPORT = re.compile(r"^(pyhost|Fatal Python error): ", re.MULTILINE)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--pyhostctl", type=pathlib.Path, help="[beside --pyhost]")
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    parser.add_argument("--only", metavar="TEXT", help="the bugs whose names contain it")
    parser.add_argument("--verbose", action="store_true", help="print what each run says")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE.md", help="put the results into a Markdown file")
    options = parser.parse_args(arguments)
    options.pyhost = options.pyhost.resolve()
    options.pyhostctl = (options.pyhostctl or options.pyhost.with_name("pyhostctl")).resolve()
    return options


def build(python, project, release, built_with="published-bugs"):
    """Returns a folder with the extension, which this builds unless it is there, whole and of these sources."""
    environment = make.environment(python, built_with)
    folder = BUILDS / f"py{make.minor_of(python)}" / f"{project}-{release.version}"
    whole, pin = folder / make.MADE_FROM, f"{project}=={release.version} --hash=sha256:{release.sha256}\n"
    with make.locked(folder.with_name(folder.name + ".lock")):
        if whole.is_file() and whole.read_text(encoding="ascii") == pin:
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        pins = folder.with_name(folder.name + ".txt")
        pins.write_text(pin, encoding="ascii")
        command = [environment / "bin" / "python", "-I", "-m", "pip", "--disable-pip-version-check", "--no-input", "install",
                   "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--target", folder, "-r", pins]
        # Builds call tools of the environment by name.
        variables = {**make.clean_environment(), **FLAGS, "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        built = subprocess.run(list(map(str, command)), env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace")
        folder.with_name(folder.name + ".log").write_text(built.stdout, encoding="utf-8")
        if built.returncode != 0:
            raise make.Unmakable(f"{project} {release.version} cannot be built: {make.error_line(built.stdout)} "
                                 f"(all of it: {folder}.log)")
        whole.write_text(pin, encoding="ascii")
    return folder


def script_of(bug):
    return HERE / "scripts" / f"{bug.name}.py"


def runs_of(bug):
    can_fail = "pyhost" in script_of(bug).read_text(encoding="utf-8")
    return [run for run in RUNS if run != "sweep" or can_fail]


def say(options, bug, folder, run):
    """Makes a run of a bug's script; returns how it ended, and what was said on both outputs."""
    variables, script = {}, script_of(bug)
    if run == "sweep":
        command = [options.pyhostctl, *RUNS[run], "--host", options.pyhost, script]
        variables = {"PYHOST_DEBUG_HOOKS": "1"}
    elif run in RUNS:
        command = [options.pyhost, *RUNS[run], script]
    else:
        command = [options.python, script]
        variables = {"PYTHONMALLOC": "debug"} if run == "debug" else {}
    environment = {**make.clean_environment(), "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    try:
        ended = subprocess.run(list(map(str, command)), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", timeout=PATIENCE)
    except subprocess.TimeoutExpired as error:
        return "hung", (error.stdout or b"").decode(errors="replace")
    status = ended.returncode
    return signal.Signals(-status).name if status < 0 else f"status {status}", ended.stdout


def verdict(end, said, message=None):
    """Returns `found` if a message is said; `silent`; or how the process ended."""
    if message and re.search(message, said):
        return FOUND
    return SILENT if end == "status 0" and not LINE_OF_A_REPORT.search(said) else end


def judge(options, bug):
    """Returns the verdicts on the version before the fix and on the one after it, and what was said of the former."""
    before, after = (build(options.python, bug.project, release) for release in (bug.before, bug.after))
    verdicts, texts = {}, {}
    for run in ("stock", "debug", *runs_of(bug)):
        end, texts[run] = say(options, bug, before, run)
        verdicts[run] = verdict(end, texts[run], bug.message)
    fixed = {run: say(options, bug, after, run) for run in ("stock", *runs_of(bug))}
    noisy = {run: said for run, (end, said) in fixed.items() if verdict(end, said) != SILENT}
    return verdicts, texts, noisy


def lines_with(message, said):
    """Returns the line that leads to the bug, without the folders of its files and a sweep's margin."""
    [line] = [line for line in said.splitlines() if re.search(message, line)][:1]
    return re.sub(r"/\S*/(?=[^/\s]+\.\w)", "", line).strip(" |")


def row(bug, verdicts, noisy):
    cells = [verdicts.get(run, "-") for run in ("stock", "debug", *RUNS)]
    return [f"{bug.project} {bug.before.version}", bug.kind, bug.report, *cells,
            f"{bug.after.version}: {'noisy' if noisy else SILENT}"]


COLUMNS = ["extension", "bug", "report", "python", "PYTHONMALLOC=debug", *RUNS, "after the fix"]


def markdown(options, rows, lines):
    found = "\n".join(f"{name}: {line}" for name, line in lines)
    version = make.run([options.python, "-I", "-V"]).stdout.strip()
    return f"""# Bugs of published extensions

Made by `embed-tests/published_bugs/run.py` with {host_version(options.pyhost)} and {version}.

The version before each fix and the one after it were built from PyPI's sources. `python` is the interpreter
alone; `checked` is `--debug-hooks --guard=all --leak-check=native -X tracemalloc`, `guarded` is `--guard=min=1,every=1`,
`sweep` is `pyhostctl sweep` with `--debug-hooks`. `found`: a line names the bug.

{report.markdown_table(COLUMNS, rows)}

The lines that lead to the bugs:

```
{found}
```
"""


def main(arguments):
    options = parse(arguments)
    chosen = [bug for bug in bugs.BUGS if not options.only or options.only in bug.name]
    rows, lines, failed = [], [], []
    try:
        for bug in chosen:
            verdicts, texts, noisy = judge(options, bug)
            rows.append(row(bug, verdicts, noisy))
            print("  ".join(rows[-1]), flush=True)
            if options.verbose:
                print("\n".join(f"--- {run}\n{said}" for run, said in {**texts, **noisy}.items()))
            if verdicts[bug.run] == FOUND:
                lines.append((f"{bug.project} {bug.before.version}", lines_with(bug.message, texts[bug.run])))
                print(f"    {lines[-1][1]}")
            else:
                failed.append(bug)
                print(f"failed: {bug.name}: {bug.run} does not say {bug.message!r}:\n{texts[bug.run]}")
            if noisy:
                failed.append(bug)
                print(f"failed: {bug.name}: of the version after the fix was said:")
                print("\n".join(f"--- {run}\n{said}" for run, said in noisy.items()))
    except (make.Unmakable, make.BadName, OSError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    print("\n" + report.plain_table(COLUMNS, rows))
    if options.report:
        options.report.write_text(markdown(options, rows, lines), encoding="utf-8")
    print(f"{len(chosen) - len(set(failed))} passed, {len(set(failed))} failed")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
