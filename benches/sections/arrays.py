"""Times NumPy on arrays from 3 elements to 100 MB.

Each process gives the least of its repeats. The median of its repeats is kept beside it in the JSON, for arrays whose
memory costs differently now and then.
"""

import statistics

from bench import WORK
from launch import json_of
from pairs import Samples

TITLE = "NumPy arrays"
MEDIAN = ", median"
UNIT = "µs"


def measure(bench):
    samples = Samples()
    if bench.numpy():
        bench.alternate(samples, "arrays", bench.pick(4, 20), lambda one: read(bench, one))
    return samples


def read(bench, contender, names=()):
    """Returns each case's seconds in one process."""
    command = contender.command(WORK / "arrays.py", bench.pick("short", "full"), *names)
    found = {}
    for name, repeats in json_of(command, contender.environment(bench.numpy())).items():
        found[name] = (min(repeats) * 1e6, UNIT)
        found[name + MEDIAN] = (statistics.median(repeats) * 1e6, UNIT)
    return found

