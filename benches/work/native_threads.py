"""Threads that never see Python, in a C library; prints the seconds of 1, 2 and 4 of them, as JSON.

    native_threads.py LIBRARY STEPS REPEATS

Of the repeats the least counts.
"""

import ctypes
import json
import sys

library = ctypes.CDLL(sys.argv[1])
library.churn.restype = ctypes.c_double
library.churn.argtypes = [ctypes.c_int, ctypes.c_long]
steps, repeats = map(int, sys.argv[2:])
library.churn(1, steps // 10)
print(json.dumps({str(threads): min(library.churn(threads, steps) for _ in range(repeats)) for threads in (1, 2, 4)}))
