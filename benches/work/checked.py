"""Does the work that is measured under what finds bugs: dumps and loads JSON, or computes with arrays.

    checked.py "JSON" | "NumPy" ROUNDS
"""

import json
import sys


def of_json(rounds):
    rows = [{"id": i, "name": f"name {i}", "tags": ["a", "b", str(i)], "at": i * 0.5} for i in range(4_000)]
    for _ in range(rounds):
        assert json.loads(json.dumps(rows)) == rows


def of_numpy(rounds):
    import numpy as np

    for _ in range(rounds):
        large = np.arange(100_000, dtype=float)
        large = np.sort(large[::-1] * 2 + 1)
        total = sum((np.array([i, 1.0, 2.0]) * 2).sum() for i in range(2_000))
        assert large[0] == 1 and total == 4_010_000


{"JSON": of_json, "NumPy": of_numpy}[sys.argv[1]](int(sys.argv[2]))
