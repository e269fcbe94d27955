"""Times NumPy on arrays from 3 elements to 100 MB; prints {name: [seconds of each repeat]} as JSON.

    arrays.py short|full [NAME ...]
"""

import json
import sys
import timeit

import numpy as np

MB = 1_000_000 // 8
BIG = 3 if sys.argv[1] == "short" else 7

# name: statement, elements, loops a repeat, repeats
CASES = {
    "np.empty(3)": ("empty(3)", 3, 20_000, 5 * BIG),
    "np.zeros(3)": ("zeros(3)", 3, 20_000, 5 * BIG),
    "a+b of 3": ("a + b", 3, 10_000, 5 * BIG),
    "a*2, 100 elements": ("a * 2", 100, 5_000, 5 * BIG),
    "a*2, 10 000 elements": ("a * 2", 10_000, 1_000, 4 * BIG),
    "a*2, 1 MB": ("a * 2", MB, 40, 4 * BIG),
    "a*2, 8 MB": ("a * 2", 8 * MB, 4, 3 * BIG),
    "a*2, 32 MB": ("a * 2", 32 * MB, 1, 2 * BIG),
    "a*2, 100 MB": ("a * 2", 100 * MB, 1, BIG),
}


def times(statement, elements, loops, repeats):
    names = {"empty": np.empty, "zeros": np.zeros, "a": np.ones(elements), "b": np.ones(elements)}
    timer = timeit.Timer(statement, globals=names)
    timer.timeit(min(loops, 100))
    return [seconds / loops for seconds in timer.repeat(repeats, loops)]


print(json.dumps({name: times(*CASES[name]) for name in sys.argv[2:] or CASES}))
