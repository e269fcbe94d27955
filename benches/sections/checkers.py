"""Measures what it costs to find bugs of extensions: the host's options and other tools, on JSON and on arrays.

Processor time of whole processes, since part of the work is done at their end, and the peak of what is resident. The
extensions are as they are installed, so ASan checks the heap alone.
"""

import dataclasses
import shutil

from bench import WORK
from contenders import Contender
from launch import Failed, output_of, usage_of
from pairs import Samples

from .peers import MEMRAY

TITLE = "Finding bugs"
PEAK = ", peak resident"
# The loads of work/checked.py, each with text of the path of the extension whose blocks `--guard=library=EXTENSION` guards.
LOADS = {"JSON": "/_json.", "NumPy": "/_multiarray_umath."}
EXTENSION = "EXTENSION"
# A configuration of the host each.
HOSTS = (
    (),
    ("--debug-hooks",),
    ("--guard=min=1,every=1",),
    ("--debug-hooks=guard",),
    ("--guard=library=" + EXTENSION,),
    ("--guard=all",),
    ("--leak-check=native",),
    ("--debug-hooks=guard", "--guard=library=" + EXTENSION, "--leak-check=native"),
)


def measure(bench):
    samples = Samples()
    rounds = bench.pick(2, 7)
    for load, times in (("JSON", bench.pick(4, 20)), ("NumPy", bench.pick(2, 20))):
        if load == "NumPy" and not bench.numpy():
            continue
        paths = (bench.numpy(),) if load == "NumPy" else ()
        contenders = [bench.stock, *hosts(bench, load), *others(bench)]
        bench.alternate(samples, load, rounds, lambda one: measure_one(one, load, times, paths), contenders)
    return samples


def measure_one(contender, load, times, paths):
    _, processor, peak = usage_of(contender.command(WORK / "checked.py", load, times), contender.environment(*paths))
    return {load: (processor * 1e3, "ms"), load + PEAK: (peak / 1024, "MiB")}


def hosts(bench, load):
    host = bench.hosts[0]
    return [dataclasses.replace(host, name=" ".join(["pyhost", *options]), options=(
        *(option.replace(EXTENSION, LOADS[load]) for option in options), *host.options)) for options in HOSTS]


def others(bench):
    """Returns stock Python under every other tool that is installed."""
    stock, malloc = bench.stock.executable, ("PYTHONMALLOC", "malloc")
    found = [Contender("PYTHONMALLOC=debug", stock, variables=(("PYTHONMALLOC", "debug"),))]
    asan = library("libasan.so")
    if asan:
        settings = ("ASAN_OPTIONS", "detect_leaks=0")
        found.append(Contender("ASan", stock, variables=(("LD_PRELOAD", asan), settings, malloc)))
    else:
        bench.note("ASan is missing: gcc has no libasan.so")
    valgrind = shutil.which("valgrind")
    if valgrind:
        options = ("--quiet", "--leak-check=full", "--log-file=/dev/null", stock)
        found.append(Contender("Valgrind", valgrind, options, variables=(malloc,)))
    else:
        bench.note("Valgrind is missing")
    packages = bench.packages("memray")
    if packages:
        options = ("-m", "memray", "run", "--quiet", "--force", "--output", str(bench.folder / "memray.bin"))
        found.append(Contender(MEMRAY, stock, options, packages=(packages,)))
    return found


def library(name):
    """Returns the path of a library of gcc's, or None."""
    try:
        path, _ = output_of(["gcc", f"-print-file-name={name}"])
    except Failed:
        return None
    return path.strip() if "/" in path else None
