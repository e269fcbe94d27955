"""Blocks of pyhost.fail, beneath `--fail obj=above=1M,when=open`: own rules, nesting, restoring."""

import threading

import pyhost

LARGE, MEDIUM, SMALL = 2_000_000, 300_000, 5000


def fails(size):
    try:
        bytes(size)
    except MemoryError:
        return True
    return False


# Outside of a block the rule of the command line waits.
assert not fails(LARGE) and not fails(MEDIUM)

# A block without a rule opens it.
with pyhost.fail() as fault:
    assert fails(LARGE) and not fails(MEDIUM)
assert not fails(LARGE)
assert (fault.requests, fault.injected) == (0, 0)

# A block with a rule has that as well; inner blocks add theirs, and take them away.
with pyhost.fail("obj=above=200K") as outer:
    assert fails(MEDIUM) and fails(LARGE) and not fails(SMALL)
    with pyhost.fail("obj=above=4K,every=2") as inner:
        assert [fails(SMALL) for _ in range(4)] == [False, True, False, True]
        assert fails(MEDIUM)
        assert (inner.requests, inner.injected) == (5, 2)
    assert fails(MEDIUM) and not fails(SMALL)
    assert outer.injected == 4
assert not fails(MEDIUM) and not fails(LARGE)

# An exception ends it, also one that comes of it.
try:
    with pyhost.fail("obj=above=200K"):
        bytes(MEDIUM)
except MemoryError:
    pass
else:
    raise AssertionError("no MemoryError")
assert not fails(MEDIUM)

# Where every second request fails, the end of the block does not. (Where every one does, 3.11 and
# later may look for the handler for ever: the evaluation loop itself makes an integer for it. 3.13.15 leaves the
# frame instead. In a short function it has the integer.)
def every_second():
    try:
        with pyhost.fail("raw+mem+obj=every=2"):
            [object() for _ in range(5)]
            str(12345) + "x"
    except MemoryError:
        pass


for number in range(50):
    every_second()
    assert not fails(MEDIUM)


# A generator that is dropped closes its block.
def held():
    with pyhost.fail("obj=above=200K"):
        yield


holder = held()
next(holder)
assert fails(MEDIUM)
del holder
assert not fails(MEDIUM)

# An instance that is dropped without its end closes its block, too; one is open once at a time.
block = pyhost.fail("obj=above=200K")
block.__enter__()
assert fails(MEDIUM)
try:
    block.__enter__()
except RuntimeError:
    pass
else:
    raise AssertionError("entered twice")
del block
assert not fails(MEDIUM)
again = pyhost.fail("obj=above=200K,1")
for _ in range(3):
    with again:
        assert fails(MEDIUM) and not fails(MEDIUM)

# It holds in all threads.
found = []
with pyhost.fail("obj=above=200K"):
    thread = threading.Thread(target=lambda: found.append(fails(MEDIUM)))
    thread.start()
    thread.join()
assert found == [True]

# Closing restores also where blocks end in another order.
one, two = pyhost.fail("obj=above=200K"), pyhost.fail("obj=above=4K")
one.__enter__()
two.__enter__()
one.__exit__(None, None, None)
assert fails(SMALL) and fails(MEDIUM)
two.__exit__(None, None, None)
two.__exit__(None, None, None)  # as a file's close
assert not fails(SMALL) and not fails(LARGE)

# There is room for many blocks, and a clear end of it.
blocks = [pyhost.fail("mem=1") for _ in range(40)]
opened = 0
try:
    for block in blocks:
        block.__enter__()
        opened += 1
except RuntimeError as error:
    assert "too many blocks" in str(error), error
assert 20 <= opened < 40, opened
for block in blocks:
    block.__exit__(None, None, None)
assert not fails(LARGE)

for wrong, kind in [("x=3", ValueError), ("sweep", ValueError), ("", ValueError), (3, TypeError)]:
    try:
        pyhost.fail(wrong)
    except kind as error:
        assert str(error).startswith("fail: "), error
    else:
        raise AssertionError(wrong)
assert pyhost.fail.__doc__ and pyhost.fail(None)
print("all as expected")
