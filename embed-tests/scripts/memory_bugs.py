"""One memory bug, named by argv[1], as a C extension would make it: for the debug hooks to catch.

overflow-DOMAIN, underflow, wrong-domain, no-gil-DOMAIN, double-free, write-after-free, fill.
"""
import ctypes
import sys

api, without_gil = ctypes.pythonapi, ctypes.CDLL(None)
PREFIX = {"raw": "PyMem_Raw", "mem": "PyMem_", "obj": "PyObject_"}


def function(library, name, result, *arguments):
    found = library[name]  # a new object each time: argument types are its own
    found.restype, found.argtypes = result, arguments
    return found


def domain(name, library=api):
    prefix = PREFIX[name]
    return (function(library, prefix + "Malloc", ctypes.c_void_p, ctypes.c_size_t),
            function(library, prefix + "Free", None, ctypes.c_void_p))


bug, _, argument = sys.argv[1].partition("-")
malloc, free = domain("mem")
if bug == "overflow":
    malloc, free = domain(argument)
    block = malloc(40)
    ctypes.memset(block, 0x58, 41)
    free(block)
elif bug == "underflow":
    block = malloc(40)
    ctypes.memset(block - 1, 0x58, 1)
    free(block)
elif bug == "wrong":
    domain("raw")[1](malloc(40))
elif bug == "no":
    malloc, free = domain(argument.partition("-")[2], without_gil)
    malloc(40)
elif bug == "double":
    block = malloc(40)
    free(block)
    free(block)
elif bug == "write":
    block = malloc(400)
    free(block)
    ctypes.memset(block + 100, 0x58, 8)
elif bug == "fill":
    block = malloc(400)
    print(ctypes.string_at(block + 100, 8).hex())
    free(block)
    print(ctypes.string_at(block + 100, 8).hex())
else:
    raise SystemExit("unknown bug: " + sys.argv[1])
