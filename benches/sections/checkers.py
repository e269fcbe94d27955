"""Measures what it costs to find bugs of extensions: the host's options and other tools, on JSON and on arrays.

Processor time of whole processes, since part of the work is done at their end. The extensions are as they are installed,
so ASan checks the heap alone.
"""

import dataclasses
import shutil

from bench import WORK
from contenders import Contender
from launch import Failed, output_of, times_of
from pairs import Samples

from .peers import MEMRAY

TITLE = "Finding bugs"
HOSTS = {
    "--debug-hooks": ("--debug-hooks",),
    "--guard=all": ("--guard=all",),
    "--guard=min=1,every=1": ("--guard=min=1,every=1",),
    "--leak-check=native": ("--leak-check=native,status=0",),
    "the first, second and fourth": ("--debug-hooks", "--guard=all", "--leak-check=native,status=0"),
}


def measure(bench):
    samples = Samples()
    contenders = [bench.stock, *hosts(bench), *others(bench)]
    rounds = bench.pick(2, 7)
    for name, times in (("JSON", bench.pick(4, 20)), ("NumPy", bench.pick(2, 20))):
        if name == "NumPy" and not bench.numpy():
            continue
        paths = (bench.numpy(),) if name == "NumPy" else ()
        bench.alternate(samples, name, rounds, lambda one: time(one, name, times, paths), contenders)
    return samples


def time(contender, name, times, paths):
    _, processor = times_of(contender.command(WORK / "checked.py", name, times), contender.environment(*paths))
    return {name: (processor * 1e3, "ms")}


def hosts(bench):
    host = bench.hosts[0]
    plain = dataclasses.replace(host, name="pyhost")
    return [plain, *(dataclasses.replace(host, name=name, options=(*options, *host.options))
                     for name, options in HOSTS.items())]


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
