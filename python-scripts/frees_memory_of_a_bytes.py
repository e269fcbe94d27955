"""An array that frees what is not its own. Needs NumPy; must end with SIGABRT, status 134 of the shell.

The array lies over the memory of a `bytes`, and is then told to own it: once it is deleted, NumPy hands a pointer into
the middle of an object to `free`. It must happen at `del`, after the first line was printed and before the last. Under
`python` glibc says that the pointer is invalid, and no more. `pyhost` says how far into which account's block the
pointer lies: 32 bytes into a block of `obj`, where a `bytes` has its text, or 48 with --debug-hooks, whose pad comes
before the object.
"""
import ctypes
import sys

import numpy as np

OWNS_DATA = 0x4
FLAGS = 64  # where a PyArrayObject has its flags: after the object's head and six fields of 8 bytes

# Made at run time, and never hashed: glibc reads the word in front of the pointer, which is the hash of a `bytes`.
text = bytes(range(256)) * 2
array = np.frombuffer(text, dtype="u1")
flags = ctypes.c_int.from_address(id(array) + FLAGS)
if flags.value != array.flags.num:
    sys.exit("this NumPy keeps an array's flags elsewhere")
flags.value |= OWNS_DATA
assert array.flags.owndata
print("the array owns", len(text), "bytes of a bytes object", flush=True)
del array, flags
print("not reached:", text[:1])
