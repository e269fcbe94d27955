"""Makes an array and misuses its memory as argv[1] says, through C, then lets the array go. Must be line 10: `made`."""
import ctypes
import sys

import numpy as np


def made():
    return np.ones(7, "u1")


def overflow():
    array = made()
    ctypes.memset(array.ctypes.data + array.nbytes, 0x41, 3)
    del array


def far_overflow():
    array = made()
    ctypes.memset(array.ctypes.data + array.nbytes + 15, 0x42, 1)
    del array


def underflow():
    array = made()
    ctypes.memset(array.ctypes.data - 2, 0x43, 1)
    del array


def overflow_before_resize():
    array = made()
    ctypes.memset(array.ctypes.data + array.nbytes, 0x44, 1)
    array.resize(100, refcheck=False)


def overflow_of_a_copy_that_numpy_made():
    array = np.concatenate([made(), made()])
    ctypes.memset(array.ctypes.data + array.nbytes, 0x45, 1)
    del array


def read_after_free():
    array = made()
    address = array.ctypes.data
    del array
    print(ctypes.string_at(address, 7).hex())


def uninitialised():
    print(np.empty(4, "u1").tobytes().hex())


def none():
    array = made()
    array.resize(1000, refcheck=False)
    assert array.sum() == 7
    array.resize(3, refcheck=False)
    assert array.sum() == 3


globals()[sys.argv[1]]()
print("ended")
