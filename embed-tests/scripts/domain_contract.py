"""Every domain keeps PEP 445's contract: called through ctypes, with the GIL held.

Must end with status 0 under every allocator, with and without debug hooks.
"""
import ctypes

SSIZE_MAX = 2 ** (8 * ctypes.sizeof(ctypes.c_ssize_t) - 1) - 1
# The product of two of them overflows.
HALF = 2 ** (SSIZE_MAX.bit_length() // 2 + 2)
# Of blocks from 16 bytes on it is pymalloc's ALIGNMENT; a smaller block holds nothing larger than a word.
WORD = ctypes.sizeof(ctypes.c_void_p)
ALIGNMENT = 2 * WORD
api = ctypes.pythonapi


def function(name, result, *arguments):
    found = getattr(api, name)
    found.restype = result
    found.argtypes = arguments
    return found


for domain in ("PyMem_Raw", "PyMem_", "PyObject_"):
    malloc = function(domain + "Malloc", ctypes.c_void_p, ctypes.c_size_t)
    calloc = function(domain + "Calloc", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
    realloc = function(domain + "Realloc", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    free = function(domain + "Free", None, ctypes.c_void_p)

    # Zero bytes: distinct blocks.
    empty = [malloc(0), malloc(0), calloc(0, 8), calloc(8, 0), realloc(None, 0)]
    assert all(empty) and len(set(empty)) == len(empty), (domain, empty)
    for block in empty:
        free(block)

    # Too large, and products that overflow.
    assert malloc(SSIZE_MAX + 1) is None, domain
    assert malloc(2 * SSIZE_MAX + 1) is None, domain
    assert malloc(SSIZE_MAX - 4096) is None, domain
    assert calloc(SSIZE_MAX // 2 + 1, 4) is None, domain
    assert calloc(HALF, HALF) is None, domain
    block = malloc(100)
    ctypes.memset(block, 0x41, 100)
    assert realloc(block, SSIZE_MAX + 1) is None, domain
    assert ctypes.string_at(block, 100) == b"A" * 100, "a refused realloc leaves the block alone"

    # Resizing keeps the contents, across every size class and to zero and back.
    for size in (1, 8, 24, 512, 513, 1024, 1025, 5000, 70000, 700000, 5000000, 100, 16):
        block = realloc(block, size)
        assert block and block % (ALIGNMENT if size >= 16 else WORD) == 0, (domain, size, block)
        kept = ctypes.string_at(block, 1)
        assert kept == b"A", (domain, size, kept)
        ctypes.memset(block, 0x41, size)
    block = realloc(block, 0)
    assert block, "realloc(p, 0) resizes"
    free(block)
    free(None)

    # Zeroed, also where the memory was used before.
    for size in (1, 16, 100, 512, 1000, 3000, 100000, 3000000):
        dirty = malloc(size)
        ctypes.memset(dirty, 0xEE, size)
        free(dirty)
        clean = calloc(1, size)
        assert ctypes.string_at(clean, size) == bytes(size), (domain, size)
        free(clean)

print("ok")
