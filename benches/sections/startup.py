"""Times whole processes that do next to nothing: elapsed, and processor time, which other processes disturb less."""

from launch import times_of
from pairs import Samples

TITLE = "Start-up"
PROCESSOR = ", processor"


def measure(bench):
    samples = Samples()
    cases = [("`-c pass`", ("-c", "pass"), (), bench.pick(60, 400)),
             ("`-I -S -c pass`", ("-I", "-S", "-c", "pass"), (), bench.pick(60, 400))]
    if bench.numpy():
        cases.append(("`import numpy`", ("-c", "import numpy"), (bench.numpy(),), bench.pick(12, 80)))
    for name, arguments, paths, rounds in cases:
        bench.alternate(samples, name, rounds, lambda one: time(one, name, arguments, paths), warm_up=True)
    return samples


def time(contender, name, arguments, paths):
    elapsed, processor = times_of(contender.command(*arguments), contender.environment(*paths))
    return {name: (elapsed * 1e3, "ms"), name + PROCESSOR: (processor * 1e3, "ms")}
