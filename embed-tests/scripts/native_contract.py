"""The process's malloc family keeps the C standard's contract as glibc reads it.

Run by stock Python and by the host: both must print the same.
"""
import ctypes
import errno
import mmap

libc = ctypes.CDLL(None, use_errno=True)
PAGESIZE = mmap.PAGESIZE
SIZE_MAX = 2 ** (8 * ctypes.sizeof(ctypes.c_size_t)) - 1


def function(name, result, *arguments):
    found = getattr(libc, name)
    found.restype = result
    found.argtypes = arguments
    return found


pointer, size_t = ctypes.c_void_p, ctypes.c_size_t
malloc = function("malloc", pointer, size_t)
calloc = function("calloc", pointer, size_t, size_t)
realloc = function("realloc", pointer, pointer, size_t)
reallocarray = function("reallocarray", pointer, pointer, size_t, size_t)
free = function("free", None, pointer)
posix_memalign = function("posix_memalign", ctypes.c_int, ctypes.POINTER(pointer), size_t, size_t)
aligned_alloc = function("aligned_alloc", pointer, size_t, size_t)
memalign = function("memalign", pointer, size_t, size_t)
valloc = function("valloc", pointer, size_t)
pvalloc = function("pvalloc", pointer, size_t)
usable = function("malloc_usable_size", size_t, pointer)


def fails(call):
    ctypes.set_errno(0)
    result = call()
    return result is None and errno.errorcode.get(ctypes.get_errno())


print("malloc(0)", malloc(0) != malloc(0))
print("too large", fails(lambda: malloc(SIZE_MAX)), fails(lambda: malloc(SIZE_MAX // 2 + 1)))
print("calloc overflow", fails(lambda: calloc(SIZE_MAX // 2, 4)))
print("reallocarray overflow", fails(lambda: reallocarray(None, SIZE_MAX // 2, 4)))
block = malloc(10)
print("realloc too large", fails(lambda: realloc(block, SIZE_MAX)))
ctypes.memset(block, 0x42, 10)
for size in (100, 1000, 100000, 10000000, 50):
    block = realloc(block, size)
    print("realloc", size, ctypes.string_at(block, 10) == b"B" * 10, usable(block) >= size)
print("realloc(p, 0)", realloc(block, 0))
print("realloc(NULL)", realloc(None, 5) is not None)
free(None)
print("usable(NULL)", usable(None))
for alignment in (16, 64, 4096, 65536, 1 << 21):
    for size in (1, 100, 5000, 100000):
        blocks = [aligned_alloc(alignment, size), memalign(alignment, size)]
        out = pointer()
        blocks.append(posix_memalign(ctypes.byref(out), alignment, size) or out.value)
        for block in blocks:
            ctypes.memset(block, 1, size)
            print("aligned", alignment, size, block % alignment, usable(block) >= size)
            grown = realloc(block, size * 3)
            print("grown", ctypes.string_at(grown, size) == b"\1" * size)
            free(grown)
out = pointer(7)
for alignment in (0, 1, 4, 24):
    print("posix_memalign", alignment, posix_memalign(ctypes.byref(out), alignment, 10), out.value)
print("valloc", valloc(100) % PAGESIZE, pvalloc(100) % PAGESIZE, usable(pvalloc(100)) >= PAGESIZE)
blocks = [calloc(7, size) for size in (1, 10, 100, 1000, 100000, 1000000)]
print("zeroed", all(ctypes.string_at(block, 7) == bytes(7) for block in blocks))
