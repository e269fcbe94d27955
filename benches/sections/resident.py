"""Reads resident sizes from /proc/self/status: at start, at a peak of about 130 MB of objects, after freeing most."""

import re

from bench import WORK
from launch import json_of, output_of
from pairs import Samples

TITLE = "Resident size"
UNIT = "MiB"
ANONYMOUS = ", anonymous"
STATUS = "import sys; sys.stdout.write(open('/proc/self/status').read())"
FIELD = re.compile(r"^(\w+):\s+([0-9]+) kB$", re.MULTILINE)
SHOWN = ("peak", "after freeing most", "after freeing most, 2 s later")


def measure(bench):
    samples = Samples()
    rounds = bench.pick(3, 11)
    bench.alternate(samples, "at start, `-I -S -c`", rounds, lambda one: at_start(one, "-I", "-S"))
    bench.alternate(samples, "at start, `-c`", rounds, at_start)
    bench.alternate(samples, "130 MB of objects", bench.pick(2, 7), objects)
    return samples


def at_start(contender, *flags):
    """Measures a program that reads its status and nothing else."""
    output, _ = output_of(contender.command(*flags, "-c", STATUS), contender.environment())
    sizes = fields(output)
    name = " ".join(["at start,", "`" + " ".join([*flags, "-c"]) + "`"])
    return {name: (sizes["VmRSS"] / 1024, UNIT), name + ANONYMOUS: (sizes["RssAnon"] / 1024, UNIT)}


def objects(contender):
    """Measures the program that builds objects and drops most of them."""
    sizes = json_of(contender.command(WORK / "resident.py"), contender.environment())
    return {name: (sizes[name] / 1024, UNIT) for name in SHOWN}


def fields(status):
    """Returns the sizes in a /proc/PID/status, in KiB."""
    return {name: int(value) for name, value in FIELD.findall(status)}
