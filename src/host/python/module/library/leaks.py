"""pyhost.leaks: calls a function again and again, and shows what grows with every call.

Run in every interpreter that asks for it, and not before. The figures are taken in C, into memory of their own.
"""

import collections
import gc
import itertools
import sys
import time

from pyhost import (_holder, _repeats_begin, _repeats_end, _repeats_figures, _repeats_lines, _repeats_on, _repeats_take, _text, _where,
                    track)

# CPython's cache of type attributes keeps the name that was looked up last in each of its 4,096 places: C code that makes the
# name anew for each call would seem to leave one behind.
_clear_caches = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache
# pymalloc's arenas hold blocks of obj: their bytes would count twice.
_BESIDE = "arena"
_MOST_ROWS = 10
# If something grows, so many more calls are made, in so many seconds (fewer calls may take longer), for so many bytes: a cache is no leak.
_CALLS, _SECONDS, _FEW_CALLS, _MOST_SECONDS, _BYTES = 1024, 2.0, 256, 20.0, 64 << 20
# Objects whose references grow, and types, whose holders are searched for: each search looks at the whole heap.
_MOST_SUSPECTS, _MOST_HELD = 20, 3
# A free-threaded Python counts references of a type in each thread.
_COUNTS_REFERENCES = "t" not in getattr(sys, "abiflags", "")
_Module, _Code = type(sys), type((lambda: None).__code__)
_OWN_FILE = (lambda: None).__code__.co_filename
_AT_ONCE = "leaks: another measurement goes on; expected one at a time"


class Leaks:
    """What a function leaves behind with every call. True if there is anything.

    repeat is the number of calls that were measured. bytes_per_call and blocks_per_call are of all accounts but arena.
    accounts is a dictionary by name of (bytes, blocks) a call; bounded one of the bytes that an account had at most more than
    before the first call, if it grew, but was given back or grew no further; sizes a list of dictionaries with account,
    block_bytes and blocks_per_call; types one with type, objects_per_call and held_by, of the objects that the garbage collector
    knows; references one with object, references_per_call, file, line and function, of objects that stay, but have more references
    with every call; lines one with file, line, function, account, bytes_per_call and blocks_per_call, or None if no lines
    could be recorded. lines_are_sampled is True if lines were recorded before, as by --lines: then their figures are estimates.
    """

    __slots__ = ("name", "repeat", "accounts", "bounded", "sizes", "types", "references", "lines", "lines_are_sampled")

    def __init__(self, name, repeat, accounts, bounded, sizes=(), types=(), references=(), lines=None, lines_are_sampled=False):
        values = name, repeat, accounts, bounded, list(sizes), list(types), list(references), lines, lines_are_sampled
        for slot, value in zip(self.__slots__, values):
            setattr(self, slot, value)

    @property
    def bytes_per_call(self):
        return sum(size for name, (size, _) in self.accounts.items() if name != _BESIDE)

    @property
    def blocks_per_call(self):
        return sum(blocks for name, (_, blocks) in self.accounts.items() if name != _BESIDE)

    def __bool__(self):
        return bool(self.accounts or self.references)

    def to_dict(self):
        """Return all of it as a dictionary of plain values, which json.dumps takes."""
        accounts = {name: {"bytes_per_call": size, "blocks_per_call": blocks}
                    for name, (size, blocks) in self.accounts.items()}
        return {"function": self.name, **{slot: getattr(self, slot) for slot in self.__slots__[1:]}, "accounts": accounts,
                "bytes_per_call": self.bytes_per_call, "blocks_per_call": self.blocks_per_call}

    def __repr__(self):
        return f"<pyhost.Leaks of {self.name}: {_text(self.bytes_per_call)} in {self.blocks_per_call} blocks a call>"

    def __str__(self):
        calls = f"({self.repeat} calls)"
        if self.accounts:
            text = [f"{self.name} leaves {_text(self.bytes_per_call)} in {_blocks(self.blocks_per_call)} with every call {calls}"]
        elif self.references:
            text = [f"{self.name} leaves references with every call, and no memory {calls}"]
        else:
            text = [f"{self.name}: nothing grows with every call {calls}"]
        for name, (size, blocks) in self.accounts.items():
            text.append(f"  {name}: {_text(size)} in {_blocks(blocks)}")
        title = "by line, estimated from samples:" if self.lines_are_sampled else "by line:"
        for title, rows, shown in (
            ("by size:", self.sizes, lambda row: f"{_blocks(row['blocks_per_call'])} of {row['block_bytes']} bytes ({row['account']})"),
            ("by type:", self.types, lambda row: f"{row['objects_per_call']} {row['type']}" + (f", held by {row['held_by']}" if row["held_by"] else "")),
            ("by references:", self.references, lambda row: f"{row['references_per_call']} to {row['object']}, by no object that is known"
                                                            + (f"  {_where(row)}" if row["file"] else "")),
            (title, self.lines, lambda row: f"{_text(row['bytes_per_call'])} in {_blocks(row['blocks_per_call'])} "
                                            f"({row['account']})  {_where(row)}"),
        ):
            text += [title, *(f"  {shown(row)}" for row in rows[:_MOST_ROWS])] if rows else []
        for name, most in self.bounded.items():
            text.append(f"bounded: {name} grew by {_text(most)} at most, and not with every call")
        return "\n".join(text)


def leaks(function, *, repeat=16, warmup=4):
    """Call a function again and again, and return what grows with every call, as a Leaks.

    The function is called warmup times first, so that caches are full, then repeat times for the figures. If something
    grows, it is called on: for 1,024 calls, 2 seconds (20 until 256 calls), or 64 MiB of growth. A leak grows over all of
    them; what is given back meanwhile, or grows no further, is bounded, such as a cache. Garbage is collected after each
    of the first calls. Something grows if it does so in three calls of four at least; of each account the middle growth counts.
    Allocations of other threads count, too. One measurement runs at a time: a second raises RuntimeError. An exception ends it.
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
        counted = _count_references(function)
        _take(function, 0)
        for _ in itertools.repeat(None, repeat):
            _take(function, 1)
        suspects = _suspects(function, counted, repeat)
        rows, classes = _repeats_figures()
        grown = {account: growth for account, moments in rows if (growth := _growth(moments))}
        del rows, counted
        if not grown and not suspects:
            return Leaks(name, repeat, {}, {})
        return _confirm(name, function, repeat, grown, classes, suspects)
    finally:
        _repeats_end()


def _call(function, count):
    for _ in itertools.repeat(None, count):
        function()
        _settle()


def _settle():
    _clear_caches()
    gc.collect()


def _take(function, count):
    """Calls so often, and takes the figures."""
    for _ in itertools.repeat(None, count):
        function()
    _settle()
    _repeats_take()


def _growth(moments):
    """The middle growth of a call, as (bytes, blocks); None if too few calls grow."""
    bytes_of = sorted(after[0] - before[0] for before, after in zip(moments, moments[1:]))
    blocks_of = sorted(after[1] - before[1] for before, after in zip(moments, moments[1:]))
    fourth = len(bytes_of) // 4
    if bytes_of[fourth] <= 0 and blocks_of[fourth] <= 0:
        return None
    middle = (len(bytes_of) - 1) // 2
    return bytes_of[middle], blocks_of[middle]


def _confirm(name, function, repeat, grown, classes, suspects):
    """Calls on, until it is known what has grown over all calls. Records lines and counts objects meanwhile."""
    before, _ = _counts()
    known = [_unknown_references(one) for one in suspects]
    has_begun = _repeats_lines()
    begun, size, calls = time.monotonic(), sum(size for size, _ in grown.values()), 0
    with track() as tracked:
        _take(function, 0)
        while calls == 0 or (calls + repeat <= _CALLS and size * calls < _BYTES and
                             time.monotonic() - begun < (_SECONDS if calls >= _FEW_CALLS else _MOST_SECONDS)):
            _take(function, repeat)
            calls += repeat
    more = [_unknown_references(one) - count for one, count in zip(suspects, known)]
    references = [{"object": _shown(one), "references_per_call": round(count / calls), **_taking_line(function, repeat, one)}
                  for one, count in zip(suspects, more) if 4 * count >= 3 * calls]
    rows, _ = _repeats_figures()
    after, kinds = _counts()
    accounts, bounded = {}, {}
    for account, moments in rows:
        if account in grown:
            size, blocks = grown[account]
            later = moments[repeat + 1:]  # all of the time when lines were recorded
            more = [later[-1][part] - later[0][part] for part in (0, 1)]
            ratio = more[0] / size if size > 0 else more[1] / max(1, blocks)
            if 4 * ratio >= 3 * calls:
                accounts[account] = size, blocks
            elif 4 * ratio >= calls and _is_steady([moment[0 if size > 0 else 1] for moment in later]):
                accounts[account] = round(more[0] / calls), round(more[1] / calls)
            else:
                bounded[account] = max(moment[0] for moment in moments) - moments[0][0]
    types = _types(before, after, kinds, calls)
    lines = tracked.lines
    if lines is not None:
        lines = [{**{key: line[key] for key in ("file", "line", "function", "account", "package")},
                  "bytes_per_call": round(line["bytes"] / calls), "blocks_per_call": round(line["blocks"] / calls)}
                 for line in lines.top(1000, "grown") if 4 * line["blocks"] >= 3 * calls]
    if not accounts:
        return Leaks(name, repeat + calls, accounts, bounded, references=references)
    sizes = [row for row in _sizes(classes, repeat) if row["account"] in accounts]
    return Leaks(name, repeat + calls, accounts, bounded, sizes, types, references, lines, lines is not None and not has_begun)


def _is_steady(figures):
    """Whether each quarter grows, and the last by as much as another: CPython 3.13 makes the first objects of a class larger than later ones."""
    at = [figures[(len(figures) - 1) * quarter // 4] for quarter in range(5)]
    growth = [after - before for before, after in zip(at, at[1:])]
    return min(growth) > 0 and 4 * growth[-1] >= 3 * max(growth)


def _sizes(classes, repeat):
    rows = [{"account": account, "block_bytes": size, "blocks_per_call": round(blocks / repeat)}
            for account, size, blocks, _ in classes if 4 * blocks >= 3 * repeat]
    return sorted(rows, key=lambda row: -row["block_bytes"] * row["blocks_per_call"])


def _types(before, after, kinds, calls):
    """The types of objects that grow; the garbage collector knows those that hold others."""
    rows = [(round((count - before.get(key, 0)) / calls), _name(kinds[key]), key)
            for key, count in after.items() if 4 * (count - before.get(key, 0)) >= 3 * calls]
    rows.sort(key=lambda row: (-row[0], row[1]))
    # The newest objects come last.
    holders = [_holder(next((one for one in reversed(gc.get_objects()) if id(type(one)) == key), None)) for *_, key in rows[:_MOST_HELD]]
    return [{"type": name, "objects_per_call": count, "held_by": holder}
            for (count, name, _), holder in itertools.zip_longest(rows, holders)]


def _counts():
    """The number of objects of each type, and the types, by the type's address: some types have no hash."""
    found = [type(one) for one in gc.get_objects()]
    return collections.Counter(map(id, found)), {id(kind): kind for kind in found}


def _lasting(function):
    """Objects that may stay for longer than a call: those that the garbage collector knows, what modules hold, constants."""
    codes = [getattr(function, "__code__", None)]
    for code in codes:
        constants = getattr(code, "co_consts", ())
        yield from constants
        codes.extend(one for one in constants if isinstance(one, _Code))
    yield from (None, True, False, Ellipsis, NotImplemented, (), "", b"", frozenset())
    for module in list(sys.modules.values()):
        if issubclass(type(module), _Module):  # cffi's libraries say that they are modules
            yield from list(_Module.__getattribute__(module, "__dict__").values())
    yield from gc.get_objects()


def _count_references(function):
    """How many references each of these objects has, by address. Integers are left out: they are the figures' own."""
    return {id(one): sys.getrefcount(one) for one in _lasting(function) if type(one) is not int} if _COUNTS_REFERENCES else {}


def _suspects(function, before, repeat):
    """The objects that have more references by one a call at least, in three calls of four."""
    after = _count_references(function)
    found = {key for key, count in after.items() if 4 * (count - before.get(key, count)) >= 3 * repeat}
    return list({id(one): one for one in _lasting(function) if id(one) in found}.values())[:_MOST_SUSPECTS] if found else []


def _unknown_references(one):
    """How many references to an object are not those of objects that the garbage collector knows."""
    known = sum(sum(held is one for held in gc.get_referents(holder)) for holder in gc.get_referrers(one))
    return sys.getrefcount(one) - known


def _taking_line(function, repeat, one):
    """The line of Python within which an object's references grow most."""
    lines = _grown_by_line(function, repeat, one, sys.getrefcount)
    likely = [place for place, more in lines.items() if 4 * more >= 3 * repeat]
    if len(likely) > 1:  # calls of the function that takes them; a local variable, or an instance of the type, that lives to the end
        lines = _grown_by_line(function, 2, one, _unknown_references, likely)
    place = max(lines, key=lines.get) if likely and lines else (None, None, None)
    return dict(zip(("file", "line", "function", "package"), (*place, None)))


def _grown_by_line(function, calls, one, count, among=None):
    """By how many the references grow within each line, or within some of them; inner calls first."""
    grown, begun = {}, {}

    def look(frame, event, _):
        code = frame.f_code
        if event != "call" and id(frame) in begun:
            place, before = begun.pop(id(frame))
            grown[place] = grown.get(place, 0) + count(one) - before
        place = code.co_filename, frame.f_lineno, code.co_name
        if event != "return" and code.co_filename != _OWN_FILE and (among is None or place in among):
            begun[id(frame)] = place, count(one)
        return look

    if sys.gettrace() is None:
        sys.settrace(look)
        try:
            _call(function, calls)
        finally:
            sys.settrace(None)
    return grown


def _shown(one):
    """An object as text; no code of the script is run."""
    if isinstance(one, type):
        return f"the type {_name(one)}"
    if issubclass(type(one), _Module):
        return f"the module {_Module.__getattribute__(one, '__dict__').get('__name__')}"
    return repr(one)[:60] if one is None or type(one) in (bool, str, bytes) else f"an object of the type {_name(type(one))}"


def _name(kind):
    # Past the metaclass's own attributes.
    name = type.__getattribute__(kind, "__qualname__")
    try:
        module = type.__getattribute__(kind, "__module__")
    except AttributeError:
        return name
    return f"{module}.{name}" if isinstance(module, str) and module != "builtins" else name


def _blocks(count):
    return "1 block" if count == 1 else f"{count} blocks"
