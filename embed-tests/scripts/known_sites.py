"""Allocates at known lines, in every account and kind of code, and prints what is live at each: a JSON object of
"function": bytes, as the blocks' own sizes are, without what an allocator rounds up.

Each function keeps its blocks, so that the end is the peak. `--numpy` adds arrays.
"""

import asyncio
import ctypes
import json
import sys
import threading

KEPT = []
SITES = {}
PYTHON = ctypes.pythonapi
PYTHON.PyMem_RawMalloc.restype = PYTHON.PyMem_Malloc.restype = PYTHON.PyObject_Malloc.restype = ctypes.c_void_p
LIBC = ctypes.CDLL(None)
LIBC.malloc.restype = ctypes.c_void_p
for function in PYTHON.PyMem_RawMalloc, PYTHON.PyMem_Malloc, PYTHON.PyObject_Malloc, LIBC.malloc:
    function.argtypes = [ctypes.c_size_t]


def site(number, account):
    """Adds a site: what it returns is kept, and has so many bytes."""
    def add(function):
        SITES[function.__name__] = (account, number)
        KEPT.append(function(number))
        return function
    return add


@site(3_000_000, "obj")
def of_bytes(size):
    return bytes(size)


@site(2_400_000, "obj")
def of_small_bytes(size):
    return [bytes(200 - 33) for _ in range(size // 200)]


@site(4_000_000, "mem")
def of_list(size):
    return [None] * (size // 8)


@site(1_600_000, "raw")
def of_raw(size):
    return [PYTHON.PyMem_RawMalloc(400) for _ in range(size // 400)]


@site(1_600_000, "mem")
def of_mem(size):
    return [PYTHON.PyMem_Malloc(400) for _ in range(size // 400)]


@site(1_600_000, "obj")
def of_obj(size):
    return [PYTHON.PyObject_Malloc(400) for _ in range(size // 400)]


@site(1_600_000, "native")
def of_malloc(size):
    return [LIBC.malloc(400) for _ in range(size // 400)]


@site(2_000_000, "native")
def of_large_malloc(size):
    return LIBC.malloc(size)


@site(2_000_000, "obj")
def of_generator(size):
    def pieces():
        for _ in range(size // 2000):
            yield bytes(2000 - 33)
    return list(pieces())


@site(2_000_000, "obj")
def of_coroutine(size):
    async def one():
        await asyncio.sleep(0)
        return bytes(2000 - 33)

    async def all_of_them():
        return [await one() for _ in range(size // 2000)]
    return asyncio.run(all_of_them())


@site(2_000_000, "obj")
def of_recursion(size):
    def deep(level):
        return bytes(size - 33) if level == 0 else deep(level - 1)
    return deep(300)


@site(2_000_000, "obj")
def of_exec(size):
    names = {}
    exec(compile("def made(size):\n    return bytes(size - 33)\n", "<made>", "exec"), names)
    return names["made"](size)


@site(2_000_000, "obj")
def of_threads(size):
    kept = []

    def of_threads():
        for _ in range(size // 8000):
            kept.append(bytes(2000 - 33))
    threads = [threading.Thread(target=of_threads) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return kept


if "--numpy" in sys.argv:
    import numpy

    @site(4_000_000, "numpy")
    def of_array(size):
        return numpy.ones(size // 8)

    @site(2_000_000, "numpy")
    def of_small_arrays(size):
        return [numpy.ones(50) for _ in range(size // 400)]


# What comes and goes is in no view of live bytes.
for _ in range(2000):
    bytes(10_000)

print(json.dumps(SITES))
