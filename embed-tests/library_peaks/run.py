#!/usr/bin/env python3
"""Runs programs of libraries that map memory themselves, and compares the highest resident size that the host has seen with the kernel's.

    python3 embed-tests/library_peaks/run.py --pyhost target/release/pyhost --python python3.11 [--runs N] [--beside] [--torch] [--only NAME...]

Each program (programs/) runs N times under `pyhost --lines --stats=file=...`. The oracles are the kernel's VmHWM, and another process that
reads the resident size from outside every 5 ms. A run is caught if `at_resident_peak.resident_bytes` is within 5% of both. Of the
highest moment, *rows* are the parts that have a name (maps by library, heaps, files and shared memory, stacks), *lines* the bytes that
`lines.at_resident_peak` gives to lines of Python, with the files. --beside runs each program once under memray and once under Scalene, too, and prints their peaks.

Packages are installed, pinned, below target/. --torch runs the programs of torch as well, whose libraries take 6 GB there. The last line is `N passed, N failed`, in programs: of one that passes 19 of 20 runs are
caught. Exit status: 0; 1 with what failed.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "environments"))

import make  # noqa: E402

PAGE = os.sysconf("SC_PAGESIZE")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--beside", action="store_true", help="run each program once under memray and Scalene, too")
    parser.add_argument("--torch", action="store_true", help="run the programs of torch, too (6 GB of libraries)")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    return parser.parse_args()


def is_of_torch(program):
    return program.stem.startswith("torch_")


def watched(command, environment):
    """Runs a command; the highest resident size seen from outside."""
    highest = 0
    process = subprocess.Popen(command, env=environment)
    while process.poll() is None:
        try:
            statm = pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()
            highest = max(highest, int(statm[1]) * PAGE)
        except (OSError, IndexError):
            pass
        time.sleep(0.005)
    if process.returncode != 0:
        sys.exit(f"run.py: status {process.returncode} of {command}")
    return highest


def run_once(host, program, folder, environment):
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    outside = watched([host, "--lines", f"--stats=file={report}", program, folder], environment)
    report = json.loads(report.read_text())
    seen, lines = report["at_resident_peak"], report["lines"]["at_resident_peak"]
    resident, kernel = seen["resident_bytes"], report["process"]["peak_resident_bytes"]
    rows = resident - seen["other_bytes"]
    on_lines = seen["shared_bytes"] + sum(row["bytes"] for row in lines if row["stack"])
    return {
        "kernel": kernel,
        "caught": resident / kernel,
        "is_caught": resident >= 0.95 * max(kernel, outside),
        "rows": rows / resident,
        "lines": min(on_lines / resident, 1),
        "live_peak": report["total"]["peak_bytes"],
    }


def memray_peak(python, program, folder, environment):
    output = folder / "memray.bin"
    output.unlink(missing_ok=True)
    command = [python, "-m", "memray", "run", "-q", "-o", output, program, folder]
    subprocess.run(command, env=environment, check=True)
    command = [python, "-m", "memray", "stats", "--json", "-f", "-o", folder / "memray.json", output]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return json.loads((folder / "memray.json").read_text())["metadata"]["peak_memory"]


def scalene_peak(python, program, folder, environment):
    output = folder / "scalene.json"
    output.unlink(missing_ok=True)
    command = [python, "-m", "scalene", "run", "-o", output, program, "---", folder]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return json.loads(output.read_text())["max_footprint_mb"]


def main():
    options = parse()
    failed = []
    programs = sorted((HERE / "programs").glob("*.py"))
    programs = [it for it in programs if (it.stem in options.only if options.only else options.torch or not is_of_torch(it))]
    print("program          VmHWM MiB  seen (least)  caught   rows  lines (least)  peak of live MiB  memray MiB  Scalene MB")
    for program in programs:
        environment_folder = make.environment(options.python, "torch" if is_of_torch(program) else "library-peaks")
        environment = dict(os.environ, PYTHONPATH=str(make.site_packages(environment_folder)))
        python = pathlib.Path(environment_folder) / "bin/python"
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            runs = [run_once(options.pyhost, program, folder, environment) for _ in range(options.runs)]
            memray = memray_peak(python, program, folder, environment) >> 20 if options.beside else "-"
            scalene = round(scalene_peak(python, program, folder, environment)) if options.beside else "-"
        median = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        caught = sum(run["is_caught"] for run in runs)
        print(
            f"{program.stem:16} {median['kernel'] / 2**20:9.0f}  {median['caught']:.3f} ({min(run['caught'] for run in runs):.3f})"
            f"  {caught:2} of {len(runs):2}  {median['rows']:.3f}  {median['lines']:.3f} ({min(run['lines'] for run in runs):.3f})  {median['live_peak'] / 2**20:16.0f}  {memray:>10}  {scalene:>10}",
            flush=True,
        )
        if caught < 0.95 * len(runs):
            failed.append(program.stem)
    print(f"{len(programs) - len(failed)} passed, {len(failed)} failed" + "".join(f" {name}" for name in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
