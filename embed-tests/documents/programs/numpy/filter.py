"""Writes one byte past the end of an array of 7, as an extension in C might."""
import ctypes

import numpy


def run():
    # Seven bytes, of which eight are written.
    data = numpy.zeros(7, "u1")
    ctypes.memset(data.ctypes.data, 0x41, 8)


run()
