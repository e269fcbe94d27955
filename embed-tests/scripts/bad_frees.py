"""Frees of blocks that are free, and of pointers into blocks: each ends its process with one line.

Prints "all refused", or what was not. Each case runs in a forked child.
"""
import ctypes
import os
import re
import signal
import threading

libc = ctypes.CDLL(None)
void, size_t = ctypes.c_void_p, ctypes.c_size_t
for name, arguments in (("malloc", [size_t]), ("free", [void]), ("realloc", [void, size_t]),
                        ("aligned_alloc", [size_t, size_t])):
    function = getattr(libc, name)
    function.restype, function.argtypes = void, arguments
malloc, free = libc.malloc, libc.free

# The bytes that are asked for, and the usable bytes.
SIZES = [(1, 16), (8, 16), (24, 32), (100, 112), (1024, 1024), (5000, 5120), (100000, 114688), (3000000, 3145728),
         (100000000, 100663296)]


def at_once(size):
    block = malloc(size)
    free(block)
    free(block)


def with_another_between(size):
    _, block, other = malloc(size), malloc(size), malloc(size)
    free(block)
    free(other)
    free(block)


def by_another_thread(size):
    block = malloc(size)
    thread = threading.Thread(target=lambda: (free(block), free(block)))
    thread.start()
    thread.join()


def by_realloc(size):
    block = malloc(size)
    free(block)
    libc.realloc(block, size)


def aligned(size):
    block = libc.aligned_alloc(256, size)
    free(block)
    free(block)


def inside(offset, act):
    return lambda size: act(malloc(size) + offset, size)


def end_of(case, size):
    """Returns how a child that runs the case ends, and what it says."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 2)
        case(size)
        os._exit(7)
    os.close(writer)
    with open(reader) as pipe:
        said = pipe.read()
    return os.waitpid(child, 0)[1], said


def cases():
    for size, usable in SIZES:
        for case in (at_once, with_another_between, by_another_thread, by_realloc):
            yield case.__name__, case, size, "a block of %d bytes of the account native, freed before" % usable
        yield "aligned", aligned, size, r"a block of \d+ bytes of the account native, freed before"
        for offset in (1, 8, 16):
            if offset >= usable:
                continue
            line = "%d bytes into a block of %d bytes of the account native" % (offset, usable)
            yield "free inside", inside(offset, lambda block, size: free(block)), size, line
            yield "realloc inside", inside(offset, libc.realloc), size, line


missed = 0
for name, case, size, line in cases():
    status, said = end_of(case, size)
    pattern = "pyhost\\[[0-9]+\\]: free\\(\\): invalid pointer 0x[0-9a-f]+: %s\n" % line
    if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGABRT or not re.fullmatch(pattern, said):
        missed += 1
        print("%s of %d bytes: status %d, %r; expected %r" % (name, size, status, said, line))
print("%d not refused" % missed if missed else "all refused")
