"""Compares the runs of a module by stock Python and by the host, case by case.

Plain data in, plain data out: no files, no processes. A case's category follows from all the outcomes that each
side has given so far, so that nothing is retried until it looks the same.
"""

import dataclasses
import json

SAME = "same"
FLAKY_ON_STOCK = "flaky on stock"
FLAKY_ON_PYHOST = "flaky on pyhost"
KNOWN = "known"
DIFFERENT = "DIFFERENT"
CATEGORIES = (SAME, KNOWN, FLAKY_ON_STOCK, FLAKY_ON_PYHOST, DIFFERENT)
BAD = (FLAKY_ON_PYHOST, DIFFERENT)

ABSENT = "absent"
TROUBLE = ("failed", "error", "not finished", "exit ", "killed", "timed out", "unexpected success")


@dataclasses.dataclass(frozen=True)
class Known:
    """A difference that is expected, of one case on some releases, and why."""

    case: str
    versions: tuple
    pyhost: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Case:
    """One case's outcomes on both sides, a run each, and its category."""

    name: str
    stock: tuple
    pyhost: tuple
    category: str
    reason: str = ""
    stock_detail: str = ""
    pyhost_detail: str = ""

    @property
    def in_trouble(self):
        """Says whether the case fails, alike on both sides if its category is SAME."""
        return any(map(is_trouble, self.stock + self.pyhost))


def is_trouble(outcome):
    """Says whether an outcome is a failure of some kind."""
    return any(word in outcome for word in TROUBLE)


def read_known(path, minor):
    """Returns {case: Known} of the differences that are expected on a release such as "3.11"."""
    entries = json.loads(path.read_text(encoding="utf-8"))["known"]
    listed = [Known(entry["case"], tuple(entry["versions"]), entry["pyhost"], entry["reason"]) for entry in entries]
    return {known.case: known for known in listed if minor in known.versions}


def compare(stock_runs, pyhost_runs, known):
    """Returns a Case for every case that any run has, in the order of the runs."""
    names = dict.fromkeys(name for run in stock_runs + pyhost_runs for name in run["cases"])
    return [compare_case(name, stock_runs, pyhost_runs, known.get(name)) for name in names]


def compare_case(name, stock_runs, pyhost_runs, known):
    stock, pyhost = outcomes(name, stock_runs), outcomes(name, pyhost_runs)
    category = categorise(set(stock), set(pyhost), known)
    reason = known.reason if category == KNOWN else ""
    return Case(name, stock, pyhost, category, reason, last_detail(name, stock_runs), last_detail(name, pyhost_runs))


def categorise(stock, pyhost, known):
    """Returns the category that follows from the sets of outcomes seen on each side.

    An outcome that only the host has given is never put down to stock's flakiness.
    """
    if stock == pyhost and len(stock) == 1:
        return SAME
    if pyhost <= stock:
        return FLAKY_ON_STOCK
    if known and pyhost - stock == {known.pyhost}:
        return KNOWN
    return FLAKY_ON_PYHOST if pyhost & stock else DIFFERENT


def outcomes(name, runs):
    return tuple(run["cases"].get(name, {"outcome": ABSENT})["outcome"] for run in runs)


def last_detail(name, runs):
    """Returns the traceback or the reason of the last run that has one."""
    details = [run["cases"].get(name, {}).get("detail", "") for run in runs]
    return next(filter(None, reversed(details)), "")


def count(cases):
    """Returns {category: number of cases}."""
    return {category: sum(case.category == category for case in cases) for category in CATEGORIES}
