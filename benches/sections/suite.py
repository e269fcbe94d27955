"""Runs pyperformance's benchmarks: a fixed twenty that allocate, or all of them.

Each value comes from a worker of pyperf's own, started here so that the contenders' workers take turns; pyperf would
run all of one interpreter first. The number of loops is calibrated once, by stock, and is the same for all.

The resident size beside each time is the kernel's greatest one of the worker, which is never told below that of
run.py itself (about 20 MiB), since a process starts with what its parent's was.
"""

import dataclasses
import json
import pathlib

from launch import Failed, json_of, output_of
from pairs import Samples

TITLE = "pyperformance"
ENVIRONMENT = "pyperformance"
TWENTY = (
    "2to3", "chaos", "comprehensions", "deepcopy", "deltablue", "django_template", "gc_collect", "hexiom",
    "json_dumps", "json_loads", "logging", "pickle_pure_python", "pyflate", "raytrace", "regex_compile", "richards",
    "sqlalchemy_imperative", "sqlglot_v2_optimize", "unpickle_list", "xml_etree",
)
RESIDENT = ", resident"
TIMEOUT = 600

LIST = """
import json
from pyperformance import _manifest
print(json.dumps([[bench.name, bench.runscript, list(bench.extra_opts)]
                  for bench in _manifest.load_manifest(None).benchmarks]))
"""


@dataclasses.dataclass(frozen=True)
class Task:
    """One benchmark of one script; a script may have several, which pyperf numbers."""

    script: str
    options: tuple
    number: int


def measure(bench):
    samples = Samples()
    packages = bench.packages(ENVIRONMENT)
    if not packages:
        return samples
    for benchmark, script, options in json_of(bench.stock.command("-c", LIST), bench.stock.environment(packages)):
        if benchmark in TWENTY or bench.all_of_pyperformance:
            measure_script(bench, samples, packages, benchmark, Task(script, tuple(options), 0))
    return samples


def measure_script(bench, samples, packages, benchmark, task):
    """Measures all benchmarks of a script: counts up until pyperf has none of the number."""
    while True:
        try:
            calibrated = worker(bench, bench.stock, packages, task, "--calibrate-loops", "--values=1",
                                f"--min-time={bench.pick(0.03, 0.1)}")
        except Failed as error:
            bench.note(f"pyperformance: {benchmark} does not run on stock: {error}")
            return
        if calibrated is None:
            return
        name, loops = calibrated["name"], calibrated["loops"]
        bench.alternate(samples, name, bench.pick(2, 10),
                        lambda one: values(bench, one, packages, task, name, loops))
        task = dataclasses.replace(task, number=task.number + 1)


def values(bench, contender, packages, task, name, loops):
    """Returns the least of one worker's values, and its greatest resident size."""
    told = worker(bench, contender, packages, task, f"--loops={loops}", "--warmups=1",
                  f"--values={bench.pick(2, 4)}")
    if told is None or not told["values"]:
        raise Failed("its worker told no value")
    measured = {name: (min(told["values"]) * 1e3, "ms")}
    if told["resident"]:
        measured[name + RESIDENT] = (told["resident"] / 2 ** 20, "MiB")
    return measured


def worker(bench, contender, packages, task, *options):
    """Runs one worker; returns what it measured, or None where the script has no benchmark of this number."""
    output = bench.folder / "worker.json"
    output.unlink(missing_ok=True)
    command = contender.command(task.script, *task.options, "--worker", f"--worker-task={task.number}", "--quiet",
                                f"--output={output}", *options)
    output_of(command, contender.environment(packages), timeout=TIMEOUT)
    return read(output) if output.exists() else None


def read(path):
    """Reads the file of a worker; pyperf puts what is common to all runs beside them."""
    told = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    [benchmark] = told["benchmarks"]
    [run] = benchmark["runs"]
    metadata = {**told.get("metadata", {}), **benchmark.get("metadata", {}), **run.get("metadata", {})}
    return {"name": metadata["name"], "loops": metadata.get("calibrate_loops", metadata.get("loops", 1)),
            "values": run.get("values", []), "resident": metadata.get("mem_max_rss")}
