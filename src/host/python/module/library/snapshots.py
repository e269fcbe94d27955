"""pyhost.snapshot() and what it gives: immutable figures of a moment, and the difference of two.

Run in every interpreter that asks for one of its names, and not before. Plain classes: dataclasses and typing would be
imported for them, and take more memory than most programs that are measured.
"""

import sys

from pyhost import _moment, _text


class _Frozen:
    """A value: its slots are set once, when it is made, and compared and shown together."""

    __slots__ = ()

    def __init__(self, *values):
        for name, value in zip(self.__slots__, values):
            object.__setattr__(self, name, value)

    def __setattr__(self, name, value=None):
        raise AttributeError(f"{type(self).__name__} is immutable")

    __delattr__ = __setattr__

    def __eq__(self, other):
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self):
        return hash(tuple(getattr(self, name) for name in self.__slots__))

    def __reduce__(self):
        return type(self), tuple(getattr(self, name) for name in self.__slots__)

    def __repr__(self):
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"pyhost.{type(self).__name__}({shown})"

    def to_dict(self):
        """Return the fields as a dictionary of plain values, which json.dumps takes."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__}


def _plain(value):
    if isinstance(value, _Frozen):
        return value.to_dict()
    if isinstance(value, _Accounts):
        return {name: _plain(figures) for name, figures in value.items()}
    return value


class _Accounts(dict):
    """Accounts by name; a dictionary that cannot be changed."""

    __slots__ = ()

    def _refuse(self, *_, **__):
        raise TypeError("the accounts of a snapshot are immutable")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self):
        return hash(tuple(self.items()))

    def __reduce__(self):
        return _Accounts, (dict(self),)


class Figures(_Frozen):
    """One account at the moment of a snapshot. Bytes are those that the blocks really take."""

    __slots__ = ("live_bytes", "peak_bytes", "live_blocks", "total_blocks", "refused", "failed")


class Snapshot(_Frozen):
    """The figures of one moment, as pyhost.snapshot() returns them. Immutable; compares and pickles by value."""

    __slots__ = ("time", "accounts", "total_live_bytes", "total_peak_bytes", "resident_bytes", "peak_resident_bytes")

    def __repr__(self):
        return (f"<pyhost.Snapshot at {self.time:.3f}: {_text(self.total_live_bytes)} live, "
                f"peak {_text(self.total_peak_bytes)}, resident {_text(self.resident_bytes)}>")

    def __str__(self):
        rows = [("account", "live", "peak", "live blocks", "allocations")]
        for name, figures in self.accounts.items():
            rows.append((name, _text(figures.live_bytes), _text(figures.peak_bytes), str(figures.live_blocks),
                         str(figures.total_blocks)))
        rows.append(("total", _text(self.total_live_bytes), _text(self.total_peak_bytes), "", ""))
        rows.append(("resident", _text(self.resident_bytes), _text(self.peak_resident_bytes), "", ""))
        return _table(rows)

    def diff(self, later):
        """Return what changed from this snapshot to a later one, as a Diff."""
        if not isinstance(later, Snapshot):
            raise TypeError(f"diff: expected a pyhost.Snapshot, not {type(later).__name__}")
        rows = []
        for name, before in self.accounts.items():
            after = later.accounts[name]
            rows.append(DiffRow(name, before.live_bytes, after.live_bytes, after.live_bytes - before.live_bytes,
                                after.live_blocks - before.live_blocks, after.total_blocks - before.total_blocks))
        total = DiffRow("total", self.total_live_bytes, later.total_live_bytes,
                        later.total_live_bytes - self.total_live_bytes, sum(row.growth_blocks for row in rows),
                        sum(row.allocations for row in rows))
        return Diff(later.time - self.time, tuple(rows), total, self.resident_bytes, later.resident_bytes)


class DiffRow(_Frozen):
    """What changed in one account, or in all together, between two snapshots."""

    __slots__ = ("account", "before_bytes", "after_bytes", "growth_bytes", "growth_blocks", "allocations")


class Diff(_Frozen):
    """What changed between two snapshots: a row an account. print() shows it as a table."""

    __slots__ = ("seconds", "rows", "total", "resident_before_bytes", "resident_after_bytes")

    @property
    def resident_growth_bytes(self):
        """How much the resident memory of the process grew."""
        return self.resident_after_bytes - self.resident_before_bytes

    def __iter__(self):
        return iter(self.rows)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, account):
        for row in (*self.rows, self.total):
            if row.account == account:
                return row
        raise KeyError(account)

    def __repr__(self):
        return f"<pyhost.Diff over {self.seconds:.3f} s: {_signed(self.total.growth_bytes)}>"

    def __str__(self):
        rows = [("account", "before", "after", "growth", "blocks", "allocations")]
        for row in (*self.rows, self.total):
            rows.append((row.account, _text(row.before_bytes), _text(row.after_bytes), _signed(row.growth_bytes),
                         f"{row.growth_blocks:+d}", str(row.allocations)))
        rows.append(("resident", _text(self.resident_before_bytes), _text(self.resident_after_bytes),
                     _signed(self.resident_growth_bytes), "", ""))
        return _table(rows)

    def to_dict(self):
        """Return all of it as a dictionary of plain values, which json.dumps takes."""
        rows = {}
        for row in (*self.rows, self.total):
            rows[row.account] = row.to_dict()
            del rows[row.account]["account"]
        total = rows.pop("total")
        return {
            "seconds": self.seconds,
            "accounts": rows,
            "total": total,
            "resident": {
                "before_bytes": self.resident_before_bytes,
                "after_bytes": self.resident_after_bytes,
                "growth_bytes": self.resident_growth_bytes,
            },
        }


def snapshot():
    """Return the figures of this moment as an immutable Snapshot; a.diff(b) tells what changed to another.

    What the snapshot itself is made of is allocated after the figures were taken.
    """
    time, accounts, total, resident = _moment()
    accounts = _Accounts((name, Figures(*figures)) for name, figures in accounts)
    return Snapshot(time, accounts, *total, *resident)


def _signed(count):
    return ("-" if count < 0 else "+") + _text(abs(count))


def _table(rows):
    """Aligns the columns of rows of texts: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0])]
        cells += [text.rjust(width) for text, width in zip(others, widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _at(file, line=None):
    """A place as people read it: a cell of a notebook as IPython's tracebacks name it, such as `Cell In[3], line 2`."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    cell = getattr(getattr(shell, "compile", None), "format_code_name", lambda _: None)(file)
    if cell is None:
        return file if line is None else f"{file}:{line}"
    return " ".join(cell) + ("" if line is None else f", line {line}")
