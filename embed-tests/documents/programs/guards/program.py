"""Writes one byte past the end of an array, as an extension in C might."""
import ctypes

import numpy


def overflow():
    # Each of 8 bytes.
    count = 5_000

    array = numpy.ones(count)
    ctypes.memset(array.ctypes.data, 0, array.nbytes + 1)


overflow()
