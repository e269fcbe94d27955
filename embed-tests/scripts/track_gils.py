"""Blocks that are tracked in interpreters with a GIL of their own, all at once (CPython 3.12); prints "tracked"."""
import threading

import pyhost

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

MIB = 1 << 20
CODE = """
import pyhost
for _ in range(200):
    with pyhost.track() as outer:
        with pyhost.track() as t:
            data = bytes(2 << 20)
        del data
    # Blocks that others free meanwhile may hide a part; blocks that they allocate may add to it.
    assert -80 << 20 < t.growth_bytes < 80 << 20
    assert outer.peak_bytes >= t.peak_bytes, (outer, t)
assert pyhost.snapshot().diff(pyhost.snapshot()).total.account == "total"
"""


def make():
    # 3.12 makes isolated ones by a flag, 3.13 by a name.
    try:
        return interpreters.create("isolated")
    except TypeError:
        return interpreters.create(isolated=True)


def work(interpreter):
    # A thread that starts when another has ended may have its slot, and count as that one.
    together.wait()
    error = interpreters.run_string(interpreter, CODE)
    if error is not None:  # 3.13 returns what was raised
        errors.append(error)


errors = []
together = threading.Barrier(3, timeout=60)
threading.excepthook = lambda args: errors.append(args.exc_value)
made = [make() for _ in range(3)]
workers = [threading.Thread(target=work, args=(interpreter,)) for interpreter in made]
with pyhost.track() as t:
    for worker in workers:
        worker.start()
    for _ in range(200):
        with pyhost.track() as inner:
            data = bytes(4 * MIB)
        assert inner.peak_bytes >= 4 * MIB
        del data
    for worker in workers:
        worker.join()
for interpreter in made:
    interpreters.destroy(interpreter)
assert not errors, errors
assert 4 * MIB <= t.peak_growth_bytes < 80 * MIB and t.threads >= 3, t
life = pyhost.snapshot()
assert life.total_peak_bytes >= t.peak_bytes
print("tracked")
