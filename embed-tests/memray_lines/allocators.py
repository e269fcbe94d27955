"""Allocates by each kind of function that memray's tests call, at a line of its own, and keeps the blocks.

memray's own module for it cannot be imported here: with memray in its process the host leaves malloc to it. Nor does
ctypes serve: memray sees calls that go through a library's table of symbols alone.
"""

from line_sites import hold, resize


def main():
    hold("native", 3_000_000, 1)
    hold("calloc", 2_700_000, 1)
    resize("native", 1_000, 2_400_000, 1)
    hold("aligned", 2_100_000, 1)
    hold("raw", 1_800_000, 1)
    resize("raw", 1_000, 1_500_000, 1)
    hold("mem", 1_200_000, 1)
    resize("mem", 1_000, 1_000_000, 1)
    hold("obj", 800, 1_000)
    resize("obj", 100, 300, 2_000)


main()
