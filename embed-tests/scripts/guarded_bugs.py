"""One memory bug in a large block, named by argv[1], as a C extension would make it: for the guard
pages to catch.

Past the end: bytes, bytearray, array, numpy, malloc, raw, mem, obj, read. Elsewhere: slack, underflow,
written-after-free, double-free, inside, faulthandler.
"""
import array
import ctypes
import sys

libc, api = ctypes.CDLL(None), ctypes.pythonapi


def function(library, name, result, *arguments):
    found = library[name]
    found.restype, found.argtypes = result, arguments
    return found


malloc = function(libc, "malloc", ctypes.c_void_p, ctypes.c_size_t)
free = function(libc, "free", None, ctypes.c_void_p)
PREFIX = {"raw": "PyMem_Raw", "mem": "PyMem_", "obj": "PyObject_"}
bug = sys.argv[1]
if bug == "faulthandler":
    import faulthandler
    faulthandler.enable()
    bug = "bytes"
if bug == "bytes":
    block = bytes(8000)
    ctypes.memset(id(block) + bytes.__basicsize__ - 1, 0x58, 8000 + 17)
elif bug == "bytearray":
    block = bytearray(8000)
    ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(block)), 0x58, 8000 + 17)
elif bug == "array":
    block = array.array("d", bytes(8)) * 1000
    ctypes.memset(block.buffer_info()[0], 0x58, 8000 + 17)
elif bug == "numpy":
    import numpy
    block = numpy.zeros(1000)
    ctypes.memset(block.ctypes.data, 0x58, 8000 + 65)
elif bug == "malloc":
    ctypes.memset(malloc(8000), 0x58, 8000 + 17)
elif bug in PREFIX:
    block = function(api, PREFIX[bug] + "Malloc", ctypes.c_void_p, ctypes.c_size_t)(8000)
    ctypes.memset(block, 0x58, 8000 + 17)
elif bug == "read":
    ctypes.string_at(malloc(8000), 8001)
elif bug == "slack":
    block = malloc(8001)
    ctypes.memset(block, 0x58, 8001 + 3)
    free(block)
elif bug == "underflow":
    ctypes.memset(malloc(65536) - 5, 0x58, 5)  # whole pages, whatever their size
elif bug == "before":
    block = malloc(8000)
    ctypes.memset(block - 5, 0x58, 5)
    free(block)
elif bug == "written-after-free":
    block = malloc(8000)
    free(block)
    ctypes.memset(block + 100, 0x58, 8)
elif bug == "double-free":
    block = malloc(8000)
    free(block)
    free(block)
elif bug == "inside":
    free(malloc(8000) + 16)
else:
    raise SystemExit("unknown bug: " + bug)
