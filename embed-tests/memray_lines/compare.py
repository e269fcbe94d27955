"""Compares the lines of a peak by memray with those by the host: plain data in, plain data out.

A line is that of the innermost call of the program's own files, or else of the innermost call, as in the host's table. Both sides leave out maps. memray counts
the bytes that were asked for, the host those of the blocks, so a line may have more by the host: by a fourth, as
mimalloc's sizes are, and by 16 bytes a block.
"""

import collections
import dataclasses
import math

TOP = 10
ELSEWHERE = "(outside of Python code)"


@dataclasses.dataclass
class Line:
    """The bytes of a line by memray, and by the host with its error."""

    place: str
    asked: int = 0
    blocks: int = 0
    estimate: int = 0
    squares: float = 0.0

    def error(self, interval):
        return 3 * interval + math.sqrt(self.squares)

    def agrees(self, interval):
        """Says whether both may be of the same blocks."""
        most = self.asked * 5 / 4 + 16 * self.blocks
        return self.asked - self.error(interval) <= self.estimate <= most + self.error(interval)


def place_of(stack, own):
    """Returns a line as "file:line". Before and around the program there is code of either side's alone."""
    found = next((call for call in stack if own(call["file"])), None)
    if found is None and not any(is_around(call["file"]) for call in stack):
        found = stack[0] if stack else None
    return f"{found['file'].rpartition('/')[2]}:{found['line']}" if found else ELSEWHERE


def is_around(file):
    return "/memray/" in file or file.endswith("/after_imports.py") or file == "<frozen runpy>"


def lines_of(records, rows, interval, own):
    """Returns the lines, by their place: `records` are memray's, `rows` the host's."""
    lines = {}
    for record in records:
        if not record["is_map"]:
            place = place_of(record["stack"], own)
            line = lines.setdefault(place, Line(place))
            line.asked += record["bytes"]
            line.blocks += record["blocks"]
    for row in rows:
        if row["account"] != "mapped":
            place = place_of(row["stack"], own)
            line = lines.setdefault(place, Line(place))
            line.estimate += row["bytes"]
            line.squares += max(0, row["error_bytes"] - 3 * interval) ** 2
    return lines


def top(lines, value):
    found = sorted((line for line in lines.values() if line.place != ELSEWHERE), key=value, reverse=True)
    return [line for line in found[:TOP] if value(line) > 0]


def compared(lines, interval):
    """Returns both top tens, of lines with more bytes than the least error, and the lines that do not agree. A line with
    fewer may have no sample."""
    lines = {place: line for place, line in lines.items() if max(line.asked, line.estimate) > 3 * interval}
    by_memray, by_host = top(lines, lambda line: line.asked), top(lines, lambda line: line.estimate)
    union = list(collections.OrderedDict((line.place, line) for line in by_memray + by_host).values())
    return by_memray, by_host, [line for line in union if not line.agrees(interval)]


def is_rank_possible(line, lines, interval):
    """Says whether the line may be one of the host's first ten: fewer than ten others have more for sure."""
    others = [other for other in lines.values() if other.place not in (line.place, ELSEWHERE)]
    above = sum(other.estimate - other.error(interval) > line.estimate + line.error(interval) for other in others)
    return above < TOP
