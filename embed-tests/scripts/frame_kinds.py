"""Compares the calls that a refusal names with those that Python's own frames give, for each kind of
frame. Run with a cap. Prints "every kind of frame", or the kinds that differ."""

import asyncio
import contextlib
import functools
import gc
import signal
import sys
import threading
import types
import weakref

import pyhost

HUGE = 1 << 40
FEWEST = 8  # calls that a refusal names at least, where there are as many
differing = []
kinds = []


def calls(frame):
    while frame is not None:
        yield "%s:%d in %s" % (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back


def probe(kind):
    """Has a request refused; the calls that the host saw must be those of the caller."""
    try:
        bytearray(HUGE)
    except MemoryError:
        pass
    seen = pyhost.last_refusal()["traceback"]
    kinds.append(kind)
    code = probe.__code__
    expected = list(calls(sys._getframe(1)))
    first = "%s:%d in probe" % (code.co_filename, code.co_firstlineno + 3)
    rest = seen[1:]
    enough = len(rest) >= min(len(expected), FEWEST)
    if seen[:1] != [first] or rest != expected[: len(rest)] or not enough:
        differing.append((kind, seen, [first] + expected))
    return True


class Attributes:
    @property
    def asked(self):
        return probe("property")

    def __getattr__(self, name):
        return probe("__getattr__")

    def __len__(self):
        return probe("__len__") + 1

    def __lt__(self, other):
        return probe("__lt__")

    def __call__(self):
        return probe("__call__")


class Dying:
    def __del__(self):
        probe("__del__")


class Base:
    def __init_subclass__(cls):
        probe("__init_subclass__")


def generate():
    yield probe("generator")
    yield from (probe("generator expression") for _ in range(2))


async def wait():
    await asyncio.sleep(0)
    probe("coroutine")
    async for _ in produce():
        probe("body of async for")


async def produce():
    yield probe("asynchronous generator")


@types.coroutine
def suspended():
    probe("generator as a coroutine")
    yield
    probe("generator as a coroutine, resumed")


async def on_suspended():
    await suspended()
    probe("resumed by send")


@contextlib.contextmanager
def managed():
    probe("before a block")
    yield
    probe("after a block")


def recursive(depth):
    return recursive(depth - 1) if depth else probe("recursion")


def all_kinds():
    probe("function")
    (lambda: probe("lambda"))()
    sorted([2, 1], key=lambda item: probe("called from C"))
    functools.reduce(lambda a, b: probe("called from reduce"), [1, 2])
    list(map(probe, ["called by map"]))
    [probe("comprehension") for _ in range(2)]
    {probe("nested comprehension") for _ in range(2) for _ in [1 for _ in "a"]}

    class Body:
        here = probe("class body")

    class Derived(Base):
        pass

    exec("probe('exec')", {"probe": probe})
    eval("probe('eval')")
    thing = Attributes()
    thing.asked, thing.missing, len(thing), thing < 1, thing()
    for _ in generate():
        pass
    with managed():
        probe("inside a block")
    recursive(60)
    del [Dying()][0]
    target = set()
    reference = weakref.ref(target, lambda _: probe("callback of a weak reference"))
    del target
    gc.callbacks.append(lambda phase, details: probe("callback of the collector"))
    gc.collect()
    gc.callbacks.clear()
    signal.signal(signal.SIGUSR1, lambda number, frame: probe("signal handler"))
    signal.raise_signal(signal.SIGUSR1)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(wait())
    loop.close()
    started = on_suspended()
    started.send(None)
    with contextlib.suppress(StopIteration):
        started.send(None)
    try:
        1 / 0
    except ZeroDivisionError:
        probe("handler")
    finally:
        probe("finally")
    thread = threading.Thread(target=probe, args=["thread"])
    thread.start()
    thread.join()


all_kinds()
# The frames' instructions are others while they are traced, or after many rounds.
sys.settrace(lambda *arguments: None)
all_kinds()
sys.settrace(None)
if sys.version_info >= (3, 12):
    sys.monitoring.use_tool_id(0, "frame kinds")
    sys.monitoring.set_events(0, sys.monitoring.events.LINE | sys.monitoring.events.PY_START)
    all_kinds()
    sys.monitoring.set_events(0, 0)
for _ in range(60):
    all_kinds()

for kind, seen, expected in differing[:5]:
    print(kind, "gave\n ", "\n  ".join(seen), "\nexpected\n ", "\n  ".join(expected))
if len(set(kinds)) < 35:
    print("too few kinds:", len(set(kinds)))
elif not differing:
    print("every kind of frame")
