"""Runs one function of programs.py with its lines measured, by the host or by memory_profiler, and prints the rows as JSON:
line, hits, bytes that were added and, if they are known, bytes at the highest beyond the begin.
"""

import json
import sys

import programs

function = getattr(programs, sys.argv[1])
run = programs.RUNS.get(function, function)
try:
    import pyhost
except ImportError:
    import memory_profiler

    profiler = memory_profiler.LineProfiler(backend="psutil")
    measured = profiler(function)
    setattr(programs, sys.argv[1], measured)
    kept = run() if run is not function else measured()
    # Of the function: bytes in MiB, the resident size, hits; nothing of a line that was not reached, or of a generator.
    rows = [(line, figures[2], figures[0] * (1 << 20), None)
            for _, lines in profiler.code_map.items() for line, figures in lines if figures]
else:
    pyhost.profile(function)
    kept = run()
    rows = [(row["line"], row["hits"], row["growth_bytes"], row["peak_growth_bytes"]) for row in function.profile.rows]
print(json.dumps(rows))
