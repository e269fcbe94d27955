"""Grows without end, in the way that the first argument names, until memory is refused; then says so
and does something useful."""
import json
import sys


def objects():
    keep = []
    while True:
        keep.append(object())


def dicts():
    keep = {}
    n = 0
    while True:
        keep[n] = str(n)
        n += 1


def byte_strings():
    keep = []
    while True:
        keep.append(bytes(100_000))


def one_bytearray():
    keep = bytearray(1 << 20)
    while True:
        keep.extend(bytes(len(keep)))


def strings():
    text = "x" * 1000
    while True:
        text = "".join((text, text))


def recursion():
    sys.setrecursionlimit(10**9)
    def down(n):
        return [n, down(n + 1)]
    try:
        down(0)
    except SystemError:  # 3.11 forgets to set the MemoryError
        pass
    except MemoryError as error:
        unlink(error)
    raise MemoryError


def unlink(error):
    """Lets go of the frames that an error and the errors before it hold. CPython 3.12 and later have one
    MemoryError of last resort, which they never free: it may keep all frames of a recursion, so that
    there is no memory after it was caught (see docs/limit/region.md)."""
    while error is not None:
        before = error.__context__
        error.__context__ = error.__traceback__ = None
        error = before


def mixed():
    keep = []
    n = 1
    while True:
        n = n * 7 % 600_011
        keep.append(bytes(n))
        if n % 3 == 0:
            keep.pop(n % len(keep))


def sqlite():
    import sqlite3
    base = sqlite3.connect(":memory:")
    base.execute("create table t (x)")
    try:
        while True:
            base.executemany("insert into t values (?)", [(b"x" * 5000,)] * 100)
    except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
        raise MemoryError(str(error)) from None


def native():
    import ctypes
    malloc = ctypes.CDLL(None).malloc
    malloc.restype = ctypes.c_void_p
    malloc.argtypes = [ctypes.c_size_t]
    libc = ctypes.CDLL(None)
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = (ctypes.c_void_p * 100_000)()
    count = 0
    for size in (2_000_000, 300_000, 70_000, 5000, 100):
        while count < len(blocks):
            block = malloc(size)
            if not block:
                break
            ctypes.memset(block, 1, size)
            blocks[count] = block
            count += 1
    for block in blocks[:count]:
        libc.free(block)
    raise MemoryError("malloc gave null")


def arrays():
    import numpy
    keep = []
    n = 1
    while True:
        n = n * 7 % 100_003
        keep.append(numpy.ones(n))


def threads():
    import threading
    started = threading.Barrier(21)
    failed = []
    def hog():
        keep = []
        started.wait()
        try:
            while True:
                keep.append(bytes(2000))
        except MemoryError:
            failed.append(1)
    running = [threading.Thread(target=hog) for _ in range(20)]
    for thread in running:
        thread.start()
    started.wait()
    for thread in running:
        thread.join()
    raise MemoryError(f"{len(failed)} of {len(running)} threads")


def new_threads():
    """Threads that start while there is no memory; threading's own start() would wait for ever."""
    import _thread
    import errno
    import os
    import time
    keep = []
    def hog():
        try:
            while True:
                keep.append(bytes(2000))
        except MemoryError:
            pass
    sys.unraisablehook = sys.stderr = None
    for _ in range(300):
        try:
            _thread.start_new_thread(hog, ())
        except (RuntimeError, MemoryError):
            pass
    # While the others hog, a request of the wait itself may be refused, too.
    deadline = time.monotonic() + 20
    waits = True
    while waits:
        try:
            time.sleep(0.01)
            waits = len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < deadline
        except MemoryError:
            pass
        except OSError as error:  # opendir(3) has no memory for its buffer
            if error.errno != errno.ENOMEM:
                raise
    # CPython may keep the function of a thread that was refused memory, and what it refers to.
    keep.clear()
    raise MemoryError


def main():
    try:
        globals()[sys.argv[1]]()
    except MemoryError:
        pass
    assert json.loads(json.dumps({"n": list(range(1000))}))["n"][999] == 999
    print("survived")


main()
