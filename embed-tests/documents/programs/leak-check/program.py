"""Loses an array: a reference is taken and never given back."""
import ctypes

import numpy

count = 1_000


def lose():
    # As an extension does that forgets a Py_DECREF.

    array = numpy.zeros(count)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(array))


lose()
