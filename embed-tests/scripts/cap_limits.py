"""Limits of blocks of code: what they refuse, what they say, that they end."""

import pyhost


def grow():
    data = []
    while True:
        data.append([1])


# One block: the error leaves it, and tells which it was.
try:
    with pyhost.limit("8M"):
        grow()
    raise SystemExit("nothing was refused")
except MemoryError:
    pass
last = pyhost.last_refusal()
assert last["limit"]["bytes"] == 8 << 20, last
assert last["limit"]["file"].endswith("cap_limits.py") and last["limit"]["line"] == 14, last
assert last["scope"] == "total" and last["size_bytes"] > 0, last
grown = last["live_bytes"] - last["limit"]["base_bytes"]
assert 4 << 20 < grown < 9 << 20, last
assert any(" in grow" in line for line in last["traceback"]), last

# Nested: the inner one holds inside, the outer one afterwards.
sizes = []
try:
    with pyhost.limit(64 << 20) as outer:
        try:
            with pyhost.limit("4M"):
                grow()
        except MemoryError:
            sizes.append(pyhost.last_refusal()["limit"]["bytes"])
        assert 60 << 20 <= pyhost.headroom() <= 64 << 20, pyhost.headroom()
        grow()
except MemoryError:
    sizes.append(pyhost.last_refusal()["limit"]["bytes"])
assert sizes == [4 << 20, 64 << 20], sizes
assert pyhost.headroom() is None and "open" not in repr(outer)

# Nothing is raised after the end, however close the block came.
for turn in range(200):
    try:
        with pyhost.limit("1M"):
            data = [[i] for i in range(6500 + turn * 20)]
    except MemoryError:
        pass
    data = None
    for _ in range(100):
        other = [turn] * 3

# An account alone.
with pyhost.limit("1M", account="native"):
    data = list(range(1_000_000))
data = None
try:
    with pyhost.limit("1M", account="numpy"):
        pyhost.buffer(2 << 20, account="numpy")
    raise SystemExit("nothing was refused")
except MemoryError:
    assert pyhost.last_refusal()["scope"] == "numpy"

# A wrong value is an error.
for wrong, error in [((0,), ValueError), (("64m",), ValueError), ((1.5,), TypeError),
                     (("1M", "heap"), ValueError)]:
    try:
        pyhost.limit(*wrong)
        raise SystemExit("%r was taken" % (wrong,))
    except error as caught:
        assert "limit" in str(caught) and "\n" not in str(caught), caught
one = pyhost.limit("1M")
with one:
    try:
        with one:
            pass
        raise SystemExit("entered twice")
    except RuntimeError:
        pass
print("finished")
