"""Runs a program and writes what tracemalloc says at its end, as JSON: the peak, and the live bytes by stack.

    python -X tracemalloc[=FRAMES] under_tracemalloc.py RESULT PROGRAM [ARGUMENT ...]
"""

import json
import pathlib
import runpy
import sys
import tracemalloc

result = pathlib.Path(sys.argv[1])
sys.argv = sys.argv[2:]
sys.path[0] = str(pathlib.Path(sys.argv[0]).parent)
left = runpy.run_path(sys.argv[0], run_name="__main__")
_, peak = tracemalloc.get_traced_memory()
lines = [{"bytes": one.size, "stack": [{"file": frame.filename, "line": frame.lineno} for frame in reversed(one.traceback)]}
         for one in tracemalloc.take_snapshot().statistics("traceback")]
result.write_text(json.dumps({"peak_bytes": peak, "records": lines}), encoding="ascii")
