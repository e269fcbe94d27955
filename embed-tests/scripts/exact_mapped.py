"""Random mmap, munmap, mremap, mprotect and madvise from four threads against the kernel's own list of mappings.

argv[1] is the seed. The account `mapped` must have grown by exactly the private anonymous bytes that may be written
in the addresses that the script works on, and be back where it was once all are unmapped.
"""
import ctypes
import mmap
import random
import sys
import threading

import pyhost

libc = ctypes.CDLL(None, use_errno=True)
void, size_t, c_int, c_long = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_long
for name, result, arguments in (
    ("mmap", void, [void, size_t, c_int, c_int, c_int, c_long]), ("munmap", c_int, [void, size_t]),
    ("mremap", void, [void, size_t, size_t, c_int, void]), ("mprotect", c_int, [void, size_t, c_int]),
    ("madvise", c_int, [void, size_t, c_int]), ("mincore", c_int, [void, size_t, void]),
):
    getattr(libc, name).restype, getattr(libc, name).argtypes = result, arguments

PAGE, FAILED = mmap.PAGESIZE, ctypes.c_void_p(-1).value
NONE, READ, WRITE = 0, 1, 2
SHARED, PRIVATE, FIXED, ANONYMOUS, NORESERVE, NOREPLACE = 1, 2, 0x10, 0x20, 0x4000, 0x100000
MAYMOVE, REMAP_FIXED, DONTUNMAP = 1, 2, 4
PAGES, STEPS, THREADS = 256, 400, 4
SEED = int(sys.argv[1])
itself = open(sys.executable, "rb")


def window():
    """Returns the first of PAGES free addresses, which nobody else is given."""
    start = libc.mmap(None, PAGES * PAGE, NONE, PRIVATE | ANONYMOUS | NORESERVE, -1, 0)
    assert start != FAILED
    return start


def writable(windows):
    """Returns the bytes that the kernel lists as private, anonymous and writable in the windows."""
    found = 0
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            addresses, flags, _, _, inode = line.split()[:5]
            low, high = (int(part, 16) for part in addresses.split("-"))
            if flags[1] == "w" and flags[3] == "p" and inode == "0":
                found += sum(max(0, min(high, start + PAGES * PAGE) - max(low, start)) for start in windows)
    return found


def is_whole(start, size):
    """Says whether all of the addresses are mapped: mincore fails where one is not."""
    return libc.mincore(start, size, ctypes.create_string_buffer(size // PAGE)) == 0


def step(generator, start):
    """Does one call somewhere in a window; some fail, which must change nothing."""
    first = generator.randrange(PAGES)
    count = generator.randrange(1, min(40, PAGES - first) + 1)
    at, size = start + first * PAGE, count * PAGE - generator.randrange(2) * generator.randrange(PAGE)
    access = generator.choice([NONE, READ, READ | WRITE, READ | WRITE])
    kind = generator.randrange(12)
    if kind < 4:
        assert libc.mmap(at, size, access, PRIVATE | ANONYMOUS | FIXED, -1, 0) == at
    elif kind == 4:
        libc.mmap(at, size, access, PRIVATE | ANONYMOUS | NOREPLACE, -1, 0)
    elif kind == 5:
        assert libc.mmap(at, size, READ | WRITE, SHARED | ANONYMOUS | FIXED, -1, 0) == at
    elif kind == 6:
        assert libc.mmap(at, size, READ, PRIVATE | FIXED, itself.fileno(), 0) == at
    elif kind == 7:
        assert libc.munmap(at, size) == 0
    elif kind == 8 and is_whole(at, count * PAGE):
        # Over a hole the kernel protects what lies before it, and fails.
        libc.mprotect(at, size, access)
    elif kind in (8, 9):
        libc.madvise(at, size, 4)  # MADV_DONTNEED: the addresses stay
    elif kind == 10:
        other = start + generator.randrange(PAGES // 2) * PAGE
        if other + 40 * PAGE <= at or at + size <= other:
            flags = MAYMOVE | REMAP_FIXED | generator.choice([0, 0, DONTUNMAP])
            bytes_then = size if flags & DONTUNMAP else generator.randrange(1, 40) * PAGE
            if other + bytes_then <= at or at + size <= other:
                # Of one piece: of several, kernels of 6.17 on may move some and fail.
                assert libc.mmap(at, size, access, PRIVATE | ANONYMOUS | FIXED, -1, 0) == at
                libc.mremap(at, size, bytes_then, flags, other)
    else:
        libc.mremap(at, size, generator.randrange(1, 40) * PAGE, 0, None)


def mapped():
    return pyhost.memory_stats()["accounts"]["mapped"]["live_bytes"]


def work(number, start):
    generator = random.Random(SEED * 100 + number)
    for _ in range(STEPS // 8):
        step(generator, start)


before = mapped()
windows = [window() for _ in range(THREADS)]
# In place of the windows' upper neighbours: what grows in place must stay inside.
for start in windows:
    assert libc.mmap(start + (PAGES - 1) * PAGE, PAGE, NONE, PRIVATE | ANONYMOUS | FIXED, -1, 0) != FAILED
for turn in range(8):
    threads = [threading.Thread(target=work, args=(turn * THREADS + number, start))
               for number, start in enumerate(windows)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    grown, listed = mapped() - before, writable(windows)
    assert grown == listed, (turn, grown, listed)
for start in windows:
    assert libc.munmap(start, PAGES * PAGE) == 0
assert mapped() == before, (mapped(), before)
print("exact")
