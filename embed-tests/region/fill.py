"""Fills a region: fill.py KIND THREADS. Prints what is committed and live at its start, and "alive" at its end."""

import array
import ctypes
import sqlite3
import sys
import threading

import pyhost

KINDS = {}


def kind(fill):
    KINDS[fill.__name__] = fill
    return fill


@kind
def lists(kept):
    kept.append([None] * 400)


@kind
def dicts(kept):
    kept.append({number: None for number in range(20)})


@kind
def byte_strings(kept):
    kept.append(bytes(3000))


@kind
def arrays(kept):
    kept.append(array.array("d", bytes(8 * 2000)))


libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = (ctypes.c_void_p,)
c_blocks = []


@kind
def malloc(kept):
    block = libc.malloc(5000)
    if not block:
        raise MemoryError
    ctypes.memset(block, 1, 5000)
    c_blocks.append(block)


database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("create table t(x)")
# CPython takes a connection that several threads use at a time for misuse, at times (3.13).
one_at_a_time = threading.Lock()


@kind
def sqlite(kept):
    try:
        with one_at_a_time:
            database.execute("insert into t values (?)", ("x" * 3000,))
    except sqlite3.Error as error:
        # Without memory SQLite says "database or disk is full", and of a statement that it could not make, "misuse".
        raise MemoryError from error


@kind
def mixed(kept, kinds=(lists, dicts, byte_strings, arrays)):
    kinds[len(kept) % len(kinds)](kept)


def work(fill, is_full):
    kept = []
    try:
        while not is_full.is_set():
            fill(kept)
    except (MemoryError, ctypes.ArgumentError):  # ctypes makes the second of the first
        is_full.set()


def main(name, threads):
    stats = pyhost.memory_stats()
    print(stats["region"]["committed_bytes"], stats["total"]["live_bytes"], flush=True)
    is_full = threading.Event()
    if threads == 1:
        work(KINDS[name], is_full)
    else:
        started = []
        for _ in range(threads):
            thread = threading.Thread(target=work, args=(KINDS[name], is_full))
            try:
                thread.start()
            except RuntimeError:  # "can't start new thread"
                is_full.set()
                break
            started.append(thread)
        for thread in started:
            thread.join()
    # The threads have ended and freed their blocks. C's and SQLite's are freed here.
    database.close()
    for block in c_blocks:
        libc.free(block)
    kept = [bytes(1000) for _ in range(100)]
    print("alive", len(kept))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
