"""Random allocations through every domain from many threads; then the ledger must equal a walk of the heaps.

argv[1] is the seed. RAW is called without the GIL (ctypes.CDLL), MEM and OBJ with it (PyDLL). Blocks are freed by
other threads than made them. Checked at rest in the middle and after everything was freed.
"""
import ctypes
import random
import sys
import threading

import pyhost
from ledger_walk import check

SEED = int(sys.argv[1])
void, size_t = ctypes.c_void_p, ctypes.c_size_t
without_gil, with_gil = ctypes.CDLL(None), ctypes.pythonapi


def domain(library, prefix):
    malloc, calloc, realloc, free = (getattr(library, prefix + name) for name in ("Malloc", "Calloc", "Realloc", "Free"))
    malloc.restype, malloc.argtypes = void, [size_t]
    calloc.restype, calloc.argtypes = void, [size_t, size_t]
    realloc.restype, realloc.argtypes = void, [void, size_t]
    free.restype, free.argtypes = None, [void]
    return malloc, calloc, realloc, free


DOMAINS = {
    "raw": domain(without_gil, "PyMem_Raw"),
    "mem": domain(with_gil, "PyMem_"),
    "obj": domain(with_gil, "PyObject_"),
}
pool = {name: [] for name in DOMAINS}
lock = threading.Lock()


def size(generator):
    kind = generator.random()
    if kind < 0.8:
        return generator.randrange(0, 520)
    if kind < 0.99:
        return generator.randrange(520, 20000)
    return generator.randrange(20000, 3000000)


def work(number):
    generator = random.Random(SEED * 1000 + number)
    for _ in range(1500):
        name = generator.choice(list(DOMAINS))
        malloc, calloc, realloc, free = DOMAINS[name]
        blocks = pool[name]
        step = generator.random()
        if step < 0.45:
            block = malloc(size(generator)) if step < 0.3 else calloc(1, size(generator))
            assert block
            with lock:
                blocks.append(block)
            continue
        with lock:
            block = blocks.pop(generator.randrange(len(blocks))) if blocks else None
        if step < 0.65 and block:
            block = realloc(block, size(generator))
            with lock:
                blocks.append(block)
        else:
            free(block)


def run_threads(count):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


check("at the start")
for round in range(3):
    run_threads(12)
    check("round %d" % round)
raw_before = pyhost._walk("raw")[1] - len(pool["raw"])
for name, blocks in pool.items():
    for block in blocks:
        DOMAINS[name][3](block)
    blocks.clear()
check("at the end")
# The rest of raw is Python's own, as before.
assert pyhost._walk("raw")[1] <= raw_before + 3, (pyhost._walk("raw"), raw_before)
print("exact")
