"""Counts instructions by callgrind, which are repeatable where times are not.

Each loop is counted net: less the same program with no rounds. The host gets `--malloc count`, or it would leave
every allocation to Valgrind. Both executables lie at paths of one length, and hash strings alike.
"""

import re
import shutil

from bench import WORK
from launch import Failed, output_of
from pairs import Samples

TITLE = "Instructions, by callgrind"
COLLECTED = re.compile(r"^==[0-9]+== Collected : ([0-9]+)", re.MULTILINE)
UNIT = "M instructions"
START = "`-I -S -c pass`"


def measure(bench):
    samples = Samples()
    if not shutil.which("valgrind"):
        bench.note("valgrind is missing (apt: valgrind): no instructions were counted")
        return samples
    rounds = bench.pick(1, 3)
    bench.alternate(samples, START, rounds, lambda one: {START: (count(one, "-I", "-S", "-c", "pass"), UNIT)})
    loops = [("churn loop", "churn.py", bench.pick(15_000, 60_000), None),
             ("strings and dicts loop", "strings.py", bench.pick(150, 600), None)]
    if bench.numpy():
        loops.append(("np.empty(3) loop", "small_arrays.py", bench.pick(50_000, 200_000), bench.numpy()))
    for name, script, loop, packages in loops:
        bench.alternate(samples, name, rounds, lambda one: {name: (net(one, script, loop, packages), UNIT)})
    return samples


def net(contender, script, loop, packages):
    """Returns the count of a loop alone, in millions."""
    flags = ["-S"] if packages else ["-I", "-S"]
    paths = [packages] if packages else []
    return (count(contender, *flags, WORK / script, loop, paths=paths)
            - count(contender, *flags, WORK / script, 0, paths=paths))


def count(contender, *arguments, paths=()):
    """Returns the instructions of one process, in millions."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command = contender.command(*arguments, host_options=("--malloc", "count"))
    _, errors = output_of(valgrind + command, contender.environment(*paths))
    return collected(errors) / 1e6


def collected(errors):
    """Reads the count from what callgrind says at the end."""
    found = COLLECTED.findall(errors)
    if not found:
        raise Failed("callgrind told no count")
    return int(found[-1])
