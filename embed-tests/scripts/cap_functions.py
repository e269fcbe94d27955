"""Caps that the script sets, soft caps, headroom, big blocks."""

import time
import warnings

import pyhost

MIB = 1 << 20

assert pyhost.get_cap() is None and pyhost.headroom() is None and pyhost.last_refusal() is None

# A cap, set and taken away.
pyhost.set_cap("100M")
assert pyhost.get_cap() == 100 * MIB
assert 80 * MIB < pyhost.headroom() < 96 * MIB
try:
    bytearray(99 * MIB)
    raise SystemExit("nothing was refused")
except MemoryError:
    assert pyhost.last_refusal()["cap_bytes"] == 100 * MIB
try:
    pyhost.set_cap(MIB)
    raise SystemExit("a cap below what is live was taken")
except ValueError as error:
    assert "live" in str(error), error
pyhost.set_cap("64M", "native")
assert pyhost.get_cap("native") == 64 * MIB and pyhost.get_cap("obj") is None
assert pyhost.headroom("native") <= 64 * MIB
pyhost.set_cap(None)
assert pyhost.get_cap() is None
bytearray(150 * MIB)

# The register of big blocks.
before = len(pyhost.big_blocks())
blocks = [bytearray(3 * MIB), bytearray(2 * MIB)]; line = 35
time.sleep(0.1)
known = pyhost.big_blocks()
assert len(known) == before + 2, known
assert known[0]["size_bytes"] >= 3 * MIB > known[1]["size_bytes"] >= 2 * MIB, known
assert known[0]["file"].endswith("cap_functions.py") and known[0]["line"] == line, known
assert 0.05 < known[0]["age_seconds"] < 60, known
blocks.clear()
assert len(pyhost.big_blocks()) == before

# A soft cap: relief once an episode, and nothing fails.
calls = []


@pyhost.on_pressure
def relieve():
    calls.append(len(cache))
    cache.clear()


@pyhost.on_pressure
def fail():
    raise KeyError("told to sys.unraisablehook")


cache = []
live = pyhost.memory_stats()["total"]["live_bytes"]
pyhost.set_cap(live + 20 * MIB, soft=True)
assert pyhost.get_cap(soft=True) == live + 20 * MIB
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for i in range(600_000):
        cache.append([i])
    seen = [str(warning.message) for warning in seen if warning.category is ResourceWarning]
assert len(calls) >= 2 and len(seen) == len(calls), (calls, seen)
assert all("soft cap" in text for text in seen), seen
print("finished")
