"""Measures pyhost beside other tools that tell where the memory of a program goes, all as pip installs them, on the same work.

    python3 benches/comparison.py [--python PYTHON] [--quick] [--only PROGRAM ...] [--json FILE] [--report FILE]

memray, Scalene, Fil and ddtrace are installed below target/, pinned in embed-tests/environments/pins, with pyhost's wheel of
target/wheels, which `tools/build-wheels PYTHON` makes. A program (benches/work/compared) runs under each in turns; ratios to stock
Python are formed within a round. Measured are the seconds of its work, the kernel's peak of what is resident, and what the tool says: its
peak, and the bytes of the line that has most, which are known.

--quick takes one round of three programs on a tenth of the data, in less than a minute. With a --json FILE that is there, programs that are not measured
are taken from it. The Markdown goes to standard output, or into the marked block of --report. A tool that does not run is noted. No figure makes this fail.

Exit status: 0; 1 if the packages or the wheel are missing, or the results have no place; 2 for a bad command line.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

import launch
import machine
import memory_tools
import pairs
import report
from bench import ENVIRONMENTS, HERE, WORK, Bench

ENVIRONMENT, BEGIN = "comparison", "<!-- benches/comparison.py writes from here -->"
WHEELS = HERE.parent / "target" / "wheels"
PROGRAMS = {
    "a loop that only allocates": "churn", "JSON, read and dropped": "json_dropped", "large arrays of NumPy": "numpy_arrays",
    "groups in pandas": "pandas_group", "a query in polars": "polars_query", "four threads": "threads",
    "a handler of Flask": "flask_handler",
}
ROUNDS = 5
QUICK, QUICK_PROGRAMS = 0.1, ("churn", "json_dropped", "numpy_arrays")
# The endings of the metrics.
TIME, AROUND, PEAK, SAID, LINE, FIRST = ", time", ", start and end", ", peak", ", said peak", ", line", ", is first"
TABLES = {
    TIME: ("Time", "The processor's seconds of the work, without the imports, the tool's start, and its report at the end: the median of the ratios, and "
           "in brackets its interval (95%, by bootstrap)."),
    AROUND: ("Start and end", "The processor's seconds before and after the work: Python's start, the imports, the tool's start, its report."),
    PEAK: ("Resident peak", "The kernel's `VmHWM` when the work is done."),
    SAID: ("The peak that it says", "To `VmHWM` under stock Python. pyhost says what is resident; the others what was asked for, of "
           "the allocators that each sees. ddtrace says no peak."),
    LINE: ("The bytes on the line that has most", "To what that line is known to have made of what is live at the peak. In brackets: the "
           "tool gives more to another line, so that its reader is led there."),
}


class Missing(Exception):
    """What is measured is not there; the message is one line."""


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="the interpreter that packages are installed for (this one)")
    parser.add_argument("--quick", action="store_true", help="one round of three programs on a tenth of the data")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="(%(default)s)")
    parser.add_argument("--only", nargs="*", metavar="PROGRAM",
                        help="these programs, or none, to write the tables anew: " + ", ".join(PROGRAMS.values()))
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write everything, raw values too, here")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE", help="replace the marked block of this document")
    options = parser.parse_args(arguments)
    unknown = set(options.only or ()) - set(PROGRAMS.values())
    if unknown:
        parser.error(f"--only: no program is called {min(unknown)}; expected {', '.join(PROGRAMS.values())}")
    return options


def environment(python):
    """Returns the folder of the packages with pyhost, and the facts about them; makes it if need be."""
    try:
        site, _ = launch.output_of([sys.executable, ENVIRONMENTS, "--python", python, ENVIRONMENT])
        folder = pathlib.Path(site.strip().splitlines()[-1]).parents[2]
        tag, _ = launch.output_of([python, "-I", "-c", "import sys; print('cp%d%d' % sys.version_info[:2])"])
        wheels = sorted(WHEELS.glob(f"pyhost-*-{tag.strip()}-manylinux_*_{os.uname().machine}.whl"))
        if not wheels:
            raise Missing(f"there is no wheel for this Python; expected 'tools/build-wheels {python}' first")
        pip = [folder / "bin" / "python", "-I", "-m", "pip", "--disable-pip-version-check", "--no-input"]
        launch.output_of([*pip, "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall", wheels[-1]])
        listed, _ = launch.output_of([*pip, "list", "--format", "json"])
    except launch.Failed as error:
        raise Missing(str(error)) from None
    versions = {one["name"].lower(): one["version"] for one in json.loads(listed)}
    names = ("pyhost", "memray", "scalene", "filprofiler", "ddtrace", "numpy", "pandas", "polars", "flask")
    return folder, {"packages": ", ".join(f"{name} {versions[name]}" for name in names), "wheel": wheels[-1].name}


def run(tool, program, scale, folder, *more):
    """Runs a program under a tool; returns the file, what the program has written, and what the tool has said."""
    path, result = WORK / "compared" / f"{program}.py", folder / "result.json"
    result.unlink(missing_ok=True)
    said = tool.run(path, scale, result, *more)
    return path, json.loads(result.read_text(encoding="ascii")), said


def measure_one(tool, label, scale, folder, known):
    """Returns {metric: (value, unit)} of a program under a tool; what is known of the program stands for stock Python."""
    path, facts, (seconds, peak, places) = run(tool, PROGRAMS[label], scale, folder)
    if tool.name == "stock":
        peak, places = facts["peak"] * 1024, {marked(path): known}
    found = {TIME: (facts["seconds"], "s"), PEAK: (facts["peak"] / 1024, "MiB"), AROUND: (seconds - facts["seconds"], "s")}
    if peak:
        found[SAID] = peak / 2**20, "MiB"
    if places:
        found[LINE] = places.get(marked(path), 0) / 2**20, "MiB"
        found[FIRST] = int(max(places, key=places.get) == marked(path)), ""
    return {label + table: measured for table, measured in found.items()}


def marked(path):
    """Returns the place of the line that is known to have most."""
    lines = path.read_text(encoding="ascii").splitlines()
    return str(path), next(number for number, line in enumerate(lines, 1) if line.endswith("# the line"))


def measure(options, folder, kept):
    """Measures the chosen programs; returns `kept` with them. They are written as soon as each is measured."""
    installed, facts = environment(options.python)
    tools = memory_tools.tools(installed, folder)
    bench = Bench(tools, options.python, options.quick, folder, notes=kept.get("notes", []))
    python, _ = launch.output_of([options.python, "-VV"])
    kept = {"facts": {**machine.own_facts(), "python": python.strip(), **facts}, "notes": bench.notes,
            "programs": kept.get("programs", {})}
    chosen = options.only if options.only is not None else QUICK_PROGRAMS if options.quick else PROGRAMS.values()
    for label, program in PROGRAMS.items():
        if program not in chosen:
            continue
        samples, rounds, load = pairs.Samples(), bench.pick(1, options.rounds), [os.getloadavg()[0]]
        scale = bench.pick(QUICK, 1)
        known = run(bench.stock, program, scale, folder, "truth")[1]["truth"]
        bench.alternate(samples, label, rounds, lambda tool: measure_one(tool, label, scale, folder, known))
        load.append(os.getloadavg()[0])
        kept["programs"][label] = {"raw": samples.as_json(), "load": load, "rounds": rounds}
        if options.json:
            options.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return kept


def as_markdown(result):
    """Returns the tables of what `measure` returned."""
    programs = {label: result["programs"][label] for label in PROGRAMS if label in result["programs"]}
    rows = pairs.rows(pairs.Samples.of_json({metric: kept for one in programs.values() for metric, kept in one["raw"].items()}))
    is_first = {(row["metric"].removesuffix(FIRST), row["contender"]): row["value"] == 1 for row in rows
                if row["metric"].endswith(FIRST)}
    parts = []
    for ending, (title, text) in TABLES.items():
        of_it = [{**row, "metric": row["metric"].removesuffix(ending)} for row in rows if row["metric"].endswith(ending)]
        if ending == AROUND:
            of_it = [{**row, "ratio": row["value"]} for row in of_it]
        head, lines = report.ratios_alone(of_it)
        if ending == TIME:
            intervals = {(row["metric"], row["contender"]): report.interval(row) for row in of_it}
            lines = [(label, stock, *(f"{cell} ({intervals[label, tool]})" if cell else "" for tool, cell in zip(head[2:], cells)))
                     for label, stock, *cells in lines]
        if ending == LINE:
            lines = [(label, known, *(cell if not cell or is_first[label, tool] else f"({cell})" for tool, cell in zip(head[2:], cells)))
                     for label, known, *cells in lines]
        parts += [f"### {title}", text, report.table(head, lines)]
    loads = [load for one in programs.values() for load in one["load"]]
    facts = {**result["facts"], "pairs": min(one["rounds"] for one in programs.values()),
             "load average": f"{min(loads):.1f} to {max(loads):.1f}"}
    parts += ["### How it was measured", report.table(("", ""), [(name, str(fact)) for name, fact in facts.items()])]
    return "\n\n".join([*parts, *(f"- {note}" for note in result["notes"])])


def main(arguments):
    options = parse(arguments)
    try:
        if options.report:
            report.replaced(options.report.read_text(encoding="utf-8"), "", BEGIN)
        kept = json.loads(options.json.read_text(encoding="utf-8")) if options.json and options.json.exists() else {}
        with tempfile.TemporaryDirectory(prefix="comparison-") as folder:
            markdown = as_markdown(measure(options, pathlib.Path(folder), kept))
        if options.report:
            text = options.report.read_text(encoding="utf-8")
            options.report.write_text(report.replaced(text, markdown, BEGIN), encoding="utf-8")
        else:
            print(markdown)
    except (Missing, launch.Failed, report.Unwritable, OSError) as error:
        print(f"comparison.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
