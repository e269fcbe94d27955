"""pyhost.profile, and --profile-lines: what each line of a function adds, its peak, its hits and its time.

Run in every interpreter that asks for it, and not before. What happens at a line is in C: see profile.rs.
"""

import atexit
import builtins
import os
import sys

import pyhost
from pyhost import (_at, _code, _profile_end, _profile_forget, _profile_line, _profile_rows, _profile_start, _profile_watch, _profile_write,
                    _signed, _table, _text)

_ACCOUNTS = ("raw", "mem", "obj", "arena", "numpy", "native", "mapped")
_TITLES = ("line", "peak", "above begin", "added", "hits", "time", "account", "source")

# What is printed at the end, and behind what.
_shown = []
_prefix = "pyhost: "
# Of sys.monitoring, from 3.12 on; -1 if none is free.
_tool = None


class LineProfile:
    """The lines of a function: what each added, its peak, its hits and its time, over all calls so far."""

    __slots__ = ("name", "_codes")

    def __init__(self, name, codes):
        self.name = name
        self._codes = codes

    @property
    def rows(self):
        """The lines that were reached, as dictionaries: line, hits, seconds, peak_bytes (the most bytes while it ran),
        peak_growth_bytes (above its begin), growth_bytes, accounts, the growth of each, and other_threads: whether others
        allocated meanwhile, which is in all figures.
        """
        found = []
        for code in self._codes:
            for line, hits, time, peak, above, others, *growth, added in _profile_rows(code):
                found.append({"line": line, "hits": hits, "seconds": time / 1e9, "peak_bytes": peak, "peak_growth_bytes": above,
                              "growth_bytes": added, "accounts": dict(zip(_ACCOUNTS, growth)), "other_threads": bool(others)})
        return found

    def _head(self):
        file = self._codes[0].co_filename if self._codes else ""
        note = " (*: with what other threads did meanwhile)" if any(row["other_threads"] for row in self.rows) else ""
        return f"lines of {self.name}, {_at(file)}{note}"

    def _texts(self):
        """The titles and a row a line of the source, as texts."""
        reached = {row["line"]: _figures(row) for row in self.rows}
        texts = {}
        for code in self._codes:
            texts.update(enumerate(_source(code), code.co_firstlineno))
        lines = sorted(texts.keys() | reached.keys())
        return [_TITLES, *((str(line), *reached.get(line, ("",) * 6), texts.get(line, "")) for line in lines)]

    def __str__(self):
        rows = self._texts()
        lines = _table([row[:-1] for row in rows]).split("\n")
        width = max(map(len, lines))
        return "\n".join([f"{self._head()}:", *(f"{line:{width}}  {row[-1]}".rstrip() for line, row in zip(lines, rows))])

    def _repr_html_(self):
        return pyhost._html_of_profile(self)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return pyhost._bundle(self)


def _figures(row):
    growth = row["accounts"]
    least = max(sum(map(abs, growth.values())) / 10, 1)
    largest = sorted((name for name in growth if abs(growth[name]) >= least), key=lambda name: -abs(growth[name]))
    return (_text(row["peak_bytes"]), _text(row["peak_growth_bytes"]), _signed(row["growth_bytes"]), str(row["hits"]),
            f"{row['seconds']:.3f} s", "+".join(largest) + "*" * row["other_threads"])


def _source(code):
    """The lines of a code object's source; an empty list if it cannot be found."""
    import inspect

    try:
        return [line.rstrip() for line in inspect.getsourcelines(code)[0]]
    except (OSError, TypeError, IndexError, SyntaxError):
        return []


def profile(function, /):
    """Decorator: measure what each line of a function adds to the memory of the process, its peak, its hits and its time.

    The function stays the object that it is. Its attribute profile is a LineProfile, whose table is printed on stderr at the
    end. The lines of a function beneath other decorators are its own.
    """
    inner = function
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    code = _code(inner)
    if code is None:
        raise TypeError("profile: expected a function of Python code")
    # That of --profile-lines, which may name it, too.
    shown = next((of for of, _ in _shown if any(known is code for known in of._codes)), None)
    if shown is None:
        shown = LineProfile(getattr(code, "co_qualname", code.co_name), [code])
        _watch(code)
        _show_at_end(shown)
    getattr(function, "__func__", function).profile = shown
    return function


def _watch(code):
    global _tool

    if _profile_watch(code):
        return
    monitoring = sys.monitoring
    events = monitoring.events
    if _tool is None:
        _tool = next((tool for tool in (4, 3, 5, 2, 1, 0) if monitoring.get_tool(tool) is None), -1)
        if _tool < 0:
            print("pyhost: profile: no tool of sys.monitoring is free; no line is measured", file=sys.stderr)
            return
        monitoring.use_tool_id(_tool, "pyhost")
        for event, call in (("LINE", _profile_line), ("PY_START", _profile_start), ("PY_RESUME", _profile_start),
                            ("PY_THROW", _profile_start), ("PY_RETURN", _profile_end), ("PY_YIELD", _profile_end),
                            ("PY_UNWIND", _profile_end)):
            monitoring.register_callback(_tool, getattr(events, event), call)
        # They are no events of a single code object.
        monitoring.set_events(_tool, events.PY_THROW | events.PY_UNWIND)
    if _tool >= 0:
        monitoring.set_local_events(_tool, code, events.LINE | events.PY_START | events.PY_RESUME | events.PY_RETURN
                                    | events.PY_YIELD)


def _show_at_end(shown, warning=""):
    if not _shown:
        atexit.register(_print)
        os.register_at_fork(after_in_child=_begin_child)
    _shown.append((shown, warning))


def _begin_child():
    global _prefix

    _prefix = f"pyhost: process {os.getpid()}: "
    _profile_forget()
    _shown[:] = [(shown, "") for shown, _ in _shown]
    util = sys.modules.get("multiprocessing.util")
    if util:  # its children end without atexit
        util.register_after_fork(_print, lambda _: util.Finalize(None, _print, exitpriority=0))


def _print():
    reached = [shown for shown, _ in _shown if shown.rows]
    texts = [] if reached and _profile_write(lambda: pyhost._page(reached)) else reached
    texts += [warning for shown, warning in _shown if warning and not shown.rows]
    _shown.clear()
    for text in texts:
        print(f"{_prefix}{text}", file=sys.stderr)


def _named(code, names):
    """The code objects in another one that have a qualified name: several if a function is defined in several ways."""
    for inner in code.co_consts:
        if isinstance(inner, type(code)):
            if inner.co_name.startswith("<generic parameters"):
                yield from _named(inner, names)
            elif inner.co_name == names[0]:
                yield from _named(inner, names[1:]) if names[1:] else (inner,)


def _profile_named(name, is_quiet):
    """Profile a function for --profile-lines: its code is found in that of its module, right before that runs."""
    def look(event, arguments):
        # An audit hook, which cannot be taken away, and must raise nothing.
        loaded = sys.modules.get(module) if event == "exec" and not codes and sys.modules else None
        if loaded is None or getattr(arguments[0], "co_name", None) != "<module>":
            return
        code, file = arguments[0], getattr(loaded, "__file__", None)
        # Without a file it is the code of -c or of standard input.
        if code.co_filename in ((file,) if file else ("<string>", "<stdin>")):
            codes.extend(_named(code, names))
            for found in codes:
                _watch(found)

    codes = []
    module, _, path = name.partition(":")
    names = [part for part in path.split(".") if part != "<locals>"]
    _show_at_end(LineProfile(name, codes), "" if is_quiet else f"--profile-lines: no call of '{name}' was seen in this process")
    # As line_profiler and memory_profiler have it, whose scripts name it without an import.
    builtins.__dict__.setdefault("profile", profile)
    sys.addaudithook(look)
