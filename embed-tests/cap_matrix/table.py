"""Renders a matrix: the table of outcomes by script and version, the failures by kind, the figures of the ceiling."""

import collections

from outcomes import FAILED, MIB, OUTCOMES

COLUMNS = ("script", "version", *OUTCOMES, "peak / cap", "excess MiB", "seconds")


def render(tasks, records, scripts):
    """Returns all that is printed at the end; `records` are those of the tasks, in their order."""
    pairs = list(zip(tasks, records))
    parts = [table([COLUMNS, *rows(pairs)])]
    failures = [(task, record) for task, record in pairs if record["outcome"] == FAILED]
    if failures:
        kinds = collections.Counter((record["kind"], task.host.minor) for task, record in failures)
        counted = [("failure", "version", "runs"), *((kind, minor, str(n)) for (kind, minor), n in sorted(kinds.items()))]
        parts.append(table(counted))
        parts.append("\n".join(line for task, record in failures for line in told(task, record, scripts)))
    return "\n\n".join(parts)


def rows(pairs):
    groups = collections.defaultdict(list)
    for task, record in pairs:
        groups[task.script, task.host.release].append((task, record))
    for (script, release), members in groups.items():
        yield (script.removesuffix(".py"), release, *summary(members))
    yield ("all", "", *summary(pairs))


def summary(pairs):
    counts = collections.Counter(record["outcome"] for _, record in pairs)
    ratios = [record["peak_bytes"] / task.cap for task, record in pairs if record["peak_bytes"]]
    excess = max((record["excess"] for _, record in pairs), default=0)
    seconds = sum(record["seconds"] for _, record in pairs)
    return (*(str(counts[name] or "") for name in OUTCOMES), f"{max(ratios):.4f}" if ratios else "-",
            f"{excess / MIB:.1f}", f"{seconds:.0f}")


def told(task, record, scripts):
    """The lines of one failure."""
    yield f"FAILED {task.host.minor} {task.script} {task.cap // MIB}M seed {task.seed}: {record['kind']}: {record['detail']}"
    if record.get("expects"):
        yield f"  {record['expects']}"
    yield f"  {task.repeat(scripts)}"


def table(lines):
    widths = [max(map(len, cells)) for cells in zip(*lines)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip() for cells in lines)
