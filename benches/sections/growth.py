"""Times blocks that grow, in Python's types and by libc's realloc, and by how much the resident size rises; each pattern
has a process of its own, which gives the best of nine rounds. Beside stock Python and the host: other allocators, preloaded."""

from bench import WORK
from launch import json_of
from pairs import Samples

from . import peers

TITLE = "Blocks that grow"
ROUNDS = 9


def measure(bench):
    samples = Samples()
    contenders = [*bench.contenders, *peers.preloads(bench)]
    bench.alternate(samples, "growth", bench.pick(2, 10), read, contenders)
    return samples


def read(contender):
    each = found(contender, "growth.py", ROUNDS)
    # A smaller peak is that of the program's own modules and words.
    return times(each) | {f"{name}, peak": (peak, "MiB") for name, (_, _, peak) in each.items() if peak >= 16}


def found(contender, program, rounds):
    """What each pattern of a program gives in a process of its own."""
    names = json_of(contender.command(WORK / program, 0), contender.environment())
    each = [json_of(contender.command(WORK / program, rounds, name), contender.environment()) for name in names]
    return {name: facts for one in each for name, facts in one.items()}


def times(each):
    return {name: (milliseconds, "ms") for name, (milliseconds, _, _) in each.items()}
