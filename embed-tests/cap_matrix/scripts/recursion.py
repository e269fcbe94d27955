"""Deep recursion whose frames hold what grows; the depth itself stays within what CPython and the C stack allow.

256 MiB are reached by 5,500 frames at most: 3.9 and 3.10 take about 500 bytes of C stack for each call.
"""

import sys

from growing import Plan, announce, finish, seed, work

sys.setrecursionlimit(8000)


def plain(size, depth=0):
    held = bytes(size)
    return plain(size, depth + 1) + len(held)


def lists(size, depth=0):
    held = [bytes(100) for _ in range(size // 130)]
    return lists(size, depth + 1) + len(held)


def guarded(size, depth=0):
    try:
        held = bytes(size)
        return guarded(size, depth + 1) + len(held)
    finally:
        depth = None


def with_generator(size, depth=0):
    held = list(number for number in range(size // 30))
    return with_generator(size, depth + 1) + len(held)


class Recursive:
    def __init__(self, size):
        self.data = bytearray(size)
        self.below = Recursive(size)


def by_class(size):
    return Recursive(size)


def comprehended(size, held=b""):
    return [comprehended(size, bytes(size)) for _ in range(2)]


def inside(size, depth=0):
    """The innermost call catches, and all others return what it found."""
    try:
        held = bytes(size)
    except MemoryError:
        return 1
    return inside(size, depth + 1) if held else 0


FUNCTIONS = [plain, lists, guarded, with_generator, by_class, comprehended]
if sys.version_info[:2] == (3, 12):
    # There calls by way of C end in a RecursionError before they hold much.
    FUNCTIONS.remove(by_class)
CASES = [(function, form) for function in FUNCTIONS
         for form in ("caught", "caught twice", "uncaught")] + [(inside, "returned")]
plan = Plan("recursion", seed(), CASES, (60_000, 200_000))
function, form = plan.choice
expected = {"caught": 1, "caught twice": 2, "uncaught": None, "returned": None}[form]
if form == "returned":
    # The error may rise in the call itself, too, beyond the `try`.
    expected = 1
announce(expected, 1, "%s; %s; size %d" % (function.__name__, form, plan.size))
if plan.works_before:
    work()
caught = 0
if form == "uncaught":
    function(plan.size)
while caught < expected:
    try:
        caught += function(plan.size)
    except MemoryError:
        caught += 1
finish(caught)
