"""Times what programs do every day, a pattern a process, which gives the best of some rounds: stock Python and the host."""

from pairs import Samples

from . import growth

TITLE = "Every day"
ROUNDS = 25


def measure(bench):
    samples = Samples()

    def read(contender):
        return growth.times(growth.found(contender, "everyday.py", ROUNDS))

    bench.alternate(samples, "everyday", bench.pick(3, 10), read)
    return samples
