"""Sums of a table's rows: memory of NumPy, of C and of Python."""

from libc.stdlib cimport free, malloc

import numpy


def sums(int rows):
    """Returns the sums by name. If an error passes through, the block of C stays behind, as it must not."""
    cdef double[:, ::1] table = numpy.arange(rows * 8.0).reshape(rows, 8)
    cdef double *kept = <double *>malloc(rows * sizeof(double))
    cdef int row, column
    if kept == NULL:
        raise MemoryError
    for row in range(rows):
        kept[row] = 0
        for column in range(8):
            kept[row] += table[row, column]
    named = {f"the row number {row}": [kept[row]] for row in range(rows)}
    free(kept)
    return named
