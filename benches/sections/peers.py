"""Measures other allocators and memory profilers on the same work: stock Python under each, beside the host.

A preloaded allocator serves malloc alone, and small objects stay pymalloc's; with PYTHONMALLOC=malloc it serves all,
as the host's does. Both are measured. What is not installed is noted.
"""

import dataclasses
import re
import shutil

from bench import WORK
from contenders import Contender
from launch import Failed, json_of, output_of
from pairs import Samples

from . import arrays, programs, resident, threads

TITLE = "Peers on the same work"
PRELOADS = (
    ("mimalloc", "libmimalloc.so.2", "libmimalloc2.0"), ("jemalloc", "libjemalloc.so.2", "libjemalloc2"),
    ("tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
)
PROGRAMS = ("JSON", "garbage collection", "walk over a graph", "large dict", "objects", programs.SPLIT)
OWN_MIMALLOC, HAS_ONE = "PYTHONMALLOC=mimalloc", (3, 13)
ARRAYS = ("np.empty(3)", "a+b of 3", "a*2, 8 MB")
MEMRAY, TRACEMALLOC = "memray", "tracemalloc"
ALL_OF_IT = ", for all"
KINDS_OF_TIME = ("µs", "ms", "s")
KINDS_OF_SIZE = ("MiB",)


def measure(bench):
    samples = Samples()
    contenders = [*bench.contenders, *peers(bench)]
    rounds = bench.pick(2, 9)

    def alternate(what, measure_one):
        bench.alternate(samples, what, rounds, measure_one, contenders)

    alternate("churn loop", lambda one: churn(bench, one))
    alternate("at start, `-c`", lambda one: without(resident.ANONYMOUS, resident.at_start(one)))
    bench.alternate(samples, "130 MB of objects", bench.pick(1, 5), resident.objects, contenders)
    if bench.numpy():
        alternate("arrays", lambda one: without(arrays.MEDIAN, arrays.read(bench, one, ARRAYS)))
    if threads.library(bench):
        alternate("native threads", lambda one: threads.native(bench, one))
    alternate("Python threads", lambda one: threads.python(bench, one))
    allocators = [one for one in contenders if one.name not in (MEMRAY, TRACEMALLOC)]  # minutes, and no allocators
    for name in PROGRAMS:
        bench.alternate(samples, name, bench.pick(1, 5), lambda one: programs.read(bench, one, name), allocators)
    if programs.file(bench):
        bench.alternate(samples, programs.SALES, bench.pick(1, 3),
                        lambda one: programs.read(bench, one, programs.SALES), allocators)
    return samples


def churn(bench, contender):
    command = contender.command(WORK / "churn.py", bench.pick(20_000, 60_000), bench.pick(5, 9))
    return {"churn loop": (json_of(command, contender.environment())["churn"] * 1e3, "ms")}


def without(ending, measured):
    """Returns what was measured without the metrics of an ending, which the table has no room for."""
    return {name: value for name, value in measured.items() if not name.endswith(ending)}


def preloads(bench):
    """Returns stock Python under each preloaded allocator that is installed."""
    libraries = installed_libraries()
    for name, file, package in PRELOADS:
        if file in libraries:
            yield Contender(name, bench.stock.executable, variables=(("LD_PRELOAD", libraries[file]),))
        else:
            bench.note(f"peer {name} is missing (apt: {package})")


def peers(bench):
    """Returns stock Python in every company that is installed."""
    stock = bench.stock.executable
    everything = ("PYTHONMALLOC", "malloc")
    found = [Contender("PYTHONMALLOC=malloc", stock, variables=(everything,))]
    if bench.version() >= HAS_ONE:
        found.append(Contender(OWN_MIMALLOC, stock, variables=(("PYTHONMALLOC", "mimalloc"),)))
    for one in preloads(bench):
        found.append(one)
        found.append(dataclasses.replace(one, name=one.name + ALL_OF_IT, variables=(*one.variables, everything)))
    packages = bench.packages("memray")
    if packages:
        options = ("-m", "memray", "run", "--quiet", "--force", "--output", str(bench.folder / "memray.bin"))
        found.append(Contender(MEMRAY, stock, options, packages=(packages,)))
    found.append(Contender(TRACEMALLOC, stock, ("-X", "tracemalloc")))
    return found


def installed_libraries():
    """Returns {file name: path} of the libraries that the loader knows of."""
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        listed, _ = output_of([ldconfig, "-p"])
    except Failed:
        return {}
    return dict(re.findall(r"^\s+(\S+) .*=> (\S+)$", listed, re.MULTILINE))


def beside(samples, host, peer, units=KINDS_OF_TIME):
    """Returns {metric: (raw of host, raw of peer)} of the times, or other units, that both have."""
    return {metric: (by[host], by[peer]) for metric, by in samples.values.items()
            if samples.units[metric] in units and host in by and peer in by}
