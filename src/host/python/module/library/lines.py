"""pyhost.Lines: which lines allocated, as pyhost.lines() and the `lines` of a track return it.

Run in every interpreter that asks for it, and not before.
"""

import pyhost
from pyhost import _at, _origin, _text

_TITLES = {
    "at_peak": "lines at the peak",
    "at_account_peak": "lines at their account's peak",
    "at_resident_peak": "lines at the highest resident size, of maps what was resident",
    "live": "live lines",
    "allocated": "lines by all that they allocated",
    "grown": "lines that grew since the mark",
}
_TITLES_OF_BLOCK = {
    "at_peak": "lines that grew up to the block's peak",
    "grown": "lines that grew in the block",
    "allocated": "lines by all that they allocated in the block",
}


class Lines(dict):
    """Which lines allocated: a dictionary of plain values, as in a JSON report, that shows itself as a table."""

    __slots__ = ()

    def top(self, count=10, view="at_peak", account=None):
        """Return the lines with the most bytes in a view, as dictionaries; of one account, or of all that are in the view's total:
        mapped is part of that of at_resident_peak.

        Each has account (the one with the most bytes), accounts (those with a tenth of them or more), bytes, blocks,
        error_bytes, file, line, function and package. The line is the innermost one of the user's own code; package is
        the one that it called. file is None outside of Python code. In grown, bytes are the net growth of a line; one that
        has not grown is left out.
        """
        least = 3 * self["interval_bytes"] if self["interval_bytes"] > 1 else 0
        has_mapped = self.get("account") == "mapped" or view == "at_resident_peak"
        views = [name for name in _TITLES if name in self]
        if view not in views:
            raise ValueError(f"top: view must be one of {', '.join(map(repr, views))}, but is {view!r}")
        groups, origins = {}, {}
        for row in self[view]:
            if row["account"] != account if account else row["account"] == "mapped" and not has_mapped:
                continue
            call, package = _place(row["stack"], origins)
            key = (call["file"], call["line"], call["function"])
            groups.setdefault(key, []).append((row, package))
        found = []
        for (file, line, function), rows in groups.items():
            accounts = {}
            for row, _ in rows:
                accounts[row["account"]] = accounts.get(row["account"], 0) + row["bytes"]
            total = sum(accounts.values())
            if total <= 0:
                continue
            largest = sorted(accounts, key=accounts.get, reverse=True)
            # Each stack was sampled for itself: the variances add. The least error counts once.
            spread = sum((row["error_bytes"] - least) ** 2 for row, _ in rows) ** 0.5
            found.append({
                "account": largest[0],
                "accounts": [name for name in largest if name == largest[0] or accounts[name] >= max(total / 10, 1)],
                "bytes": total,
                "blocks": sum(row["blocks"] for row, _ in rows),
                "error_bytes": round(least + spread),
                "file": file,
                "line": line,
                "function": function,
                "package": max(rows, key=lambda of: of[0]["bytes"])[1],
            })
        found.sort(key=lambda line: (-line["bytes"], str(line["file"]), line["line"] or 0))
        return found[:count]

    def __str__(self):
        return "\n".join(self._lines(("at_peak",), 10)) or f"no line has bytes at the peak ({self._how()})"

    def _repr_html_(self):
        return pyhost._html_of_lines(self)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return pyhost._bundle(self)

    def _repr_pretty_(self, printer, cycle):
        # IPython would print the dictionary, for minutes.
        printer.text(str(self))

    def _how(self):
        interval = self["interval_bytes"]
        return "every allocation" if interval == 1 else f"one sample in {_text(interval)}"

    def _tables(self, views, count):
        """The lines of each view below a title; then those at the highest resident size, and of what is mapped beside the total.

        The peak is that of the accounts: what was mapped then says nothing of the most that was.
        """
        tables = [(view, None) for view in views]
        if any(row["account"] == "mapped" for row in self.get("at_resident_peak", ())):
            tables.append(("at_resident_peak", None))
        if self.get("account") != "mapped":
            tables += ((view, "mapped") for view in views if view != "at_peak")
        for view, account in dict.fromkeys(tables):
            rows = self.top(count, view, account)
            if rows:
                # Only the lines of a block name their account.
                titles = _TITLES_OF_BLOCK if "account" in self else _TITLES
                yield f"{titles[view]}{', of mapped, reserved bytes' if account else ''} ({self._how()})", rows

    def _lines(self, views, count):
        """The tables as lines of text."""
        for title, rows in self._tables(views, count):
            yield title + ":"
            for row in rows:
                error = f" \u00b1 {_text(row['error_bytes']):<10}" if self["interval_bytes"] > 1 else ""
                yield f"  {_text(row['bytes']):>10}{error}  {'+'.join(row['accounts']):<6}  {_where(row)}"


def _place(stack, origins):
    """The innermost call of the user's own code, or else the innermost one, and the package that it called."""
    if not stack:
        return {"file": None, "line": None, "function": None}, None
    for call in stack:
        file = call["file"]
        if file not in origins:
            origins[file] = _origin(file)
        if origins[file][0]:
            return call, None if call is stack[0] else origins[stack[0]["file"]][1]
    return stack[0], None


def _where(row):
    """A line of top() as people read it."""
    if row["file"] is None:
        return "outside of Python code"
    by = f", by {row['package']}" if row["package"] else ""
    return f"{_at(row['file'], row['line'])} in {row['function']}{by}"
