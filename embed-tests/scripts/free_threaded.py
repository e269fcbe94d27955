"""Compares the ledger of a free-threaded Python's objects with a walk of CPython's own pages (c/mimalloc_walk.c).

free_threaded.py situations             at rest after 20 kinds of work
free_threaded.py soak SECONDS THREADS   threads that allocate and free across threads in all domains; compared after each round
"""
import asyncio
import collections
import ctypes
import gc
import os
import pathlib
import queue
import random
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time

import pyhost
from ledger_walk import check as check_heaps
from ledger_walk import wait_for_threads


def import_walk():
    include = sysconfig.get_paths()["include"]
    source = pathlib.Path(__file__).resolve().parents[1] / "c/mimalloc_walk.c"
    with tempfile.TemporaryDirectory() as folder:
        flags = ["-O1", "-w", "-shared", "-fPIC", f"-I{include}", f"-I{include}/internal"]
        subprocess.run(["cc", *flags, source, "-o", f"{folder}/mimalloc_walk.so"], check=True)
        sys.path.insert(0, folder)
        import mimalloc_walk
    return mimalloc_walk.compare


compare = import_walk()
checks = 0


def check(where):
    """Compares at rest."""
    global checks
    checks += 1
    wait_for_threads()
    gc.collect()
    reported, walked, left, mem, (ledger_bytes, ledger_blocks, *_) = compare(sys.getallocatedblocks, pyhost._walk)
    assert (ledger_bytes, ledger_blocks) == walked, (where, ledger_bytes, walked[0], ledger_blocks, walked[1])
    # Python does not see what a destroyed interpreter left, nor MEM, which the host has.
    assert reported == walked[1] - left, (where, reported, walked, left)
    assert mem == 0, (where, mem)
    classes = pyhost.size_histogram("obj")
    blocks = sum(each["live_blocks"] for each in classes)
    # The list itself came after it, and few other objects.
    assert abs(blocks - walked[1]) < 100 + 20 * len(classes), (where, blocks, walked)
    check_heaps(where)


def run_threads(*functions):
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Node:
    def __init__(self):
        self.me = self


def situations():
    check("at the start")
    kept = [[number, str(number), {number: number}] for number in range(50000)]
    check("lists")
    del kept[::2]
    check("half of them freed")
    for _ in range(50000):
        Node()
    check("cycles")
    big = [bytes(size) for size in (600, 5000, 70000, 200000, 3_000_000, 40_000_000)]
    check("large blocks")
    del big
    check("large blocks freed")
    for size in (3, 70000, 10_000_000, 20):
        block = ctypes.pythonapi.PyObject_Malloc
        block.restype = resize.restype = ctypes.c_void_p
        address = resize(ctypes.c_void_p(block(100)), size)
        check(f"a block resized to {size}")
        free(ctypes.c_void_p(address))
    channel = queue.Queue(1000)

    def make(seed=iter(range(99))):
        chance = random.Random(next(seed))
        for number in range(10000):
            channel.put([bytes(chance.randrange(1, 2000)), {"a": number}])
        channel.put(None)

    def drop():
        while channel.get() is not None:
            pass

    for count in range(3):
        run_threads(make, make, drop, drop)
        check(f"made and dropped by two threads each, {count}")
    shared = {}

    def change():
        own = threading.get_ident()
        for number in range(20000):
            shared[own, number % 500] = [number] * (number % 50)
            if number % 7 == 0:
                shared.pop((own, (number * 3) % 500), None)
            [object() for _ in range(number % 30)]

    run_threads(change, change, change, change)
    check("four threads, one dict")
    shared.clear()
    kept.clear()
    check("all cleared")
    for _ in range(100):
        run_threads(lambda: [object() for _ in range(3000)])
    check("short threads")

    async def sleep():
        await asyncio.gather(*[asyncio.sleep(0) for _ in range(5000)])

    asyncio.run(sleep())
    check("asyncio")
    interpreters()
    child = os.fork()
    if child == 0:
        kept = [[number] for number in range(50000)]
        check("in a forked child")
        del kept
        check("in a forked child, freed")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    check("after a fork")


def interpreters():
    import _interpreters

    for count in range(3):
        ids = [_interpreters.create() for _ in range(3)]
        code = "kept = [[number, str(number)] for number in range(20000)]\nimport json, re, collections"
        run_threads(*[lambda each=each: _interpreters.exec(each, code) for each in ids])
        check(f"interpreters, {count}")
        for each in ids:
            _interpreters.destroy(each)
        check(f"interpreters destroyed, {count}")


python = ctypes.pythonapi
resize, free = python.PyObject_Realloc, python.PyObject_Free
libc = ctypes.CDLL(None)


def functions(library, names):
    found = [getattr(library, name) for name in names]
    found[0].restype = found[1].restype = ctypes.c_void_p
    found[0].argtypes, found[1].argtypes, found[2].argtypes = [ctypes.c_size_t], [ctypes.c_void_p, ctypes.c_size_t], [ctypes.c_void_p]
    return found


def soak(seconds, count):
    prefixes = ("PyObject_", "PyMem_", "PyMem_Raw")
    domains = [functions(ctypes.PyDLL(None), [prefix + name for name in ("Malloc", "Realloc", "Free")]) for prefix in prefixes]
    domains.append(functions(ctypes.CDLL(None), ["malloc", "realloc", "free"]))
    pools = [collections.deque() for _ in domains]
    objects = collections.deque()
    operations = [0] * count

    def size(chance):
        kind = chance.random()
        return chance.randrange(0, 520) if kind < 0.9 else chance.randrange(520, 20000) if kind < 0.998 else chance.randrange(3_000_000)

    def make(chance):
        kind = chance.randrange(8)
        if kind == 0:
            return Node()
        if kind == 1:
            return bytes(size(chance))
        if kind == 2:
            return {number: str(number) for number in range(chance.randrange(60))}
        if kind == 3:
            return tuple(object() for _ in range(chance.randrange(40)))
        if kind == 4:
            return {chance.random() for _ in range(chance.randrange(40))}
        if kind == 5:
            return "a" * size(chance) + "\u20ac"
        return [[number] for number in range(chance.randrange(100))]

    def work(number, seed, end):
        chance = random.Random(seed)
        while time.monotonic() < end:
            for _ in range(50):
                if chance.random() < 0.7:
                    # Half of what a thread makes is dropped by another one.
                    objects.append(make(chance))
                    if len(objects) > 20000 or chance.random() < 0.5:
                        try:
                            objects.popleft()
                        except IndexError:
                            pass
                    continue
                index = chance.randrange(len(domains))
                (malloc, realloc, free), pool = domains[index], pools[index]
                step = chance.random()
                try:
                    block = None if step < 0.4 else pool.popleft()
                except IndexError:
                    block = None
                if block is None:
                    pool.append(malloc(size(chance)))
                elif step < 0.6:
                    pool.append(realloc(block, size(chance) or 1))
                else:
                    free(block)
            operations[number] += 50

    end = time.monotonic() + seconds
    seed = 0
    while time.monotonic() < end:
        until = min(end, time.monotonic() + min(10, seconds / 3))
        run_threads(*[lambda number=number, seed=seed: work(number, seed + number, until) for number in range(count)])
        seed += count
        check(f"after {sum(operations)} operations")
    for (_, _, free), pool in zip(domains, pools):
        while pool:
            free(pool.popleft())
    objects.clear()
    check("at the end")
    print(f"{sum(operations)} operations, {checks} comparisons")


if sys.argv[1] == "soak":
    soak(float(sys.argv[2]), int(sys.argv[3]))
else:
    situations()
print("exact")
