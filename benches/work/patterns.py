"""Runs patterns, which are functions by name: each in turn, the best of some rounds, and the page faults of the last one.

A program of patterns is called with [ROUNDS [NAME ...]] and prints JSON: name -> [milliseconds, page faults, MiB by which the resident size
rose above that before the pattern]; the names alone if ROUNDS is 0.
"""

import json
import resource
import sys
import time


def resident(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field)) / 1024


def forget_peak():
    """Makes the kernel's highest resident size the one of now (clear_refs in proc(5))."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def main(patterns):
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    if rounds == 0:
        return print(json.dumps(list(patterns)))
    found = {}
    for name in sys.argv[2:] or patterns:
        best, before_all = float("inf"), resident("VmRSS")
        forget_peak()
        for _ in range(rounds):
            before, start = faults(), time.perf_counter()
            patterns[name]()
            best = min(best, time.perf_counter() - start)
            last = faults() - before
        found[name] = [round(best * 1e3, 3), last, round(max(0, resident("VmHWM") - before_all), 1)]
    print(json.dumps(found))
