"""The tools that tell where the memory of a program goes: how each is started, and what it says afterwards.

All run in one environment of packages, as pip has installed them. Each says what its user reads: a peak, and bytes by line.
"""

import dataclasses
import json
import pathlib
import resource
import shutil
import typing

from bench import HERE, WORK
from contenders import Contender
from launch import Failed, json_of, output_of

READ_MEMRAY = HERE.parent / "embed-tests" / "memray_lines" / "read_peak.py"
# Only its memory profiler, and no agent.
DDTRACE = {
    "DD_PROFILING_ENABLED": "1", "DD_PROFILING_STACK_ENABLED": "0", "DD_PROFILING_LOCK_ENABLED": "0", "DD_TRACE_ENABLED": "0",
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "0", "DD_REMOTE_CONFIGURATION_ENABLED": "0",
}


@dataclasses.dataclass(frozen=True)
class Tool:
    """One way to run a program. `said(folder)` returns the peak, or None, and records of what it wrote into the folder.

    Where it says the same each time, and reading takes longer than the program, `read_once` keeps what it said by program.
    """

    contender: Contender
    folder: pathlib.Path
    said: typing.Callable = lambda folder: (None, [])
    read_once: dict | None = None

    @property
    def name(self):
        return self.contender.name

    def run(self, program, *arguments):
        """Runs a program and returns the processor's seconds and what the tool says: a peak in bytes, or None, and the bytes of each place."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        before = processor_seconds()
        output_of(self.contender.command(program, *arguments), self.contender.environment())
        seconds = processor_seconds() - before
        kept = {} if self.read_once is None else self.read_once
        if program not in kept:
            peak, records = self.said(self.folder)
            kept[program] = peak, places(records, str(program))
        return seconds, *kept[program]


def processor_seconds():
    """Returns the processor's seconds of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def places(records, program):
    """Returns {(file, line): bytes}: the line of the innermost call of the program's own file, or else of the innermost call."""
    found = {}
    for record in records:
        calls = [(call["file"], call["line"]) for call in record["stack"]]
        place = next((call for call in calls if call[0] == program), calls[0] if calls else None)
        if place:
            found[place] = found.get(place, 0) + record["bytes"]
    return found


def tools(environment, folder):
    """Returns all tools, stock Python first; an environment's folder, and one for what the tools write."""
    python = str(environment / "bin" / "python")

    def tool(name, options=(), said=Tool.said, executable="python", variables=(), read_once=None):
        own = folder / name.replace(" ", "")
        words = [option.replace("FOLDER", str(own)) for option in options]
        values = tuple((key, value.replace("FOLDER", str(own))) for key, value in variables)
        contender = Contender(name, str(environment / "bin" / executable), tuple(words), values)
        return Tool(contender, own, said, read_once)

    report = "--stats=json,file=FOLDER/report.json"
    memray = ("-m", "memray", "run", "--quiet", "--output", "FOLDER/memray.bin")
    return [
        tool("stock"),
        tool("pyhost", (report,), of_pyhost, "pyhost"),
        tool("pyhost --lines", ("--lines", report), of_pyhost, "pyhost"),
        tool("tracemalloc", ("-X", "tracemalloc", str(WORK / "under_tracemalloc.py"), "FOLDER/said.json"), of_tracemalloc),
        tool("memray", memray, lambda own: of_memray(python, own), read_once={}),
        tool("memray, Python's too", (*memray, "--trace-python-allocators"), lambda own: of_memray(python, own), read_once={}),
        tool("Scalene", ("-m", "scalene", "run", "--outfile", "FOLDER/scalene.json"), of_scalene),
        tool("Fil", ("-m", "filprofiler", "--no-browser", "-o", "FOLDER/fil", "run"), of_fil),
        tool("ddtrace", (python,), lambda own: of_ddtrace(python, own), "ddtrace-run",
             (*DDTRACE.items(), ("DD_PROFILING_OUTPUT_PPROF", "FOLDER/profile"))),
    ]


def read(path):
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise Failed(f"{path.name}: {error.strerror}") from None


def of_pyhost(folder):
    """Of its two tables of lines, of the peak of what is live and of what is resident, the one whose first row has more."""
    report = json.loads(read(folder / "report.json"))
    tables = [report["lines"][moment] for moment in ("at_peak", "at_resident_peak")] if report["lines"] else [[]]
    first = max(tables, key=lambda rows: max((row["bytes"] for row in rows), default=0))
    return report["at_resident_peak"]["resident_bytes"], first


def of_tracemalloc(folder):
    said = json.loads(read(folder / "said.json"))
    return said["peak_bytes"], said["records"]


def of_memray(python, folder):
    said = json_of([python, READ_MEMRAY, folder / "memray.bin"], None)
    return said["peak_bytes"], said["records"]


def of_scalene(folder):
    """Its unit is 1024 * 1024 bytes. Of a line it says the most that the line held."""
    said = json.loads(read(folder / "scalene.json"))
    return said["max_footprint_mb"] * 2**20, [
        {"bytes": line["n_peak_mb"] * 2**20, "stack": [{"file": file, "line": line["lineno"]}]}
        for file, of_file in said["files"].items() for line in of_file["lines"]]


def of_fil(folder):
    """Each line is a stack, the outermost call first, such as `/a/b.py:3 (<module>);/a/b.py:1 (f) 4096`."""
    found = sorted(folder.glob("fil/*/peak-memory.prof"))
    if not found:
        raise Failed("it wrote no peak-memory.prof")
    records = []
    for line in read(found[-1]).splitlines():
        stack, _, size = line.rpartition(" ")
        calls = [call.partition(" (")[0].rpartition(":") for call in reversed(stack.split(";"))]
        records.append({"bytes": int(size), "stack": [{"file": file, "line": int(number)} for file, _, number in calls if file]})
    return sum(record["bytes"] for record in records), records


def of_ddtrace(python, folder):
    """It has no peak: its last profile is of the end."""
    found = sorted(folder.glob("profile.*.pprof"), key=lambda path: int(path.name.split(".")[-2]))
    if not found:
        raise Failed("it wrote no profile")
    return None, json_of([python, WORK / "read_ddtrace.py", found[-1]], None)["records"]
