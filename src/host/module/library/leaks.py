"""pyhost.leaks: calls a function again and again, and shows what grows with every call.

Run in every interpreter that asks for it, and not before. The figures are taken in C, into memory of their own.
"""

import gc
import itertools
import sys

from pyhost import _lines_begin, _lines_end, _repeats_begin, _repeats_end, _repeats_take, _text, track

# CPython's cache of type attributes keeps the name that was looked up last in each of its 4,096 places: C code that makes the
# name anew for each call would seem to leave one behind.
_clear_caches = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache
# Accounts whose bytes are others' too: pymalloc's arenas hold blocks of obj, and what is mapped is no block of a heap.
_BESIDE = ("arena", "mapped")
_MOST_ROWS = 10


class Leaks:
    """What a function leaves behind with every call. True if there is anything.

    repeat is the number of calls that were measured. bytes_per_call and blocks_per_call are of all accounts but arena and
    mapped. accounts is a dictionary by name of (bytes, blocks) a call; sizes a list of dictionaries with account,
    block_bytes and blocks_per_call; types one with type and objects_per_call, of the objects that the garbage collector
    knows; lines one with file, line, function, account, bytes_per_call and blocks_per_call, or None where no lines
    could be recorded.
    """

    __slots__ = ("name", "repeat", "accounts", "sizes", "types", "lines")

    def __init__(self, name, repeat, accounts, sizes, types, lines):
        self.name = name
        self.repeat = repeat
        self.accounts = accounts
        self.sizes = sizes
        self.types = types
        self.lines = lines

    @property
    def bytes_per_call(self):
        return sum(size for name, (size, _) in self.accounts.items() if name not in _BESIDE)

    @property
    def blocks_per_call(self):
        return sum(blocks for name, (_, blocks) in self.accounts.items() if name not in _BESIDE)

    def __bool__(self):
        return bool(self.accounts)

    def to_dict(self):
        """Return all of it as a dictionary of plain values, which json.dumps takes."""
        accounts = {name: {"bytes_per_call": size, "blocks_per_call": blocks}
                    for name, (size, blocks) in self.accounts.items()}
        return {"function": self.name, "repeat": self.repeat, "bytes_per_call": self.bytes_per_call,
                "blocks_per_call": self.blocks_per_call, "accounts": accounts, "sizes": self.sizes,
                "types": self.types, "lines": self.lines}

    def __repr__(self):
        return f"<pyhost.Leaks of {self.name}: {_text(self.bytes_per_call)} in {self.blocks_per_call} blocks a call>"

    def __str__(self):
        if not self:
            return f"{self.name}: nothing grows with every call ({self.repeat} calls)"
        text = [f"{self.name} leaves {_text(self.bytes_per_call)} in {_blocks(self.blocks_per_call)} with every call "
                f"({self.repeat} calls)"]
        for name, (size, blocks) in self.accounts.items():
            text.append(f"  {name}: {_text(size)} in {_blocks(blocks)}")
        if self.sizes:
            text.append("by size:")
            for row in self.sizes[:_MOST_ROWS]:
                text.append(f"  {_blocks(row['blocks_per_call'])} of {row['block_bytes']} bytes ({row['account']})")
        if self.types:
            text.append("by type:")
            for row in self.types[:_MOST_ROWS]:
                text.append(f"  {row['objects_per_call']} {row['type']}")
        if self.lines:
            text.append("by line:")
            for row in self.lines[:_MOST_ROWS]:
                place = f"{row['file']}:{row['line']} in {row['function']}" if row["file"] else "outside of Python code"
                by = f", by {row['package']}" if row["package"] else ""
                text.append(f"  {_text(row['bytes_per_call'])} in {_blocks(row['blocks_per_call'])} "
                            f"({row['account']})  {place}{by}")
        return "\n".join(text)


def leaks(function, *, repeat=16, warmup=4):
    """Call a function again and again, and return what grows with every call, as a Leaks.

    The function is called warmup times first, so that caches are full, then repeat times for the figures; if something
    grows, repeat times more for the types and repeat times more for the lines. Garbage is collected after each
    call. Something grows if it does so in three calls of four at least; of each account the middle growth counts. What other
    threads allocate meanwhile is counted, too. One measurement at a time; RuntimeError while another thread measures.
    An exception of the function ends it.
    """
    if not callable(function):
        raise TypeError(f"leaks: expected a function, not {type(function).__name__}")
    if type(repeat) is not int or type(warmup) is not int or warmup < 0:
        raise ValueError("leaks: repeat and warmup are numbers of calls")
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    _call(function, warmup)
    rows, classes = _figures(function, repeat)
    accounts = {account: grown for account, moments in rows if (grown := _growth(moments))}
    if not accounts:
        return Leaks(name, repeat, accounts, [], [], [])
    return Leaks(name, repeat, accounts, _sizes(classes, repeat), _types(function, repeat), _lines(function, repeat))


def _call(function, count):
    for _ in itertools.repeat(None, count):
        function()
        _settle()


def _settle():
    _clear_caches()
    gc.collect()


def _figures(function, repeat):
    """The figures before the first call and after each, by account, and the size classes that grew."""
    if not _repeats_begin(repeat):
        raise RuntimeError("leaks: another thread measures; expected one measurement at a time")
    try:
        _settle()
        _repeats_take()
        for _ in itertools.repeat(None, repeat):
            function()
            _settle()
            _repeats_take()
    finally:
        taken = _repeats_end()
    return taken


def _growth(moments):
    """The middle growth of a call, as (bytes, blocks); None where too few calls grow."""
    bytes_of = sorted(after[0] - before[0] for before, after in zip(moments, moments[1:]))
    blocks_of = sorted(after[1] - before[1] for before, after in zip(moments, moments[1:]))
    fourth = len(bytes_of) // 4
    if bytes_of[fourth] <= 0 and blocks_of[fourth] <= 0:
        return None
    middle = (len(bytes_of) - 1) // 2
    return bytes_of[middle], blocks_of[middle]


def _sizes(classes, repeat):
    rows = [{"account": account, "block_bytes": size, "blocks_per_call": round(blocks / repeat)}
            for account, size, blocks, _ in classes if 4 * blocks >= 3 * repeat]
    return sorted(rows, key=lambda row: -row["block_bytes"] * row["blocks_per_call"])


def _types(function, repeat):
    """The types of objects that grow; the garbage collector knows those that hold others."""
    before = _counts()
    _call(function, repeat)
    after = _counts()
    rows = [{"type": _name(kind), "objects_per_call": round((count - before.get(kind, 0)) / repeat)}
            for kind, count in after.items() if 4 * (count - before.get(kind, 0)) >= 3 * repeat]
    return sorted(rows, key=lambda row: (-row["objects_per_call"], row["type"]))


def _counts():
    counts = {}
    for found in gc.get_objects():
        kind = type(found)
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def _name(kind):
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _lines(function, repeat):
    """The lines whose blocks grow; None without lines."""
    begun = _lines_begin()
    try:
        tracked = track()
        with tracked:
            _call(function, repeat)
        lines = tracked.lines
    finally:
        if begun:
            _lines_end()
    if lines is None:
        return None
    rows = []
    for line in lines.top(1000, "grown"):
        if 4 * line["blocks"] >= 3 * repeat:
            rows.append({"file": line["file"], "line": line["line"], "function": line["function"],
                         "account": line["account"], "package": line["package"],
                         "bytes_per_call": round(line["bytes"] / repeat),
                         "blocks_per_call": round(line["blocks"] / repeat)})
    return rows


def _blocks(count):
    return "1 block" if count == 1 else f"{count} blocks"
