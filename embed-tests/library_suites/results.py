"""Renders a finished comparison: cpython_suite/report.py's table and lists, with what the host booked for arrays.

`numpy peak` is the most bytes that NumPy's arrays ever had; `numpy left` is what was live when the tests had ended,
then what was live after Python's finalisation. Text out, nothing is run here.
"""

import dataclasses
import pathlib

import classify
import report
from run import MODULE_CASE

COLUMNS = (*report.COLUMNS, "numpy peak", "numpy left")
MARKDOWN_COLUMNS = ("module", "cases", "numpy peak", "numpy left")
INTRODUCTION = """# The libraries' own tests, by python and by pyhost

Run by

```sh
python3 embed-tests/library_suites/compare.py --python PYTHON --pyhost PYHOST --numpy X.Y \\
    --report docs/results/library-suites.md
```

which installs the libraries, pinned; all of NumPy's tests that allocate arrays, and of pandas, SciPy
and scikit-learn a fixed choice (`suites.py`). `numpy peak` is the most bytes that the host had booked to
NumPy's arrays; `numpy left` what was live when the tests had ended, then after Python's finalisation.
"""
ABSENT_LISTED = 5
UNITS = (("GiB", 2 ** 30), ("MiB", 2 ** 20), ("KiB", 2 ** 10))
SUDDEN = ("killed", "timed out")


def row(result):
    return [*report.row(result), *memory(result.pyhost_runs[0]["numpy"])]


def memory(account):
    """Returns the cells of the last two columns; `account` is None where the host books no arrays."""
    if account is None:
        return ["n/a", "n/a"]
    left = [size(account[name]) for name in ("live_bytes", "finalized_live_bytes")]
    return [size(account["peak_bytes"]), ", ".join(left)]


def size(number):
    """Returns a number of bytes, exact where there are few."""
    if number < 10 * 2 ** 10:
        return f"{number} B"
    unit, factor = next((unit, factor) for unit, factor in UNITS if number >= factor)
    return f"{number / factor:.1f} {unit}"


def sections(results, known):
    """Returns the (heading, lines) that have lines."""
    crashed = [("Processes that did not end by themselves", crashes(results))] if crashes(results) else []
    return crashed + report.sections([folded(result) for result in results], [], known)


def crashes(results):
    """Returns a line for every process, of either side, that a signal or the time ended, with its last case."""
    return [f"{result.module}: {side} run {number}: {run['end']}; {run['cases'][MODULE_CASE]['detail']}"
            for result in results
            for side, runs in (("stock", result.stock_runs), ("pyhost", result.pyhost_runs))
            for number, run in enumerate(runs, 1) if run["end"].startswith(SUDDEN)]


def folded(result):
    """Returns a result with one case for most of those that a side never came to, in a crash say."""
    kept, alike = [], {}
    for case in result.cases:
        if classify.ABSENT in case.stock + case.pyhost and case.category in classify.BAD:
            alike.setdefault((case.category, case.stock, case.pyhost), []).append(case)
        else:
            kept.append(case)
    for cases in alike.values():
        rest = cases[ABSENT_LISTED:]
        kept += cases[:ABSENT_LISTED] + [dataclasses.replace(case, name=f"({len(rest)} more so)") for case in rest[:1]]
    return dataclasses.replace(result, cases=kept)


def terminal(results, known):
    """Returns all that the comparison prints at its end, but for the last line."""
    parts = [report.plain_table(COLUMNS, [row(result) for result in results])]
    for heading, lines in sections(results, known):
        parts.append(f"{heading} ({len(lines)}):\n" + "\n".join("  " + line for line in lines))
    return "\n\n".join(parts)


def pair(stock, versions):
    """Returns what a section is about, such as "3.11.7, NumPy 2.4.6", with the variables of stock's runs."""
    release, *variables = report.subject(stock).split(", ")
    return ", ".join([release, f"NumPy {versions['numpy']}", *variables])


def markdown(stock, pyhost, host_version, versions, results, known):
    """Returns the section of one pair of Python and NumPy."""
    facts = [f"- {host_version}"]
    if pyhost.options:
        facts.append(f"- pyhost's options: `{' '.join(pyhost.options)}`")
    facts.append("- " + ", ".join(f"{name} {version}" for name, version in versions.items()))
    facts.append(f"- {report.sums(results)}")
    rows = [[result.module, str(len(result.cases)), *memory(result.pyhost_runs[0]["numpy"])] for result in results]
    parts = [report.heading_of(pair(stock, versions)), "\n".join(facts), report.markdown_table(MARKDOWN_COLUMNS, rows),
             *report.markdown_lists(sections(results, known))]
    return "\n\n".join(parts) + "\n"


def write_section(path, section):
    """Puts a pair's section into a Markdown file, in place of its earlier one."""
    path = pathlib.Path(path)
    if not path.exists():
        path.write_text(INTRODUCTION, encoding="utf-8")
    report.write_section(path, section)
