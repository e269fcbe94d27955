"""Renders a finished comparison: the table and the lists for the terminal, and a Markdown section a release.

Every case that is not the same on both sides is listed with its category; those that fail alike are listed too, since
a failure may hide another. Text out, nothing is run here.
"""

import dataclasses
import pathlib

import classify


@dataclasses.dataclass(frozen=True)
class ModuleResult:
    """The results of both sides for one module; `cases` is empty where the host was not run."""

    module: str
    stock_runs: list
    pyhost_runs: list
    cases: list

    def seconds(self, runs):
        return f"{runs[0]['seconds']:.0f}" if runs else "-"


COLUMNS = ("module", "cases", "same", "known", "flaky on stock", "flaky on pyhost", "DIFFERENT", "stock s", "pyhost s")
ALIKE = "Cases that fail alike on both"
STOCK_COLUMNS = ("module", "cases", "passed", "skipped", "in trouble", "end", "runs", "stock s")


def row(result):
    counts = classify.count(result.cases)
    numbers = [len(result.cases)] + [counts[category] for category in classify.CATEGORIES]
    return [result.module, *map(str, numbers), result.seconds(result.stock_runs), result.seconds(result.pyhost_runs)]


def stock_row(result):
    run = result.stock_runs[0]
    ends = [case["outcome"] for case in run["cases"].values()]
    troubled = sum(map(classify.is_trouble, ends))
    numbers = [len(ends), sum(end in ("passed", "finished") for end in ends), ends.count("skipped"), troubled]
    return [result.module, *map(str, numbers), run["end"], str(len(result.stock_runs)), f"{run['seconds']:.0f}"]


def plain_table(columns, rows):
    widths = [max(map(len, cells)) for cells in zip(columns, *rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip()
                     for cells in [columns, *rows])


def markdown_table(columns, rows):
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def listed(results):
    """Returns the lines for every case that is not the same on both sides, worst first."""
    order = {category: place for place, category in enumerate(reversed(classify.CATEGORIES))}
    cases = [(result.module, case) for result in results for case in result.cases if case.category != classify.SAME]
    cases.sort(key=lambda pair: order[pair[1].category])
    return [line_of(module, case) for module, case in cases]


def alike_in_trouble(results):
    """Returns the lines for every case that fails on both sides alike."""
    return [line_of(result.module, case) for result in results for case in result.cases
            if case.category == classify.SAME and case.in_trouble]


def line_of(module, case):
    line = f"{case.category}: {module}: {case.name}: stock {story(case.stock)}; pyhost {story(case.pyhost)}"
    if case.reason:
        return f"{line}; {case.reason}"
    said = [f"{side}: {gist(detail)}" for side, detail in (("stock", case.stock_detail), ("pyhost", case.pyhost_detail))
            if detail]
    return "; ".join([line, *said])


def story(outcomes):
    """Returns "passed", or "passed, failed, passed" where the runs differ."""
    return outcomes[0] if len(set(outcomes)) == 1 else " | ".join(outcomes)


def gist(detail):
    """Returns the last line of a traceback or reason."""
    return (detail.strip().splitlines() or [""])[-1][:200]


def stale_known(results, known):
    """Returns the listed differences that were looked for and did not show."""
    same = {case.name for result in results for case in result.cases if case.category == classify.SAME}
    return sorted(name for name in known if name in same)


def terminal(results, missing, known):
    """Returns all that the comparison prints at its end, but for the last line."""
    parts = [plain_table(COLUMNS, [row(result) for result in results])]
    for heading, lines in sections(results, missing, known):
        parts.append(f"{heading} ({len(lines)}):\n" + "\n".join("  " + line for line in lines))
    return "\n\n".join(parts)


def stock_terminal(results, missing):
    """Returns what is printed where stock alone was run."""
    parts = [plain_table(STOCK_COLUMNS, [stock_row(result) for result in results])]
    if missing:
        parts.append("not installed in this Python, not run: " + ", ".join(missing))
    return "\n\n".join(parts)


def markdown(stock, pyhost, host_version, results, missing, known):
    """Returns the Markdown section of one release."""
    facts = [f"- {host_version}", f"- {sums(results)}",
             "- " + ", ".join(f"{result.module} {len(result.cases)}" for result in results)]
    parts = [heading_of(subject(stock)), "\n".join(facts), *markdown_lists(sections(results, missing, known))]
    return "\n\n".join(parts) + "\n"


def sums(results):
    """Returns the number of cases, of those that are not the same, and the seconds of both sides."""
    counts = classify.count([case for result in results for case in result.cases])
    seconds = [sum(runs[0]["seconds"] for runs in side if runs)
               for side in zip(*((result.stock_runs, result.pyhost_runs) for result in results))]
    return (f"{sum(counts.values())} cases, {sum(counts.values()) - counts[classify.SAME]} not the same; "
            f"stock {seconds[0]:.0f} s, pyhost {seconds[1]:.0f} s")


def markdown_lists(found):
    """Returns the lists of a section. Of the cases that fail alike it has the number."""
    return [f"{heading}: {len(lines)}." if heading == ALIKE else
            f"{heading} ({len(lines)}):\n\n" + "\n".join(f"- {code_safe(line)}" for line in lines) for heading, lines in found]


def sections(results, missing, known):
    """Returns the (heading, lines) that have lines."""
    return [(heading, lines) for heading, lines in (
        ("Cases that are not the same", listed(results)),
        (ALIKE, alike_in_trouble(results)),
        ("Listed as known differences, but the same", stale_known(results, known)),
        ("Modules not installed in this Python, not compared", missing),
    ) if lines]


def one_line(text):
    return " ".join(text.split())


def code_safe(line):
    return "`" + line.replace("`", "'") + "`"


def subject(stock):
    """Returns what a section is about: "3.11.7", or "3.11.7, PYTHONMALLOC=debug"."""
    return ", ".join([stock.release, *("=".join(pair) for pair in stock.variables)])


def heading_of(release):
    return f"## CPython {release}"


def write_section(path, section):
    """Puts a section into a Markdown file, in place of the one with the same heading, its first line."""
    path = pathlib.Path(path)
    text = path.read_text(encoding="utf-8") if path.exists() else "# CPython's own tests, by python and by pyhost\n"
    head, *sections_there = text.split("\n## ")
    kept = [part for part in sections_there if not ("## " + part).startswith(section.splitlines()[0] + "\n")]
    parts = [head.rstrip()] + sorted(part.rstrip() for part in [*kept, section.removeprefix("## ")])
    path.write_text("\n\n## ".join(parts) + "\n", encoding="utf-8")
