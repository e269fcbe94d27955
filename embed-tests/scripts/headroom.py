"""A request of what pyhost.headroom() says is granted, and one that is a good deal larger is refused.

For each account by its own allocator, in a fresh process and after much was allocated and freed.
"""

import ctypes

import pyhost

PYTHON = ctypes.pythonapi
C = ctypes.CDLL(None)
ALLOCATORS = {
    "native": (C.malloc, C.free),
    "raw": (PYTHON.PyMem_RawMalloc, PYTHON.PyMem_RawFree),
}
# With the GIL.
PY = ctypes.PyDLL(None)
ALLOCATORS["mem"] = PY.PyMem_Malloc, PY.PyMem_Free
ALLOCATORS["obj"] = PY.PyObject_Malloc, PY.PyObject_Free
for allocate, free in ALLOCATORS.values():
    allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    free.restype, free.argtypes = None, [ctypes.c_void_p]


def granule(size):
    """How far a size may be below the least that is refused: the heap's step in sizes, and windows."""
    return size // 8 + (192 << 10)


def check(account):
    allocate, free = ALLOCATORS[account]
    room = pyhost.headroom(account)
    assert room > 1 << 20, room
    block = allocate(room)
    assert block, (account, room, pyhost.last_refusal())
    free(block)
    more = room + granule(room)
    block = allocate(more)
    assert block is None, (account, room, more)


for turn in range(3):
    for account in ALLOCATORS:
        check(account)
    kept = [bytes(turn * 100 + number % 3000) for number in range(4000)]
print("finished")
