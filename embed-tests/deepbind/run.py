#!/usr/bin/env python3
"""Runs OpenVINO and CasADi, which load their parts by dlopen with RTLD_DEEPBIND, under the host and beside python.

    run.py --pyhost PYHOST --python PYTHON [--runs 10]

PYTHON is the interpreter that the host was built for. The packages are pinned in ../environments/pins/pyX.Y-deepbind.txt.
Each script runs so many times without options and as often under --debug-hooks; each time it must print what it prints
under PYTHON, nothing to standard error, and end with status 0. Prints what failed, and a line for each script and option.
Exit status: 0; 1 if a run failed; 2 for a bad command line.
"""

import argparse
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "environments"))
import make  # noqa: E402

SCRIPTS = ["with_openvino.py", "with_casadi.py"]
OPTIONS = [[], ["--debug-hooks"]]
SECONDS = 300


def run(command, packages):
    """Returns how a command ended: its status, standard output and standard error."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYHOST"))}
    environment = {**kept, "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"no end within {SECONDS} s", "", ""
    return done.returncode, done.stdout, done.stderr


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    parser.add_argument("--runs", type=int, default=10, help="of each script with each option (%(default)s)")
    options = parser.parse_args(arguments)
    packages = make.site_packages(make.environment(options.python, "deepbind"))
    failed = 0
    for script in SCRIPTS:
        expected = run([options.python, str(HERE / script)], packages)
        if expected[0] != 0 or not expected[1]:
            print(f"{script} does not run under {options.python}: {expected}")
            return 1
        for given in OPTIONS:
            command = [str(options.pyhost.resolve()), *given, str(HERE / script)]
            bad = [found for found in (run(command, packages) for _ in range(options.runs)) if found != expected]
            failed += len(bad)
            name = " ".join([*given, script])
            print(f"{name}: {options.runs - len(bad)} of {options.runs} as under python", *bad[:1], sep="\n    ", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
