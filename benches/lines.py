"""Measures the cost of `--lines`: ratios to the same host without it, and `--lines=1` beside memray on the same work.

    python3 benches/lines.py --python PYTHON --pyhost PYHOST [--lines VALUE] [--pyperformance short|full]

With --pyperformance only the twenty of sections/suite.py, time and resident peak: two rounds in turns, or ten. Without it:
instructions by callgrind of the churn loop, of the strings and dicts loop, and of a handler of requests; the resident peak of
each at ten times the rounds; processor seconds and bytes of the file of `memray run --trace-python-allocators` and of `--lines=1` with a JSON
report, the least of three. memray is installed, pinned, below target/. Prints Markdown. No figure makes this fail; exit
status 1 where something does not run.
"""

import argparse
import os
import pathlib
import sys
import tempfile

import launch
import pairs
from bench import Bench, ENVIRONMENTS, WORK
from contenders import Contender
from sections import suite
from sections.instructions import collected

LOOPS = {"churn.py": 15_000, "strings.py": 150, "handler.py": 1_000}
TIMES = 3
# Not of getrusage, whose peak begins with that of the process that started this one.
RESIDENT = ("import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__'); "
            "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="stock Python, for memray")
    parser.add_argument("--pyhost", required=True, help="the host, built for the same Python")
    parser.add_argument("--lines", default="on", metavar="VALUE", help="of the option (%(default)s)")
    parser.add_argument("--pyperformance", choices=("short", "full"), help="its twenty benchmarks instead of the loops")
    return parser.parse_args(arguments)


def instructions(pyhost, option, script, rounds):
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command = [pyhost, "--malloc", "count", "--stats=off", option, "-I", "-S", WORK / script, rounds]
    return collected(launch.output_of(valgrind + command)[1])


def resident(pyhost, option, script, rounds):
    """Returns the median of the peaks in KiB."""
    command = [pyhost, "--stats=off", option, "-I", "-S", "-c", RESIDENT, WORK / script, 10 * rounds]
    peaks = sorted(int(launch.output_of(command)[0].split()[-1]) for _ in range(TIMES))
    return peaks[TIMES // 2]


def least(command, file, env):
    """Returns the least processor seconds of a command, and the bytes of the file that it writes."""
    seconds = []
    for _ in range(TIMES):
        file.unlink(missing_ok=True)
        seconds.append(launch.times_of(list(map(str, command)), env)[1])
    return min(seconds), os.stat(file).st_size


def beside_memray(options, script, rounds, folder):
    """Returns seconds and bytes of memray's file, and of the host's report."""
    made, _ = launch.output_of([sys.executable, ENVIRONMENTS, "--python", options.python, "lines"])
    env = launch.clean_environment({"PYTHONPATH": made.strip().splitlines()[-1]})
    record, report = folder / "record.bin", folder / "report.json"
    program = [WORK / script, rounds]
    by_memray = least([options.python, "-m", "memray", "run", "-q", "--trace-python-allocators", "-o", record, *program],
                      record, env)
    by_host = least([options.pyhost, "--lines=1", f"--stats=file={report}", *program], report, env)
    return by_memray, by_host


def pyperformance(options, option, folder):
    """Prints the ratios of each benchmark, and their geometric means. Exits with status 1 where a benchmark does not run."""
    found = [
        Contender(name, options.pyhost, ("--stats=off", f"--lines={value}"), (("PYHOST_LINES", value),), is_host=True)
        for name, value in (("without", "off"), (option, options.lines))
    ]
    bench = Bench(found, options.python, options.pyperformance == "short", folder)
    samples = suite.measure(bench)
    rows = {row["metric"]: row for row in pairs.rows(samples, "without")}
    print(f"| | `{option}`, time | interval | rounds | resident peak |\n|---|---|---|---|---|")
    times, residents = [], []
    for name, row in rows.items():
        if name.endswith(suite.RESIDENT):
            continue
        times.append(row["ratio"])
        resident = rows.get(name + suite.RESIDENT)  # pyperf has none for a benchmark that starts a command
        if resident:
            residents.append(resident["ratio"])
        print(f"| {name} | {row['ratio']:.3f} | {row['low']:.3f} to {row['high']:.3f} | {row['pairs']} "
              f"| {format(resident['ratio'], '.3f') if resident else ''} |")
    print(f"| geometric mean | {pairs.geometric_mean(times):.3f} | | | {pairs.geometric_mean(residents):.3f} |")
    if bench.notes:
        raise launch.Failed("; ".join(bench.notes))


def main(arguments):
    options = parse(arguments)
    options.pyhost = str(pathlib.Path(options.pyhost).resolve())
    option = f"--lines={options.lines}"
    try:
        if options.pyperformance:
            with tempfile.TemporaryDirectory(prefix="lines-") as folder:
                pyperformance(options, option, pathlib.Path(folder))
            return 0
        print(f"| | without | `{option}` | ratio |\n|---|---|---|---|")
        for script, rounds in LOOPS.items():
            without, with_it = (instructions(options.pyhost, one, script, rounds) for one in ("--lines=off", option))
            print(f"| `{script} {rounds}`, instructions | {without:,} | {with_it:,} | {with_it / without:.3f} |", flush=True)
        for script, rounds in LOOPS.items():
            without, with_it = (resident(options.pyhost, one, script, rounds) for one in ("--lines=off", option))
            print(f"| `{script} {10 * rounds}`, resident peak | {without:,} kB | {with_it:,} kB | {with_it / without:.3f} |",
                  flush=True)
        print("\n| | memray | `--lines=1` |\n|---|---|---|")
        with tempfile.TemporaryDirectory(prefix="lines-") as folder:
            for script, rounds in LOOPS.items():
                memrays, hosts = beside_memray(options, script, rounds, pathlib.Path(folder))
                print(f"| `{script} {rounds}`, processor seconds | {memrays[0]:.2f} | {hosts[0]:.2f} |")
                print(f"| `{script} {rounds}`, bytes of the file | {memrays[1]:,} | {hosts[1]:,} |", flush=True)
    except launch.Failed as error:
        print(f"lines.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
