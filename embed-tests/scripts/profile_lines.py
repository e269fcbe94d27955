"""pyhost.profile: lines that are known to add, to peak or to do neither, in every way that a function may run.

A line that ends in a comment `# added peak [hits]`, in MiB, must have these figures; every other line of a profiled function that is
reached must have added nothing: 0 bytes for those marked `# exactly`, else less than 64 KiB.
"""

import asyncio
import inspect
import mmap
import sys
import threading
import time

import pyhost

try:
    import numpy
except ImportError:
    numpy = None

MIB = 1 << 20
KEPT = []
SLACK = 64 << 10


@pyhost.profile
def plain(n):
    x = 1
    y = x  # exactly
    pass  # exactly
    block = bytearray(10 * MIB)  # 10 10 1
    del block  # -10 0 1
    len(bytes(20 * MIB))  # 0 20 1
    rows = [bytes(1000) for _ in range(n)]  # 12 12 1
    KEPT.append(rows)
    return bytearray(MIB)  # 1 1 1


@pyhost.profile
def loop():
    for number in range(8):  # 0 0
        KEPT.append(bytearray(2 * MIB))  # 16 2 8
        number += 1
    while len(KEPT) > 1:  # 0 0
        KEPT.pop()  # -16 0 8


@pyhost.profile
def maps():
    area = mmap.mmap(-1, 32 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # 0 0 1
    area.write(bytes(8 * MIB))  # 8 16 1
    area.close()  # -8 0 1


@pyhost.profile
def map_that_goes(data):
    area = mmap.mmap(-1, 16 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); area.write(data); area.close()  # 0 16 1


@pyhost.profile
def arrays(numpy):
    kept = numpy.ones(4 * MIB // 8)  # 4 4 1
    kept = (kept + 1).sum()  # -4 4 1
    return kept


@pyhost.profile
def recursive(depth):
    block = bytearray(MIB)  # 4 1 4
    if depth > 1:
        recursive(depth - 1)  # 0 3 3
    return len(block)


@pyhost.profile
def generator():
    block = bytearray(3 * MIB)  # 3 3 1
    yield 1
    got = yield bytearray(2 * MIB)  # 2 2 1
    del block  # -3 0 1
    yield got


@pyhost.profile
def thrown():
    try:
        yield 1
    except ValueError:
        KEPT.append(bytearray(5 * MIB))  # 5 5 1
    yield 2


@pyhost.profile
def handled():
    try:
        block = bytearray(4 * MIB)  # 4 4 1
        raise ValueError
    except ValueError:
        block = None  # -4 0 1
    return block


@pyhost.profile
def raising():
    block = bytearray(6 * MIB)  # 6 6 1
    [][len(block)]


@pyhost.profile
async def coroutine(size):
    block = bytearray(size * MIB)  # 8 5 2
    await asyncio.sleep(0.01)
    del block  # -8 0 2


@pyhost.profile
def traces():
    block = bytearray(2 * MIB); sys.settrace(follow)  # 2 2 1
    other = bytearray(5 * MIB)  # 5 5 1
    sys.settrace(None); del other  # -5 0 1
    sys.setprofile(ignore); other = bytearray(4 * MIB)  # 4 4 1
    sys.setprofile(None); del other  # -4 0 1
    return block


def follow(*_):
    return follow


def ignore(*_):
    pass


@pyhost.profile
def traces_in_a_thread():
    block = bytearray(2 * MIB); sys.settrace(None)  # 2 2 1
    return block


@pyhost.profile
def monitors():
    tools = sys.monitoring; block = bytearray(2 * MIB); tools.use_tool_id(1, "other"); tools.set_events(1, tools.events.LINE)  # 2 2 1
    more = bytearray(3 * MIB)  # 3 3 1
    tools.set_events(1, 0); tools.free_tool_id(1); del more  # -3 0 1
    return block


@pyhost.profile
def threaded():
    block = bytearray(7 * MIB)  # 7 7 1
    return block


class Methods:
    @pyhost.profile
    @classmethod
    def of_class(cls):
        return bytearray(2 * MIB)  # 2 2 1

    @staticmethod
    @pyhost.profile
    def static():
        return bytearray(3 * MIB)  # 3 3 1


@pyhost.profile
def beside():
    block = bytearray(MIB)
    area = mmap.mmap(-1, MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    thread = threading.Thread(target=KEPT.extend, args=([bytes(1000) for _ in range(9)],)); thread.start(); thread.join()  # shared
    return block, area


def inner():
    KEPT.append(bytearray(2 * MIB))


@pyhost.profile
def outer():
    inner()  # 2 2 1
    nested()  # 0 5 1


@pyhost.profile
def nested():
    bytearray(5 * MIB)  # 0 5 1


@pyhost.profile
def exact():
    a = None  # exactly
    for _ in range(200):  # exactly
        a = a  # exactly
    a = "some text"  # exactly
    if a is None:  # exactly
        return 2
    try:
        a = a  # exactly
    finally:
        a = None  # exactly
    return a  # exactly


def long_function():
    """A function whose lines and offsets are above 256, where CPython makes an int for each event."""
    body = "\n".join("    a = None  # exactly" for _ in range(400))
    names = {}
    exec(compile(f"def far():\n{body}\n    return a  # exactly", "far", "exec"), names)
    return pyhost.profile(names["far"])


def check(function, source=None):
    """Compares the figures of a function with its comments."""
    function = getattr(function, "__func__", function)
    lines, first = inspect.getsourcelines(function.__wrapped__ if hasattr(function, "__wrapped__") else function)
    rows = {row["line"]: row for row in function.profile.rows}
    assert rows, function
    # Blocks of pymalloc lie in arenas, which all counts once.
    is_pooled = pyhost.memory_stats()["allocator"] == "pymalloc"
    for number, line in enumerate(lines, first):
        row, comment = rows.get(number), line.partition("# ")[2].split()
        if row is None:
            assert not comment or comment == ["exactly"], (function, number, line)
            continue
        shown = f"{function.__name__}:{number} {line.strip()}: {row}"
        if comment == ["exactly"]:
            assert row["growth_bytes"] == 0 and row["peak_growth_bytes"] < 4096, shown
            continue
        added, peak, *hits = map(int, comment or (0, 0))
        # Blocks take up to a fifth more.
        assert abs(row["growth_bytes"] - added * MIB) <= SLACK + abs(added) * MIB / 5, shown
        if comment:
            assert abs(row["peak_growth_bytes"] - peak * MIB) <= SLACK + peak * MIB / 5, shown
        assert not hits or row["hits"] == hits[0], shown
        assert is_pooled or sum(row["accounts"].values()) == row["growth_bytes"], shown


def main():
    plain(10_000)
    KEPT.clear()
    KEPT.append(None)
    loop()
    maps()
    data = bytes(16 * MIB)
    time.sleep(0.005)  # it is looked at most once a millisecond
    map_that_goes(data)
    if numpy:
        arrays(numpy)
        check(arrays)
        assert arrays.profile.rows[0]["accounts"]["numpy"] >= 4 * MIB, arrays.profile
    recursive(4)
    steps = generator()
    first = next(steps)
    other = bytearray(9 * MIB)  # between two steps: of no line
    assert first == 1 and len(next(steps)) == 2 * MIB and steps.send(3) == 3
    del steps, other
    steps = thrown()
    next(steps)
    assert steps.throw(ValueError()) == 2
    del steps
    handled()
    try:
        raising()
    except IndexError:
        pass

    async def both():
        await asyncio.gather(coroutine(3), coroutine(5))

    asyncio.run(both())
    for target in (threaded, traces_in_a_thread):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    time.sleep(0.05)  # what a thread frees behind its end
    Methods.of_class(), Methods.static()
    outer()
    traces()
    exact()
    if hasattr(sys, "monitoring"):
        monitors()
        check(monitors)
    far = long_function()
    assert far() is None
    for function in (plain, loop, maps, map_that_goes, recursive, generator, thrown, handled, raising, coroutine, threaded, traces, traces_in_a_thread,
                     Methods.of_class, Methods.static, outer, nested, exact):
        check(function)
    grown = [row for row in far.profile.rows if row["growth_bytes"]]
    assert len(far.profile.rows) == 401 and not grown, grown
    beside()
    shared = [row["other_threads"] for row in beside.profile.rows]
    assert shared == [False, False, True, False], beside.profile
    assert not any(row["other_threads"] for row in plain.profile.rows + maps.profile.rows), plain.profile
    assert "(*: with what other threads did meanwhile)" in str(beside.profile) and "(*" not in str(raising.profile)
    text, html = str(plain.profile), plain.profile._repr_html_()
    assert "block = bytearray(10 * MIB)" in text and "above begin" in text and "<td" in html, text
    try:
        pyhost.profile(len)
    except TypeError as error:
        assert "Python code" in str(error)
    else:
        assert False
    print("profiled")


if __name__ == "__main__":
    main()
