"""Random calls of NumPy's data handler from threads outside Python: the ledger must agree with whoever else can count.

argv: the library made from array_storm.c, a seed. The oracles know nothing of the ledger: a walk of mimalloc's pages,
the chunks of the region, libc's malloc_usable_size, and the library's own shadow map. Prints `exact`.
"""
import ctypes
import sys

import numpy as np
import pyhost
from data_handler import handler

storm = ctypes.CDLL(sys.argv[1])
SEED = int(sys.argv[2])
ALLOCATOR = pyhost.memory_stats()["numpy"]["allocator"]
DEBUG_HOOKS = pyhost.memory_stats()["debug_hooks"]
THREADS = 6


def live():
    account = pyhost.memory_stats()["accounts"]["numpy"]
    return account["live_bytes"], account["live_blocks"]


def shadow():
    """The counters of the library: blocks, bytes that were asked for, bytes by libc."""
    count, asked, usable = (ctypes.c_size_t() for _ in range(3))
    size_of = ctypes.cast(ctypes.CDLL(None).malloc_usable_size, ctypes.c_void_p)
    no_size = ALLOCATOR != "system" or DEBUG_HOOKS
    storm.storm_live(ctypes.byref(count), ctypes.byref(asked), ctypes.byref(usable), None if no_size else size_of)
    return count.value, asked.value, usable.value


def requested(world):
    return sum(chunk["requested_bytes"] for chunk in world["chunks"])


def compare(before):
    count, asked, usable = shadow()
    live_bytes, live_blocks = live()
    assert live_blocks - before[1] == count, (live_blocks, before, count)
    assert live_bytes - before[0] >= asked, (live_bytes, before, asked)
    figures = pyhost.memory_stats()["numpy"]
    if ALLOCATOR == "system":
        assert DEBUG_HOOKS or live_bytes - before[0] == usable, (live_bytes, before, usable)
    elif ALLOCATOR == "bfc":
        world = pyhost.numpy_memory_map()
        region, chunks = world["region"], world["chunks"]
        used = [chunk for chunk in chunks if chunk["allocation"] is not None]
        assert (region["live_bytes"], region["live_chunks"]) == (live_bytes, live_blocks), (region, live_bytes)
        assert sum(chunk["bytes"] for chunk in used) == live_bytes
        assert sum(chunk["bytes"] for chunk in chunks) == region["region_bytes"]
        pads = (256 + 16) * count if DEBUG_HOOKS else 0
        zeros = requested(world) - pads - asked - requested_before
        assert 0 <= zeros <= len(used), zeros  # a request of 0 bytes takes one
        for chunk, following in zip(chunks, chunks[1:]):
            assert chunk["address"] + chunk["bytes"] == following["address"]
            assert chunk["allocation"] or following["allocation"], "two free neighbours"
    else:
        kept = figures["pool"] or {"kept_bytes": 0, "kept_blocks": 0}
        ledger_bytes, ledger_blocks, walked_bytes, walked_blocks = pyhost._walk("numpy")
        assert (ledger_bytes, ledger_blocks) == (live_bytes, live_blocks)
        assert walked_bytes == live_bytes + kept["kept_bytes"], (walked_bytes, live_bytes, kept)
        assert walked_blocks == live_blocks + kept["kept_blocks"], (walked_blocks, live_blocks, kept)


address = ctypes.c_void_p(handler())
aligned_to = ctypes.c_size_t(pyhost.memory_stats()["numpy"]["align"])
keep = np.ones(1000)
requested_before = requested(pyhost.numpy_memory_map()) if ALLOCATOR == "bfc" else 0
before = live()
for turn in range(3):
    storm.storm_start(address, aligned_to, THREADS, 3000, SEED + turn, 0)
    assert storm.storm_join() == 0
    compare(before)
storm.storm_release()
assert live() == before, (live(), before)
compare(before)
assert storm.storm_join() == 0 and keep.sum() == 1000
if ALLOCATOR == "pool":
    pool = pyhost.memory_stats()["numpy"]["pool"]
    assert pool["hits"] > 0 and pool["misses"] > 0, pool
    print(pool)
if ALLOCATOR == "bfc":
    print(pyhost.memory_stats()["numpy"]["region"])
print("exact")
