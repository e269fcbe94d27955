"""pyhost.leaks: calls a function again and again, and shows what grows with every call.

Run in every interpreter that asks for it, and not before. The figures are taken in C, into memory of their own.
"""

import gc
import itertools
import sys

from pyhost import _repeats_begin, _repeats_end, _repeats_figures, _repeats_lines, _repeats_on, _repeats_take, _text, _where, track

# CPython's cache of type attributes keeps the name that was looked up last in each of its 4,096 places: C code that makes the
# name anew for each call would seem to leave one behind.
_clear_caches = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache
# pymalloc's arenas hold blocks of obj: their bytes would count twice.
_BESIDE = "arena"
_MOST_ROWS = 10
_AT_ONCE = "leaks: another measurement goes on; expected one at a time"


class Leaks:
    """What a function leaves behind with every call. True if there is anything.

    repeat is the number of calls that were measured. bytes_per_call and blocks_per_call are of all accounts but arena.
    accounts is a dictionary by name of (bytes, blocks) a call; sizes a list of dictionaries with account,
    block_bytes and blocks_per_call; types one with type and objects_per_call, of the objects that the garbage collector
    knows; lines one with file, line, function, account, bytes_per_call and blocks_per_call, or None if no lines
    could be recorded. lines_are_sampled is True if lines were recorded before, as by --lines: then their figures are estimates.
    """

    __slots__ = ("name", "repeat", "accounts", "sizes", "types", "lines", "lines_are_sampled")

    def __init__(self, name, repeat, accounts, sizes=(), types=(), lines=None, lines_are_sampled=False):
        values = name, repeat, accounts, list(sizes), list(types), lines, lines_are_sampled
        for slot, value in zip(self.__slots__, values):
            setattr(self, slot, value)

    @property
    def bytes_per_call(self):
        return sum(size for name, (size, _) in self.accounts.items() if name != _BESIDE)

    @property
    def blocks_per_call(self):
        return sum(blocks for name, (_, blocks) in self.accounts.items() if name != _BESIDE)

    def __bool__(self):
        return bool(self.accounts)

    def to_dict(self):
        """Return all of it as a dictionary of plain values, which json.dumps takes."""
        accounts = {name: {"bytes_per_call": size, "blocks_per_call": blocks}
                    for name, (size, blocks) in self.accounts.items()}
        return {"function": self.name, "repeat": self.repeat, "bytes_per_call": self.bytes_per_call,
                "blocks_per_call": self.blocks_per_call, "accounts": accounts, "sizes": self.sizes,
                "types": self.types, "lines": self.lines, "lines_are_sampled": self.lines_are_sampled}

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
            text.append("by line, estimated from samples:" if self.lines_are_sampled else "by line:")
            for row in self.lines[:_MOST_ROWS]:
                text.append(f"  {_text(row['bytes_per_call'])} in {_blocks(row['blocks_per_call'])} "
                            f"({row['account']})  {_where(row)}")
        return "\n".join(text)


def leaks(function, *, repeat=16, warmup=4):
    """Call a function again and again, and return what grows with every call, as a Leaks.

    The function is called warmup times first, so that caches are full, then repeat times for the figures; if something
    grows, repeat times more for the types and repeat times more for the lines. Garbage is collected after each
    call. Something grows if it does so in three calls of four at least; of each account the middle growth counts. What other
    threads allocate meanwhile is counted, too. One measurement at a time: RuntimeError while another one goes on.
    An exception of the function ends it.
    """
    if not callable(function):
        raise TypeError(f"leaks: expected a function, not {type(function).__name__}")
    if type(repeat) is not int or type(warmup) is not int or warmup < 0:
        raise ValueError("leaks: repeat and warmup are numbers of calls")
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    if _repeats_on():
        raise RuntimeError(_AT_ONCE)
    try:
        # In here: a signal's handler may raise as soon as it has begun.
        if not _repeats_begin(max(0, min(repeat, 1 << 32))):
            raise RuntimeError(_AT_ONCE)
        _call(function, warmup)
        rows, classes = _figures(function, repeat)
        accounts = {account: grown for account, moments in rows if (grown := _growth(moments))}
        if not accounts:
            return Leaks(name, repeat, accounts)
        types = _types(function, repeat)
        return Leaks(name, repeat, accounts, _sizes(classes, repeat), types, *_lines(function, repeat))
    finally:
        _repeats_end()


def _call(function, count):
    for _ in itertools.repeat(None, count):
        function()
        _settle()


def _settle():
    _clear_caches()
    gc.collect()


def _figures(function, repeat):
    """The figures before the first call and after each, by account, and the size classes that grew."""
    calls = itertools.repeat(None, repeat)
    _settle()
    _repeats_take()
    for _ in calls:
        function()
        _settle()
        _repeats_take()
    return _repeats_figures()


def _growth(moments):
    """The middle growth of a call, as (bytes, blocks); None if too few calls grow."""
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
    before, _ = _counts()
    _call(function, repeat)
    after, kinds = _counts()
    rows = [{"type": _name(kinds[key]), "objects_per_call": round((count - before.get(key, 0)) / repeat)}
            for key, count in after.items() if 4 * (count - before.get(key, 0)) >= 3 * repeat]
    return sorted(rows, key=lambda row: (-row["objects_per_call"], row["type"]))


def _counts():
    """The number of objects of each type, and the types, by the type's address: some types have no hash."""
    counts, kinds = {}, {}
    for found in gc.get_objects():
        kind = type(found)
        key = id(kind)
        kinds[key] = kind
        counts[key] = counts.get(key, 0) + 1
    return counts, kinds


def _name(kind):
    # Past the metaclass's own attributes.
    name = type.__getattribute__(kind, "__qualname__")
    try:
        module = type.__getattribute__(kind, "__module__")
    except AttributeError:
        return name
    return f"{module}.{name}" if isinstance(module, str) and module != "builtins" else name


def _lines(function, repeat):
    """The lines whose blocks grow, None without lines; and whether they are estimates."""
    has_begun = _repeats_lines()
    with track() as tracked:
        _call(function, repeat)
    lines = tracked.lines
    if lines is None:
        return None, False
    rows = []
    for line in lines.top(1000, "grown"):
        if 4 * line["blocks"] >= 3 * repeat:
            rows.append({"file": line["file"], "line": line["line"], "function": line["function"],
                         "account": line["account"], "package": line["package"],
                         "bytes_per_call": round(line["bytes"] / repeat),
                         "blocks_per_call": round(line["blocks"] / repeat)})
    return rows, not has_begun


def _blocks(count):
    return "1 block" if count == 1 else f"{count} blocks"
