"""Private maps as a library with an allocator of its own makes them, beside objects: the objects are to be refused."""

import mmap

from until_refused import until_refused

maps, objects, SIZE = [], [], 1 << 20


def step():
    made = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    made.write(b"x" * SIZE)
    maps.append(made)
    objects.extend([number * 1.5, str(number)] for number in range(5000))


def drop():
    objects.clear()
    while maps:
        maps.pop().close()


until_refused(step, drop)
