"""Makes and drops arrays of three elements.

    small_arrays.py ROUNDS
"""

import sys

import numpy as np


def arrays(n):
    for _ in range(n):
        np.empty(3)


arrays(int(sys.argv[1]))
