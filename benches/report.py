"""Writes a run's results as JSON and as Markdown, which replaces a marked block of a document. Data in, text out."""

import pairs
import targets
from sections import SECTIONS, arrays, checkers, programs, startup, suite

SCHEMA = "pyhost-benches/1"
BEGIN = "<!-- benches/run.py writes from here -->"
END = "<!-- to here -->"
CONFIDENCE = "95% bootstrap interval of the median; of fewer than five rounds, the least and the greatest"
LEFT_TO_JSON = (arrays.MEDIAN, suite.RESIDENT, startup.PROCESSOR)
SAME_RUN = ("executables", "python", "linkage")
# Each unit with the smaller one that takes over below 1, and the larger one that does from 1000 on.
SMALLER = {"s": "ms", "ms": "µs", "µs": "ns"}
LARGER = {smaller: larger for larger, smaller in SMALLER.items()}


class Unwritable(Exception):
    """The results have no place: a document without a block, or a file of results of something else."""


def as_json(facts, sections, hosts, notes):
    """Returns all of a run, raw values too."""
    return joined({
        "schema": SCHEMA, "facts": facts, "hosts": hosts, "notes": notes,
        "sections": {name: {"mode": facts["mode"], "raw": samples.as_json()} for name, samples in sections.items()},
    })


def added(result, earlier):
    """Returns a result with the sections that only an earlier one has, of the same executables."""
    for fact in SAME_RUN:
        if earlier.get("schema") != SCHEMA or earlier["facts"][fact] != result["facts"][fact]:
            raise Unwritable(f"the file of results is of another run: {fact} differs")
    return joined({
        **result, "hosts": list(dict.fromkeys([*earlier["hosts"], *result["hosts"]])),
        "notes": list(dict.fromkeys([*earlier["notes"], *result["notes"]])),
        "sections": {name: {**earlier["sections"], **result["sections"]}[name] for name in SECTIONS
                     if name in earlier["sections"] or name in result["sections"]},
    })


def joined(result):
    """Returns a result with what follows from its raw values: the rows and the targets."""
    samples = {name: pairs.Samples.of_json(section["raw"]) for name, section in result["sections"].items()}
    return {
        **result, "targets": targets.told(samples, result["hosts"]),
        "sections": {name: {**section, "title": SECTIONS[name].TITLE, "rows": pairs.rows(samples[name], baseline(name))}
                     for name, section in result["sections"].items()},
    }


def baseline(section):
    """Returns the name of the contender that a section's ratios are to."""
    return getattr(SECTIONS[section], "BASELINE", "stock")


def as_markdown(result):
    """Returns the report of what `as_json` returned."""
    parts = ["### Targets", table(("", "measured", "target", ""), map(target_cells, measured(result["targets"])))]
    for name, section in result["sections"].items():
        parts += [f"### {section['title']}", *of_section(name, section["rows"])]
    parts += ["### How it was measured", table(("", ""), [(name, str(fact)) for name, fact in result["facts"].items()])]
    modes = ", ".join(f"{name} {section['mode']}" for name, section in result["sections"].items())
    parts.append(f"Ratios are to stock Python where no other is named, and medians over rounds, in each of which the contenders were measured "
                 f"one after the other; interval: {CONFIDENCE}. Sections: {modes}.")
    if result["notes"]:
        parts.append("\n".join(f"- {note}" for note in result["notes"]))
    return "\n\n".join(parts)


def of_section(name, rows):
    """Returns the parts of the report that tell of one section."""
    shown = [row for row in rows if not row["metric"].endswith(LEFT_TO_JSON)]
    if not shown:
        return ["Not measured."]
    if name == "checkers":
        return ["Ratios to stock; the interval is that of the time.", table(*of_checkers(shown))]
    if name in ("peers", "growth"):
        kept = [row for row in shown if not row["metric"].endswith(programs.AFTER)]
        return ["Ratios to stock; their intervals, and sizes at once after a free, are in the JSON.", table(*ratios_alone(kept))]
    if name == "programs":
        return [table(*of_programs(shown))]
    first = shown[0]["contender"]
    told = table(("", baseline(name), "ratio", "interval"), [row_cells(row, first) for row in shown])
    return [*(summaries(rows) if name == "pyperformance" else ()), told]


def measured(all_targets):
    return [target for target in all_targets if target["ratio"] is not None]


def target_cells(target):
    return (target["target"], f"{target['ratio']:.3f}", f"≤ {target['bound']:.2f}", "met" if target["met"] else "**not met**")


def row_cells(row, first):
    """Returns a row's cells. Contenders but the first are named."""
    named = "" if row["contender"] == first else f" ({row['contender']})"
    return row["metric"] + named, quantity(row["baseline_value"], row["unit"]), f"{row['ratio']:.3f}", interval(row)


def interval(row):
    return f"{row['low']:.3f} to {row['high']:.3f}"


def of_programs(rows):
    """Returns head and rows of a table with a row a program: its time, and the ratios of its sizes."""
    sizes = list(programs.SIZES.values())
    ratios = {(row["metric"], row["contender"]): f"{row['ratio']:.3f}" for row in rows}
    lines = [(*row_cells(row, rows[0]["contender"]), *(ratios.get((row["metric"] + size, row["contender"]), "") for size in sizes))
             for row in rows if not row["metric"].endswith(tuple(sizes))]
    return ("", "stock", "time", "interval", *(size.removeprefix(", ") for size in sizes)), lines


def of_checkers(rows):
    """Returns head and rows of a table with a row a configuration: of each load its time, the interval, and its peak."""
    loads = [load for load in checkers.LOADS if any(row["metric"] == load for row in rows)]
    found = {(row["contender"], row["metric"]): row for row in rows}
    of_stock = {row["metric"]: quantity(row["baseline_value"], row["unit"]) for row in rows}
    lines = [("stock", *(cell for load in loads for cell in (of_stock[load], "", of_stock[load + checkers.PEAK])))]
    for contender in dict.fromkeys(row["contender"] for row in rows):
        cells = [contender if "pyhost" not in contender else f"`{contender}`"]
        for load in loads:
            time, peak = found.get((contender, load)), found.get((contender, load + checkers.PEAK))
            cells += [f"{time['ratio']:.2f}", interval(time), f"{peak['ratio']:.2f}"] if time else ["", "", ""]
        lines.append(tuple(cells))
    return ("", *(head for load in loads for head in (load, "interval", "peak resident"))), lines


def ratios_alone(rows):
    """Returns head and rows of a table with a column a contender."""
    contenders = list(dict.fromkeys(row["contender"] for row in rows))
    found = {}
    for row in rows:
        cells = found.setdefault(row["metric"], {"stock": quantity(row["baseline_value"], row["unit"])})
        cells[row["contender"]] = f"{row['ratio']:.2f}"
    lines = [(metric, *(cells.get(name, "") for name in ("stock", *contenders))) for metric, cells in found.items()]
    return ("", "stock", *contenders), lines


def summaries(rows):
    """Returns the geometric mean and the worst benchmark, a line for each host."""
    lines = []
    for contender in dict.fromkeys(row["contender"] for row in rows):
        of_it = [row for row in rows if row["contender"] == contender]
        times = [row for row in of_it if not row["metric"].endswith(suite.RESIDENT)]
        sizes = [row["ratio"] for row in of_it if row["metric"].endswith(suite.RESIDENT)]
        worst = max(times, key=lambda row: row["ratio"])
        line = (f"{contender}: geometric mean {pairs.geometric_mean(row['ratio'] for row in times):.3f} of "
                f"{len(times)} benchmarks, worst {worst['metric']} {worst['ratio']:.3f}")
        if sizes:
            line += f"; resident size, geometric mean {pairs.geometric_mean(sizes):.3f}, worst {max(sizes):.3f}"
        lines.append(line + ".")
    return lines


def quantity(value, unit):
    """Returns three or four digits that count, in a unit of time that suits them."""
    while 0 < value < 1 and unit in SMALLER:
        value, unit = value * 1000, SMALLER[unit]
    while value >= 1000 and unit in LARGER:
        value, unit = value / 1000, LARGER[unit]
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3
    return f"{value:.{digits}f} {unit}"


def table(head, rows):
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def replaced(text, markdown, mark=BEGIN):
    """Returns a document with its marked block replaced."""
    before, begin, rest = text.partition(mark)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise Unwritable(f"the document has no block from `{mark}` to `{END}`")
    return f"{before}{begin}\n\n{markdown}\n\n{end}{after}"
