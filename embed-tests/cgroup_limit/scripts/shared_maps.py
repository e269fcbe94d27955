"""Shared anonymous maps: the kernel counts them as shared memory."""

import mmap

from until_refused import until_refused

data, SIZE = [], 1 << 20


def step():
    made = mmap.mmap(-1, SIZE)
    made.write(b"x" * SIZE)
    data.append(made)


def drop():
    while data:
        data.pop().close()


until_refused(step, drop)
