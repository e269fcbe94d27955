"""Functions whose lines are known: the comment of a line has the bytes that it adds and the most that it has beyond its begin, in MB.

A number for both means that they are the same. They are what the blocks of a line take, rounded; a line without a comment adds
nothing that counts.
"""

import mmap

import numpy

MB = 1_000_000


def lists():
    small = [0] * MB  # 8
    large = [1] * (20 * MB)  # 160
    del large  # -160 0
    return small


def the_same_again():
    first = bytearray(30 * MB)  # 30
    del first  # -30 0
    second = bytearray(30 * MB)  # 30
    return second


def temporary():
    count = len(list(range(MB)))  # 0 40
    total = sum(bytes(25 * MB))  # 0 25
    return count + total


def small_blocks():
    rows = []
    for number in range(2_000):
        rows.append(bytes(10_000))  # 20 0
    return rows


def small_blocks_again():
    rows = small_blocks()  # 20
    rows = None  # -20 0
    rows = small_blocks()  # 20
    return rows


def arrays():
    ones = numpy.ones(4 * MB)  # 32
    squares = ones * ones  # 32
    norm = float((ones + squares).sum())  # 0 32
    ones = squares = None  # -64 0
    return norm


def untouched():
    empty = numpy.empty(10 * MB)  # 80
    empty[:] = 1
    return empty


def maps():
    area = mmap.mmap(-1, 40 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.write(b"x" * (10 * MB))  # 10 20
    area.close()  # -10 0


def recursion(depth=5):
    block = bytearray(2 * MB)  # 10 2
    if depth > 1:
        recursion(depth - 1)  # 0 8
    return block


def steps():
    block = bytearray(15 * MB)  # 15
    yield 1
    del block  # -15 0
    yield 2


def generator():
    items = steps()
    next(items)  # 15
    kept = bytearray(5 * MB)  # 5
    next(items)  # -15 0
    return kept


def error():
    try:
        block = bytearray(12 * MB)  # 12
        int("none")
    except ValueError:
        block = None  # -12 0
    return block


FUNCTIONS = (lists, the_same_again, temporary, small_blocks, small_blocks_again, arrays, untouched, maps, recursion, steps, error)
# How a function is run, if not by a call.
RUNS = {steps: generator}
