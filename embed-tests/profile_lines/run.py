#!/usr/bin/env python3
"""Runs functions whose lines are known under `@pyhost.profile` and under memory_profiler, and prints what both say of each line.

    python3 embed-tests/profile_lines/run.py --pyhost target/release/pyhost --python python3.11

programs.py has the functions, with the bytes of each line. memory_profiler reads the resident size at each line, so it can know
neither a peak within a line nor memory that is not touched yet or was not given back. A line is right if what it added is within an
eighth, to which blocks are rounded up, and 0.3 MB; and so is the host's peak. Nothing is asked of memory_profiler.

Packages are installed, pinned, below target/. The last line is `N passed, N failed`, in lines of the host. Exit status: 0; 1 with what
failed.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "environments"))

import make  # noqa: E402

MB = 1_000_000


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    return parser.parse_args()


def measured(program, name, environment):
    done = subprocess.run([program, HERE / "measure.py", name], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=120)
    if done.returncode != 0:
        sys.exit(f"run.py: status {done.returncode} of {program} {name}: {done.stderr}")
    return {line: figures for line, *figures in json.loads(done.stdout)}


def is_near(bytes_, expected):
    return abs(bytes_ - expected * MB) <= abs(expected) * MB / 8 + 0.3 * MB


def main():
    options = parse()
    packages = make.site_packages(make.environment(options.python, "profile"))
    environment = make.clean_environment()
    environment["PYTHONPATH"] = f"{HERE}{os.pathsep}{packages}"
    passed, failed, others = 0, [], 0
    print(f"{'MB:':>18}{'added':>8}{'peak':>8}{'pyhost':>10}{'peak':>8}{'memory_profiler':>17}")
    for name, lines in functions():
        ours = measured(options.pyhost, name, environment)
        theirs = measured(options.python, name, environment)
        for number, (text, added, peak) in lines.items():
            if number not in ours:
                continue
            (_, bytes_, above), (_, other, _) = ours[number], theirs.get(number, (0, 0, None))
            is_right = is_near(bytes_, added) and is_near(above, peak)
            passed += is_right
            others += is_near(other, added)
            failed += [] if is_right else [f"{name}:{number} {text}"]
            figures = [f"{figure / MB + 0:.1f}" for figure in (bytes_, above, other)]
            print("{:>18}{:>8}{:>8}{:>10}{:>8}{:>17}  {}".format(name, added, peak, *figures, text))
    print(f"memory_profiler: {others} of {passed + len(failed)} lines added what they are known to add")
    print(*[f"failed: {line}" for line in failed], f"{passed} passed, {len(failed)} failed", sep="\n")
    return 1 if failed else 0


def functions():
    """Each function with its lines: the source, and the MB that it adds and has at its highest."""
    text = (HERE / "programs.py").read_text(encoding="utf-8")
    lines, found, name = text.splitlines(), [], None
    for number, line in enumerate(lines, 1):
        if line.startswith("def "):
            name = line[4:line.index("(")]
            found.append((name, {}))
        elif name and line.startswith("    "):
            source, _, comment = line.partition("  # ")
            added, *peak = map(int, comment.split() or (0,))
            found[-1][1][number] = (source.strip(), added, peak[0] if peak else added)
        elif line.strip():
            name = None
    listed = text[text.index("FUNCTIONS = ("):]
    return [(name, lines) for name, lines in found if f"{name}," in listed or f"{name})" in listed]


if __name__ == "__main__":
    sys.exit(main())
