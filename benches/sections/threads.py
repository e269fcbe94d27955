"""Times 1, 2 and 4 threads that allocate: in a C library, past Python, and in Python, under the GIL.

Each process gives the least of its repeats.
"""

from bench import WORK
from launch import Failed, json_of, output_of
from pairs import Samples

TITLE = "Threads"
REPEATS = 5


def measure(bench):
    samples = Samples()
    rounds = bench.pick(4, 20)
    if library(bench):
        bench.alternate(samples, "native threads", rounds, lambda one: native(bench, one))
    bench.alternate(samples, "Python threads", rounds, lambda one: python(bench, one))
    return samples


def native(bench, contender):
    """Measures threads of the C library, which this builds at its first use."""
    command = contender.command(WORK / "native_threads.py", library(bench), bench.pick(100_000, 500_000), REPEATS)
    return named("native", json_of(command, contender.environment()))


def python(bench, contender):
    command = contender.command(WORK / "python_threads.py", bench.pick(20_000, 100_000), REPEATS)
    return named("Python", json_of(command, contender.environment()))


def named(kind, seconds):
    return {f"{threads} {kind} thread{'s' * (threads != '1')}": (value * 1e3, "ms")
            for threads, value in seconds.items()}


def library(bench):
    """Returns the path of the built library, or None and a note."""
    path = bench.folder / "native_threads.so"
    if not path.exists():
        try:
            output_of(["cc", "-O2", "-shared", "-fPIC", "-pthread", "-o", path, WORK / "native_threads.c"])
        except Failed as error:
            bench.note(f"native threads: {error}")
            return None
    return path
