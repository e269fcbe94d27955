"""Runs a script under memray with native traces, and prints where what is live at its end was allocated.

    memray_leaks.py FILE SCRIPT [ARGUMENT ...]

A line for each group of allocations: bytes, blocks, and the innermost calls, of C before those of Python.
"""

import subprocess
import sys

from memray import FileReader

file, *script = sys.argv[1:]
run = ["-m", "memray", "run", "--native", "--trace-python-allocators", "--quiet", "--force", "--output", file]
ended = subprocess.run([sys.executable, *run, *script])
if ended.returncode != 0:
    sys.exit(ended.returncode)
for record in FileReader(file).get_leaked_allocation_records(merge_threads=True):
    calls = [f"{function} {path}:{line}" for function, path, line in record.hybrid_stack_trace(max_stacks=8)]
    print(record.size, record.n_allocations, " < ".join(calls))
