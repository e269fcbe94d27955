"""Times blocks that grow, in Python's types and by libc's realloc, and by how much the resident size rises; each pattern
has a process of its own, which gives the best of nine rounds. Beside stock Python and the host: other allocators, preloaded."""

import runpy

from bench import WORK
from launch import json_of
from pairs import Samples

from . import peers

TITLE = "Blocks that grow"
ROUNDS = 9
PATTERNS = runpy.run_path(str(WORK / "growth.py"))["PATTERNS"]


def measure(bench):
    samples = Samples()
    contenders = [*bench.contenders, *peers.preloads(bench)]
    bench.alternate(samples, "growth", bench.pick(2, 10), read, contenders)
    return samples


def read(contender):
    found = {}
    for name in PATTERNS:
        found |= json_of(contender.command(WORK / "growth.py", ROUNDS, name), contender.environment())
    times = {name: (milliseconds, "ms") for name, (milliseconds, _, _) in found.items()}
    # A smaller peak is that of the program's own modules and words.
    peaks = {f"{name}, peak": (peak, "MiB") for name, (_, _, peak) in found.items() if peak >= 16}
    return times | peaks
