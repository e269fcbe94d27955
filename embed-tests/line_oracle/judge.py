"""Compares the lines of reports with the truth that program.py prints: plain data in, plain data out.

A report's row belongs to a site if the innermost call of the program's own code lies in the site's lines. The error of a
sum of rows is that of docs/observe/lines.md.
"""

import collections
import dataclasses
import math

ACCOUNTS = ("raw", "mem", "obj", "arena", "numpy", "native", "mapped")
# The views, the moment of the truth that each is compared with, and the accounts that it is compared for: the last sites
# are arrays, so that `numpy` is highest at the end, and the others' own peaks lie within sites.
VIEWS = (("at_peak", "peak", ACCOUNTS), ("live", "end", ACCOUNTS), ("at_account_peak", "end", ("numpy",)))
# The share of runs in which the truth must lie within the error.
SHARE = 0.95
STANDARD_ERRORS = 4.5
# The total of an account has the error of its own sum, and what other threads and C's start had is not the program's.
TOTAL = "(all)"
# By which the sum of a site may differ from the ledger's with every allocation sampled: a site may use objects that an
# earlier one left in CPython's free lists, or leave some (up to 80 dicts and 80 lists, whose parts are in `mem`); it may
# have a table of the interpreter's replaced by a larger one (of interned texts); and a report lists 1,000 stacks of a view.
NOT_ITS_OWN = {"obj": 24 << 10, "mem": 24 << 10}
NOT_LISTED = 4 << 10
# The sites with so much of this that it is seen in the mean of many runs.
LEAVE_OBJECTS = ("classes", "parsed_json")


@dataclasses.dataclass
class Estimate:
    """A sum of rows and the squares of their errors, each less three intervals."""

    bytes: int = 0
    squares: float = 0.0

    def add(self, row, interval):
        self.bytes += row["bytes"]
        self.squares += max(0, row["error_bytes"] - least_error(interval)) ** 2

    def error(self, interval):
        return least_error(interval) + math.sqrt(self.squares)


def least_error(interval):
    return 3 * interval if interval > 1 else 0


class Places:
    """Where the sites are."""

    def __init__(self, places):
        self.by_file = collections.defaultdict(list)
        for place in places:
            self.by_file[place["file"]].append((place["first"], place["last"], place["site"]))

    def own(self, folder):
        """Adds the program's other files, which have no sites."""
        for path in folder.glob("*.py"):
            self.by_file.setdefault(str(path), [])

    def site_of(self, stack):
        """Returns the site of a stack, or None."""
        for call in stack:
            if call["file"] in self.by_file:
                found = (site for first, last, site in self.by_file[call["file"]] if first <= call["line"] <= last)
                return next(found, None)
        return None


def by_site(rows, places, interval):
    """Returns the estimate of each site and account that has rows."""
    found = collections.defaultdict(Estimate)
    for row in rows:
        site = places.site_of(row["stack"])
        if site:
            found[site, row["account"]].add(row, interval)
    return found


def true_bytes(truth, moment):
    """Returns the bytes of each site and account, and of each account as a whole, at a moment."""
    found = {(site, account): number for site, accounts in truth[moment]["sites"].items()
             for account, number in accounts.items()}
    found.update({(site, "obj"): number for site, number in truth["by_blocks"].items()})
    found.update({(TOTAL, account): number for account, number in truth[moment]["accounts"].items()})
    return found


@dataclasses.dataclass
class Tally:
    """How often an estimate was within its error, its differences from the truth, and the truth's mean."""

    runs: int = 0
    within: int = 0
    true: float = 0.0
    differences: list = dataclasses.field(default_factory=list)

    def add(self, true, estimate, error):
        self.runs += 1
        self.within += abs(estimate - true) <= error
        self.true += (true - self.true) / self.runs
        self.differences.append(estimate - true)

    def share(self):
        return self.within / self.runs

    def drift(self):
        """Returns the mean difference, and its standard error."""
        count = len(self.differences)
        mean = sum(self.differences) / count
        variance = sum((difference - mean) ** 2 for difference in self.differences) / max(1, count - 1)
        return mean, math.sqrt(variance / count)


@dataclasses.dataclass(frozen=True)
class Shares:
    """How many sites there are, and the shares of the estimates within the error: of all and of the worst."""

    sites: int
    pooled: float
    worst: float


class Judgement:
    """The tallies of all runs: by view, site and account."""

    def __init__(self):
        self.tallies = collections.defaultdict(Tally)
        # The runs in which a view has more stacks than rows.
        self.cut = 0

    def add(self, report, truth, places):
        """Takes a run in: its report and the truth that it printed."""
        lines = report["lines"]
        interval = lines["interval_bytes"]
        for view, moment, accounts in VIEWS:
            estimates, true = by_site(lines[view], places, interval), true_bytes(truth, moment)
            for (site, account), number in true.items():
                if account not in accounts:
                    continue
                if site == TOTAL:
                    sums = lines["sums"][view].get(account, {"bytes": 0, "error_bytes": least_error(interval)})
                    estimate, error = sums["bytes"], sums["error_bytes"]
                    # At the end, the ledger's of the moment that the samples are of: the script goes on a little.
                    number = report["accounts"][account]["live_bytes"] if view == "live" else number
                    number -= truth["native_before"] if account == "native" else 0
                else:
                    found = estimates.get((site, account), Estimate())
                    estimate, error = found.bytes, found.error(interval)
                self.tallies[view, site, account].add(number, estimate, error)
        self.cut += any(is_cut(lines, view) for view, _, _ in VIEWS)

    def shares(self, interval):
        """Returns how many sites and accounts have an interval of bytes or more, and how often they were within the error."""
        chosen = [tally for (_, site, _), tally in self.tallies.items() if site != TOTAL and tally.true >= interval]
        pooled = sum(tally.within for tally in chosen) / sum(tally.runs for tally in chosen)
        names = {(site, account) for (_, site, account), tally in self.tallies.items()
                 if site != TOTAL and tally.true >= interval}
        return Shares(len(names), pooled, min(tally.share() for tally in chosen))

    def share_of_totals(self):
        """Returns how often the sums of whole accounts that have bytes were within the error."""
        chosen = [tally for (_, site, _), tally in self.tallies.items() if site == TOTAL and tally.true]
        return sum(tally.within for tally in chosen) / sum(tally.runs for tally in chosen)

    def failures(self, is_enough):
        """Returns the tallies, by their place, that `is_enough` does not hold for."""
        return {place: tally for place, tally in self.tallies.items() if not is_enough(place, tally)}


def allowance(account):
    return NOT_ITS_OWN.get(account, NOT_LISTED)


def is_cut(lines, view):
    """Says whether a view has stacks that the report does not list."""
    return sum(account["stacks"] for account in lines["sums"][view].values()) > len(lines[view])


def may_reach_share(_place, tally):
    """Says whether so few runs within the error are likely, at one in 10,000, if each is with the chance of 0.95. That of a
    site of three intervals is no more: it has no sample in 5% of all runs."""
    missed = tally.runs - tally.within
    chance = sum(math.comb(tally.runs, number) * (1 - SHARE) ** number * SHARE ** (tally.runs - number)
                 for number in range(missed, tally.runs + 1))
    return chance > 1e-4


def is_just(place, tally):
    """Says whether the mean of the estimates may be the truth, but for what is not the site's own."""
    _, site, account = place
    mean, error = tally.drift()
    return abs(mean) <= STANDARD_ERRORS * error + (allowance(account) if site in LEAVE_OBJECTS else NOT_LISTED)


def exact_differences(report, truth, places):
    """Returns where a report of every allocation differs from the truth: lines of text."""
    lines, found = report["lines"], []
    if lines["dropped"]:
        found.append(f"{lines['dropped']} samples dropped")
    for account in ACCOUNTS:
        sums = lines["sums"]["live"].get(account, {"bytes": 0, "blocks": 0})
        booked = report["accounts"][account]
        expected = booked["live_bytes"] - (truth["native_before"] if account == "native" else 0)
        if sums["bytes"] != expected:
            found.append(f"{account}: {sums['bytes']} bytes, and {expected} by the ledger")
        # Blocks of malloc from before main are not known; those of `mapped` are runs of addresses in the ledger.
        if account not in ("native", "mapped") and sums["blocks"] != booked["live_blocks"]:
            found.append(f"{account}: {sums['blocks']} blocks, and {booked['live_blocks']} by the ledger")
    for view, moment, accounts in VIEWS:
        estimates = by_site(lines[view], places, 1)
        for (site, account), number in true_bytes(truth, moment).items():
            estimate = estimates.get((site, account), Estimate()).bytes
            if site != TOTAL and account in accounts and abs(estimate - number) > allowance(account):
                found.append(f"{view}, {site}, {account}: {estimate} bytes, and {number} by the ledger")
    return found
