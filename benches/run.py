"""Measures the host beside stock Python of the same libpython and linkage, and prints the ratios.

    python3 benches/run.py --python PYTHON --pyhost PYHOST [--short | --full] [--report docs/results/performance.md]

All contenders take turns, so that noise falls on them alike; a ratio is formed of neighbours. Sections: instructions
by callgrind, start-up, resident size, NumPy arrays, blocks that grow, threads, programs, peers, being looked at, finding bugs, pyperformance.
Short takes some minutes, full more than two hours. The Markdown goes to standard output, or into the marked block of --report; how far it is, to
standard error. With --only and a --json FILE that is there, the other sections are taken from FILE, so that one report
can be measured in parts; with no other executables, though. No time makes this fail.

Needed beside PYTHON and PYHOST: cc; valgrind for the instructions; for peers, what apt calls libmimalloc2.0,
libjemalloc2 and libtcmalloc-minimal4. Packages are installed, pinned, below target/. What is missing is noted in the report.

Exit status: 0; 1 where the two cannot be compared or the results have no place; 2 for a bad command line.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import time

import contenders
import machine
import report
from bench import Bench
from sections import SECTIONS

PROFILES = ("balanced", "speed", "small")
INTERRUPTED = 130


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="stock Python")
    parser.add_argument("--pyhost", required=True, help="the host, built for the same Python")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--short", action="store_true", help="few rounds, in minutes (default)")
    mode.add_argument("--full", action="store_true", help="as many rounds as the tables in docs/ were made of")
    parser.add_argument("--retain", action="append", choices=PROFILES, default=[],
                        help="measure the host with this profile; again for more (default: without the option)")
    parser.add_argument("--only", nargs="+", action="extend", choices=SECTIONS, metavar="SECTION",
                        help="these sections: " + ", ".join(SECTIONS))
    parser.add_argument("--pyperformance", choices=("twenty", "all"), default="twenty",
                        help="which of its benchmarks (%(default)s)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write everything, raw values too, here")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE",
                        help="replace the marked block of this document with the tables")
    return parser.parse_args(arguments)


def measure(options, folder, arguments):
    """Measures the chosen sections and returns the result."""
    found, facts, linkage = contenders.prepare(options.python, options.pyhost, options.retain, folder)
    bench = Bench(found, options.python, not options.full, folder, options.pyperformance == "all")
    facts = machine.describe(bench, facts, linkage, options.pyhost, arguments)
    hosts = [host.name for host in bench.hosts]
    sections = {}
    for name, section in SECTIONS.items():
        if options.only and name not in options.only:
            continue
        bench.say(f"{name}:")
        began = time.monotonic()
        sections[name] = section.measure(bench)
        bench.say(f"  {time.monotonic() - began:.0f} s")
    return report.as_json(facts, sections, hosts, bench.notes)


def read_json(path):
    """Returns the results that a file holds, or None where there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def main(arguments):
    options = parse(arguments)
    try:
        if options.report:
            report.replaced(options.report.read_text(encoding="utf-8"), "")
        earlier = read_json(options.json) if options.only and options.json else None
        with tempfile.TemporaryDirectory(prefix="benches-") as folder:
            result = measure(options, pathlib.Path(folder), arguments)
        if earlier:
            result = report.added(result, earlier)
        markdown = report.as_markdown(result)
        if options.json:
            options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        if options.report:
            text = options.report.read_text(encoding="utf-8")
            options.report.write_text(report.replaced(text, markdown), encoding="utf-8")
        else:
            print(markdown)
    except (contenders.Unlike, report.Unwritable, OSError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
