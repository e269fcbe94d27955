"""Runs the sites: some before the peak, most up to it, some after it; prints where they are and their true bytes.

    pyhost --lines=... program.py MODULE...

Prints a JSON object: the moments `peak` and `end`, each with the bytes of each site and of each account by the ledger; and
`native_before`, bytes of malloc that no sample has, since they were allocated before the host's main.
"""

import gc
import importlib
import json
import sys

import line_sites
import pyhost

import at_once
import sites

READINGS = 6
# More than what a site may take and give back before the peak.
LAST_BLOCKS, LAST_BLOCK = 60, 100_000
# By which the total's peak may be above the moment that is meant: what reading the ledger takes, and by how much a peak may be too high.
SLACK = 72 << 10


@sites.site(when="last")
def the_last_blocks():
    return [bytes(LAST_BLOCK) for _ in range(LAST_BLOCKS)]


def call(site, ledger):
    """Calls a site and adds what it keeps to its live bytes."""
    ledger.read(0)
    line_sites.enter(site.number)
    site.kept = site.function()
    line_sites.enter(0)
    ledger.read(1)
    add_change(site, ledger)


def thin_out(site, ledger):
    """Frees every second block that a site's list has; the list stays as it is."""
    ledger.read(0)
    kept = site.kept
    for number in range(0, len(kept), 2):
        kept[number] = None
    ledger.read(1)
    add_change(site, ledger)


def free(site, ledger):
    ledger.read(0)
    site.kept = None
    ledger.read(1)
    add_change(site, ledger)


def add_change(site, ledger):
    before, after = ledger.at(0), ledger.at(1)
    for account in sites.ACCOUNTS:
        site.live[account] += after[account] - before[account]


def live_bytes(site):
    return {**site.live, "arena": line_sites.arenas_of(site.number)}


def chosen(when):
    return [site for site in sites.SITES if site.when == when]


def found(ledger):
    """Returns the bytes of this moment."""
    ledger.read(2)
    return {"accounts": ledger.at(2), "sites": {site.name: live_bytes(site) for site in sites.SITES}}


def without_samples():
    """Returns the bytes of `native` that are live and in no sample; 0 where not every allocation is one."""
    lines = pyhost.lines()
    if lines is None or lines["interval_bytes"] > 1:
        return 0
    return pyhost.snapshot().accounts["native"].live_bytes - pyhost.lines()["sums"]["live"]["native"]["bytes"]


def run(ledger):
    for site in chosen("before"):
        call(site, ledger)
        free(site, ledger)
    at_peak = chosen("at peak")
    for site in at_peak:
        call(site, ledger)
    for site in at_peak[::5]:
        if isinstance(site.kept, list):
            thin_out(site, ledger)
    at_once.run()
    for site in chosen("last"):
        call(site, ledger)
    peak = found(ledger)
    highest = pyhost.snapshot()
    slack = SLACK + highest.total_live_bytes // 100
    assert highest.total_peak_bytes - highest.total_live_bytes < slack, "the peak is elsewhere"
    for site in at_peak[::3]:
        free(site, ledger)
    for site in chosen("late"):
        call(site, ledger)
    end = found(ledger)
    assert pyhost.snapshot().total_peak_bytes - highest.total_peak_bytes < slack, "the peak is elsewhere"
    # Without pymalloc CPython takes no more than the stacks of frames from the allocator of arenas.
    by_pymalloc = pyhost.memory_stats()["accounts"]["arena"]["live_bytes"] > 1 << 20
    by_blocks = {function.__name__: sites.usable(at_once.BLOCKS[function.__name__], by_pymalloc)
                 for function in at_once.FUNCTIONS}
    return {"peak": peak, "end": end, "by_blocks": by_blocks}


def main():
    line_sites.watch_arenas()
    gc.disable()  # so that no site frees what another one has made
    for module in sys.argv[1:]:
        importlib.import_module(module)
    native_before = without_samples()
    pyhost.reset_peak_memory_stats()  # which all the samples as objects may have made
    ledger = sites.Ledger(3)
    for _ in range(READINGS):
        ledger.read(0)
        ledger.read(1)
    assert ledger.at(0) == ledger.at(1), "to read the ledger changes it"
    places = [site.place() for site in sites.SITES]
    places += [sites.Site(function, "at peak").place() for function in at_once.FUNCTIONS]
    print(json.dumps({"places": places, "native_before": native_before, **run(ledger)}))


if __name__ == "__main__":
    main()
