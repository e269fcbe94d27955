"""A cap of 64 MiB, or a limit of 64 MiB for a block, that counts what Python's mmap has made and what of it was touched.

argv: capped, owned or limited.
"""

import concurrent.futures
import contextlib
import ctypes
import itertools
import mmap
import sys
import threading

import pyhost

MIB = 1 << 20
HOW = sys.argv[1]


def new(size):
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def touch(made):
    for place in range(0, len(made), mmap.PAGESIZE):
        made[place] = 1


def peak():
    """Returns the highest resident size so far, in MiB, without the pages of files."""
    with open("/proc/self/status", encoding="ascii") as file:
        figures = dict(line.split(":", 1) for line in file)
    return (int(figures["VmHWM"].split()[0]) - int(figures["RssFile"].split()[0])) >> 10


def grow(step, most):
    """Maps and touches until an error comes or there are `most` bytes: how many there were, and the error."""
    kept = []
    try:
        while len(kept) * step < most:
            kept.append(new(step))
            touch(kept[-1])
    except (MemoryError, OSError) as error:
        return len(kept) * step, error.with_traceback(None)  # which would keep the maps
    return len(kept) * step, None


def pass_the_cap():
    """Touches twice the cap of what was reserved: libc and threads have the reserve all the same."""
    reserved = [new(40 * MIB) for _ in range(3)]
    malloc = ctypes.CDLL(None).malloc
    malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    ran = []
    try:
        for made in reserved:
            touch(made)
        while True:
            ran.append(bytes(100_000))
    except MemoryError:
        assert all(malloc(58) for _ in range(100))
        ran.clear()
        thread = threading.Thread(target=ran.append, args=(1,))
        thread.start()
        thread.join()
    assert ran


def main():
    # Maps that were never touched leave the room that there was.
    before = pyhost.headroom()
    reserved = [new(8 * MIB) for _ in range(5)]
    if HOW != "limited":
        assert abs(before - pyhost.headroom()) < MIB // 2, (before, pyhost.headroom())
    # A library's own reserve, all of which is as large as the cap, is no reason to refuse it what it touches.
    touch(reserved[0])
    if HOW == "capped":
        assert 7 * MIB < before - pyhost.headroom() < 9 * MIB, (before, pyhost.headroom())
    del reserved
    # Nor is one that is larger than the cap, in parts, at once.
    if HOW == "capped":
        reserved = [new(40 * MIB) for _ in range(10)]
        del reserved
    base = peak()
    pool = concurrent.futures.ThreadPoolExecutor(1)
    for step, is_worker in itertools.product((256 << 10, MIB, 3 * MIB), (False, True)):
        limit = pyhost.limit("64M") if HOW == "limited" else contextlib.nullcontext()
        with limit:
            grown, error = pool.submit(grow, step, 160 * MIB).result() if is_worker else grow(step, 160 * MIB)
        if HOW == "owned":
            assert error is None and grown >= 160 * MIB, (step, grown, error)
            continue
        assert isinstance(error, MemoryError), (step, grown, error)
        text = "after" if HOW == "limited" else "libraries' maps"
        if is_worker:  # whose error may have no text
            refusal = pyhost.last_refusal()
            assert refusal["scope"] == "total" and any("in grow" in line for line in refusal["traceback"]), refusal
        else:
            assert "64.0 MiB (total)" in str(error) and text in str(error), error
        assert 32 * MIB < grown < 64 * MIB, (step, grown)
        assert peak() < 72 + (base if HOW == "limited" else 0), (step, peak(), base)
    # What does not fit is refused when it is mapped, in one piece.
    if HOW == "capped":
        grown, error = grow(40 * MIB, 160 * MIB)
        assert grown == 40 * MIB and isinstance(error, OSError), (grown, error)
        assert peak() < 72, peak()
        # Objects have what maps leave.
        held, blocks = new(24 * MIB), []
        touch(held)
        try:
            while True:
                blocks.append(bytes(100_000))
        except MemoryError:
            pass
        size = sum(map(len, blocks))
        assert 20 * MIB < size < 40 * MIB, size
        del blocks, held
        maps = pyhost.last_refusal()["maps_bytes"]  # ctypes may have a page
        assert 24 * MIB <= maps < 24 * MIB + (64 << 10), pyhost.last_refusal()
        # The two are names of one cap.
        assert pyhost.get_cap() == pyhost.get_cap("owned") == 64 * MIB
        pyhost.set_cap("48M", "owned")
        assert pyhost.get_cap() == 48 * MIB and grow(MIB, 80 * MIB)[1] is None
        pyhost.set_cap("60M")
        assert isinstance(grow(MIB, 80 * MIB)[1], MemoryError)
        pass_the_cap()
    print("finished")


main()
