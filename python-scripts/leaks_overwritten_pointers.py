"""A leak that only an account of `malloc` shows. Needs NumPy: run it with `pyhost --stats`.

Buffers of 400,000 bytes come from `malloc` and are shared with NumPy, whose arrays do not own them. The one pointer
by which a buffer could be freed is a global, and the next buffer overwrites it: of N buffers (argv[1], or 50) all but
the last are lost, although every array is gone. tracemalloc sees none of them, and the script prints so. The table must
show `native` with N - 1 more live blocks than with N = 1, and about 450,000 more live bytes for each (a buffer is
booked with its usable size): 49 blocks and 21 MiB.
"""
import ctypes
import sys
import tracemalloc

import numpy as np

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]

LENGTH = 50_000
to_be_freed = None


def make_array(value):
    """An array over a new buffer; `release` frees the buffer, as long as no other was made since."""
    global to_be_freed
    to_be_freed = libc.malloc(LENGTH * ctypes.sizeof(ctypes.c_double))
    array = np.frombuffer((ctypes.c_double * LENGTH).from_address(to_be_freed))
    array[:] = value
    return array


def release():
    libc.free(to_be_freed)


buffers = int(sys.argv[1]) if len(sys.argv) > 1 else 50
tracemalloc.start()
total = 0.0
for number in range(buffers):
    array = make_array(number)
    total += array[-1]
    del array
release()
traced, _ = tracemalloc.get_traced_memory()
print(buffers, "buffers, last elements sum up to", total)
print("tracemalloc sees a buffer:", traced >= LENGTH * 8)
