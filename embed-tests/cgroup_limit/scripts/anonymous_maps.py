"""Private anonymous maps, which no allocator sees."""

import mmap

from until_refused import until_refused

data, SIZE = [], 1 << 20


def step():
    made = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    made.write(b"x" * SIZE)
    data.append(made)


def drop():
    while data:
        data.pop().close()


until_refused(step, drop)
