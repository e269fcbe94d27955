"""Runs whole programs: nine loops of many kinds, two that drop what they made, a realistic one, and three with large heaps.

Each process does its work once and gives its seconds, the peak of what is resident, and what is after it dropped its
data: at once, and after a second in which it sleeps.
"""

from bench import WORK
from launch import Failed, json_of, output_of
from pairs import Samples

TITLE = "Programs"
NINE = ("JSON", "XML", "garbage collection", "walk over a graph", "large dict", "strings", "objects", "asyncio", "pickle")
SPLIT, LISTS, SALES = "join and split", "six of seven lists dropped", "sales"
LARGE = ("garbage collection over 10 million objects", "dict of 20 million", "walk over 3 million nodes")
SHORT = 0.1
PEAK, AFTER, LATER = ", peak", ", after", ", after 1 s"
SIZES = {"peak": PEAK, "after": AFTER, "later": LATER}
ENVIRONMENT = "lines"  # has NumPy and pandas


def measure(bench):
    samples = Samples()
    for name in (*NINE, SPLIT, LISTS):
        bench.alternate(samples, name, bench.pick(2, 11), lambda one: read(bench, one, name))
    if file(bench):
        bench.alternate(samples, SALES, bench.pick(2, 7), lambda one: read(bench, one, SALES))
    for name in LARGE:
        bench.alternate(samples, name, bench.pick(2, 5), lambda one: read(bench, one, name))
    return samples


def read(bench, contender, name):
    """Runs one program, of a tenth of its data in the short mode."""
    more, paths = ([file(bench)], [bench.packages(ENVIRONMENT)]) if name == SALES else ([], [])
    command = contender.command(WORK / "programs.py", name, bench.pick(SHORT, 1), *more)
    found = json_of(command, contender.environment(*paths))
    sizes = {name + told: (found[size] / 1024, "MiB") for size, told in SIZES.items()}
    return {name: (found["seconds"] * 1e3, "ms"), **sizes}


def file(bench):
    """Returns the path of the file of sales, which this makes at its first use; None, and a note, without pandas."""
    packages = bench.packages(ENVIRONMENT)
    path = bench.folder / "sales.csv"
    if packages and not path.exists():
        command = bench.stock.command(WORK / "programs.py", SALES, bench.pick(SHORT, 1), path)
        try:
            output_of(command, bench.stock.environment(packages))
        except Failed as error:
            bench.note(f"{SALES}: {error}")
            return None
    return path if packages else None
