"""Sites of known bytes. A site is a function: the lines of its body are its place, whoever they call.

The bytes that a site keeps are measured in one of two ways, both without the samples:

- by the ledger: its figures after the call, less those before it. The figures are kept as numbers in an array, and
  reading them twice changes nothing, so the difference is the site's own. Of `arena` it is not: a site may be the one
  that has another's arena freed. The C extension knows whose each arena is;
- by the blocks (`usable`): the sizes that the allocator has for them, for sites that run at the same time as others.
"""

import array
import ctypes
import sys

import pyhost

ACCOUNTS = ("raw", "mem", "obj", "arena", "numpy", "native", "mapped")
SITES = []
USABLE = ctypes.CDLL(None).malloc_usable_size
USABLE.argtypes, USABLE.restype = [ctypes.c_void_p], ctypes.c_size_t


class Site:
    """A site, and the bytes that it has live, by account: now, as far as it was measured."""

    def __init__(self, function, when, file=None):
        code = function.__code__
        self.function, self.when = function, when
        self.name = function.__name__
        self.file = file or code.co_filename
        lines = [code.co_firstlineno]
        stack = [code]
        while stack:
            code = stack.pop()
            lines += [line for _, _, line in code_lines(code) if line]
            stack += [value for value in code.co_consts if hasattr(value, "co_code")]
        # A made-up file is one site's alone.
        self.first, self.last = (1, 1 << 30) if file else (min(lines), max(lines))
        self.number, self.kept = len(SITES) + 1, None
        self.live = dict.fromkeys(ACCOUNTS, 0)

    def place(self):
        return {"site": self.name, "file": self.file, "first": self.first, "last": self.last}


def code_lines(code):
    """Returns the lines of a code object, as `co_lines` does from 3.10 on."""
    if hasattr(code, "co_lines"):
        return code.co_lines()
    import dis
    return [(start, start, line) for start, line in dis.findlinestarts(code)]


def site(function=None, *, when="at peak", file=None):
    """Registers a site, which is called: "before" the peak and dropped then, "at peak", or "late", after it."""
    if function is None:
        return lambda function: site(function, when=when, file=file)
    SITES.append(Site(function, when, file))
    return function


class Ledger:
    """The ledger's live bytes at some moments, as numbers that take no memory of Python's."""

    def __init__(self, moments):
        self.figures = array.array("q", bytes(8 * len(ACCOUNTS) * moments))

    def read(self, moment):
        accounts = pyhost.snapshot().accounts
        for number, account in enumerate(ACCOUNTS):
            self.figures[moment * len(ACCOUNTS) + number] = accounts[account].live_bytes

    def at(self, moment):
        return dict(zip(ACCOUNTS, self.figures[moment * len(ACCOUNTS):]))


def usable(blocks, by_pymalloc):
    """Returns the bytes of objects without a header before them, such as bytes and texts."""
    return sum(usable_of(block, by_pymalloc) for block in blocks)


def usable_of(block, by_pymalloc):
    size = sys.getsizeof(block)
    # pymalloc's own blocks are of 512 bytes at most, in steps of 16.
    return -(-size // 16) * 16 if by_pymalloc and size <= 512 else USABLE(id(block))
