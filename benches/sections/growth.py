"""Times blocks that grow, in Python's types and by libc's realloc; each process gives the best of five rounds."""

from bench import WORK
from launch import json_of
from pairs import Samples

TITLE = "Blocks that grow"
ROUNDS = 5


def measure(bench):
    samples = Samples()
    bench.alternate(samples, "growth", bench.pick(2, 10), lambda one: read(bench, one))
    return samples


def read(bench, contender):
    found = json_of(contender.command(WORK / "growth.py", ROUNDS), contender.environment())
    return {name: (milliseconds, "ms") for name, (milliseconds, _) in found.items()}
