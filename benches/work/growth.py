"""Blocks that grow: growth.py [ROUNDS [NAME ...]]; see patterns.py."""

import array
import ctypes
import io
import threading
from collections import deque

import patterns

KIB, MIB = 1 << 10, 1 << 20


def bytearray_by(step, to):
    def run():
        grown, piece = bytearray(), bytes(step)
        while len(grown) < to:
            grown += piece

    return run


def bytes_io(step, to):
    def run():
        file, piece = io.BytesIO(), bytes(step)
        for _ in range(to // step):
            file.write(piece)

    return run


def string_io(step, to):
    def run():
        file, piece = io.StringIO(), "x" * step
        for _ in range(to // step):
            file.write(piece)
        file.getvalue()

    return run


def text(step, to):
    def run():
        grown, piece = "", "x" * step
        while len(grown) < to:
            grown += piece

    return run


def appended(kind, count, times=1):
    def run():
        for _ in range(times):
            grown = kind()
            append = grown.append
            for number in range(count):
                append(number)

    return run


def extended(count, step):
    def run():
        grown, piece = [], list(range(step))
        while len(grown) < count:
            grown.extend(piece)

    return run


def kept(kind, count):
    def run():
        grown = kind()
        if kind is dict:
            for number in range(count):
                grown[number] = None
        else:
            for number in range(count):
                grown.add(number)

    return run


def dropped(make, times):
    def run():
        for _ in range(times):
            make()

    return run


def threads():
    for _ in range(15):
        started = [threading.Thread(target=int) for _ in range(10)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()


def c_realloc(step, to):
    libc = ctypes.CDLL(None)
    libc.realloc.restype = ctypes.c_void_p
    libc.realloc.argtypes = ctypes.c_void_p, ctypes.c_size_t
    libc.free.argtypes = (ctypes.c_void_p,)

    def run():
        block = None
        for size in range(step, to, step):
            block = libc.realloc(block, size)
            ctypes.memset(block + size - step, 1, step)
        libc.free(block)

    return run


LINES = "\n".join("a line of words and numbers %d" % number for number in range(2500))
WORDS = [str(number) for number in range(200_000)]
SOURCE = "\n".join("def f%d(a, b):\n    return [a + b * x for x in range(%d)]" % (n, n) for n in range(300))

PATTERNS = {
    "bytearray += 64 KiB, to 26 MB": bytearray_by(64 * KIB, 26_000_000),
    "bytearray += 200 B, to 12 MB": bytearray_by(200, 12_000_000),
    "bytearray += 100 KB, to 30 MB": bytearray_by(100_000, 30_000_000),
    "bytearray += 1 KiB, to 1 MB": bytearray_by(KIB, MIB),
    "bytearray += 1 MiB, to 256 MiB": bytearray_by(MIB, 256 * MIB),
    "BytesIO.write 4 KiB, to 4 MB": bytes_io(4 * KIB, 4 * MIB),
    "BytesIO.write 100 B, to 4 MB": bytes_io(100, 4 * MIB),
    "StringIO.write 100, to 4 MB": string_io(100, 4 * MIB),
    "str += 100, to 2 MB": text(100, 2_000_000),
    "str += 10, to 200 KB": text(10, 200_000),
    "list.append, to 300,000": appended(list, 300_000),
    "list.append, to 20,000": appended(list, 20_000, 10),
    "list.append, to 5 million": appended(list, 5_000_000),
    "list.extend by 1,000, to a million": extended(1_000_000, 1000),
    "array.append, to a million": appended(lambda: array.array("q"), 1_000_000),
    "deque.append, to 300,000": appended(deque, 300_000),
    "dict, to 300,000": kept(dict, 300_000),
    "set, to 300,000": kept(set, 300_000),
    "bytes(20000)": dropped(lambda: bytes(20_000), 5000),
    "bytes(100000)": dropped(lambda: bytes(100_000), 2000),
    "bytes(1000000)": dropped(lambda: bytes(1_000_000), 200),
    "str.split of 80 KB": dropped(LINES.split, 50),
    "str.encode of 80 KB": dropped(LINES.encode, 2000),
    '"".join': dropped(lambda: "".join(WORDS), 10),
    "compile()": dropped(lambda: compile(SOURCE, "x", "exec"), 1),
    "10 threads, 15 times": threads,
    "realloc by 64 KiB, to 26 MB": c_realloc(64 * KIB, 26_000_000),
    "realloc by 4 KiB, to 4 MB": c_realloc(4 * KIB, 4 * MIB),
}

if __name__ == "__main__":
    patterns.main(PATTERNS)
