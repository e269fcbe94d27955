"""Random malloc, calloc, realloc, aligned allocations and frees from many threads against a shadow map.

argv[1] is the seed. The account `native` must have grown by exactly the usable bytes of the blocks that live, and
be back where it was once all are freed. What else libraries allocate meanwhile is nothing: the script holds still.
"""
import ctypes
import random
import sys
import threading

import pyhost

libc = ctypes.CDLL(None)
void, size_t = ctypes.c_void_p, ctypes.c_size_t
for name, result, arguments in (
    ("malloc", void, [size_t]), ("calloc", void, [size_t, size_t]), ("realloc", void, [void, size_t]),
    ("free", None, [void]), ("aligned_alloc", void, [size_t, size_t]), ("malloc_usable_size", size_t, [void]),
):
    getattr(libc, name).restype, getattr(libc, name).argtypes = result, arguments

guarded = pyhost.memory_stats()["guards"] is not None or pyhost.memory_stats()["debug_hooks"]
SEED = int(sys.argv[1])
blocks = []
lock = threading.Lock()


def size(generator):
    return generator.randrange(1, 600) if generator.random() < 0.9 else generator.randrange(600, 2000000)


def work(number):
    generator = random.Random(SEED * 100 + number)
    for _ in range(2000):
        step = generator.random()
        if step < 0.5:
            block = libc.malloc(size(generator)) if step < 0.4 else libc.calloc(1, size(generator))
            with lock:
                blocks.append(block)
            continue
        with lock:
            block = blocks.pop(generator.randrange(len(blocks))) if blocks else None
        if step < 0.7 and block:
            block = libc.realloc(block, size(generator))
            with lock:
                blocks.append(block)
        else:
            libc.free(block)


def native():
    figures = pyhost.memory_stats()["accounts"]["native"]
    return figures["live_bytes"], figures["live_blocks"]


# The threads live through the whole script: libc allocates and frees for each that starts or ends.
barrier = threading.Barrier(9)
running = True


def run(number):
    barrier.wait()
    while running:
        work(number)
        barrier.wait()
        barrier.wait()


def run_threads():
    barrier.wait()
    barrier.wait()


threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()


def free_all():
    for block in blocks:
        libc.free(block)
    blocks.clear()


run_threads()
free_all()
native()
before = native()
for _ in range(3):
    run_threads()
    now = native()
    expected = sum(libc.malloc_usable_size(block) for block in blocks)
    assert now[1] - before[1] == len(blocks), (now, before, len(blocks))
    taken = now[0] - before[0]
    # A guarded block takes whole pages; a checked one has a record and pads.
    assert taken >= expected if guarded else taken == expected, (taken, expected)
free_all()
assert native() == before, (native(), before)
# An aligned block takes more than its usable size: the ledger books what it really takes.
aligned = [libc.aligned_alloc(1 << generator, 1000) for generator in range(4, 20)]
assert native()[1] - before[1] == len(aligned)
assert native()[0] - before[0] >= sum(libc.malloc_usable_size(block) for block in aligned)
blocks.extend(aligned)
free_all()
assert native() == before, (native(), before)
running = False
barrier.wait()
for thread in threads:
    thread.join()
print("exact")
