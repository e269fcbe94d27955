"""pyhost.track() and pyhost.snapshot() against what blocks are known to take; prints "tracked"."""
import asyncio
import functools
import gc
import json
import mmap
import pickle
import threading

import pyhost

MIB = 1 << 20
SLACK = 2 * MIB  # large blocks are rounded up, an eighth at most of the 8 MiB here, and hooks pad them
ONE = MIB - 256  # bytes that have room in 1 MiB: without a GIL a larger block than that takes 1.5


def near(figure, mebibytes, what):
    # A little less: what Python calls __enter__ by is freed in the block.
    assert mebibytes * MIB - 4096 <= figure <= mebibytes * MIB + SLACK, (what, figure, mebibytes)


def take(mebibytes):
    """Has so much live for a moment."""
    return len(bytes(mebibytes * MIB))


def refuses(error, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except error as raised:
        return str(raised)
    raise AssertionError(f"{function} raised no {error.__name__}")


def figures_of_a_block():
    gc.collect()  # or one in the block frees what was there before
    with pyhost.track() as t:
        take(8)
        near(t.peak_growth_bytes, 8, "while it runs")
        kept = [bytes(MIB // 8) for _ in range(24)]
    near(t.peak_growth_bytes, 8, "peak")
    near(t.growth_bytes, 3, "growth")
    assert t.peak_bytes >= t.peak_growth_bytes and t.seconds > 0 and t.allocations >= 2, t
    figures = t.peak_growth_bytes, t.growth_bytes, t.allocations, t.seconds
    del kept
    take(8)
    assert figures == (t.peak_growth_bytes, t.growth_bytes, t.allocations, t.seconds), "changed after the block"
    account = max(t.accounts.values(), key=lambda account: account.growth_bytes)
    near(account.peak_growth_bytes, 8, "account")
    assert account.peak_bytes - account.peak_growth_bytes >= 0 and account.growth_blocks >= 16
    assert set(t.accounts) == {"raw", "mem", "obj", "arena", "numpy", "native", "mapped"}
    assert "above the begin" in str(t) and "; resident peak " in str(t) and ", resident peak " in repr(t), (str(t), repr(t))
    assert t.resident_peak_bytes >= t.resident_peak_growth_bytes, t
    assert "above the begin" in str(t) and "pyhost.track of total" in repr(t), str(t)
    # One that only frees.
    data = bytes(4 * MIB)
    with pyhost.track() as t:
        del data
    assert -6 * MIB < t.growth_bytes <= -4 * MIB and t.peak_growth_bytes < MIB, t


def of_what_is_mapped():
    def work(mebibytes):
        touched = mmap.mmap(-1, mebibytes * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for place in range(0, len(touched), mmap.PAGESIZE):
            touched[place] = 1
        touched.close()

    # The peak of a block inside counts in the one around it, and none that is over in a later one.
    with pyhost.track() as outer:
        with pyhost.track() as inner:
            work(96)
            assert inner.resident_peak_growth_bytes > 90 * MIB, inner
        with pyhost.track() as after:
            work(16)
    assert inner.peak_growth_bytes < 8 * MIB, inner
    for t, mebibytes in (outer, 96), (inner, 96), (after, 16):
        near = t.resident_peak_growth_bytes // MIB
        assert mebibytes * 15 // 16 <= near <= mebibytes + 8, (t, near)


def of_an_account():
    with pyhost.track(account="mem") as mem, pyhost.track(account="obj") as obj:
        take(8)
    assert mem.account == "mem" and mem.peak_growth_bytes < MIB, mem
    if pyhost.memory_stats()["accounts"]["obj"]["active"]:
        near(obj.peak_growth_bytes, 8, "obj")
    assert obj.peak_bytes == obj.accounts["obj"].peak_bytes


def used_wrongly():
    t = pyhost.track()
    assert "not entered" in repr(t) == str(t)
    assert "nothing was measured" in refuses(RuntimeError, lambda: t.peak_bytes)
    assert "nothing was measured" in refuses(RuntimeError, lambda: t.accounts)
    with t:
        assert "running already" in refuses(RuntimeError, t.__enter__)
    first = t.seconds
    with t:  # one block after another
        take(2)
    near(t.peak_growth_bytes, 2, "second use")
    t.__exit__(None, None, None)
    near(t.peak_growth_bytes, 2, "a second end changes nothing")
    assert first >= 0
    assert "account must be" in refuses(ValueError, pyhost.track, account="heap")
    refuses(TypeError, pyhost.track, 3)
    refuses(TypeError, pyhost.track, account="obj", size=3)
    # One that ends by its object's end, and one by an exception.
    u = pyhost.track()
    u.__enter__()
    del u
    try:
        with pyhost.track() as v:
            take(3)
            raise KeyError
    except KeyError:
        near(v.peak_growth_bytes, 3, "exception")


def nested_and_overlapping():
    with pyhost.track() as outer:
        with pyhost.track() as first:
            take(8)
        with pyhost.track() as second:
            take(2)
            kept = bytes(1 * MIB)
            with pyhost.track() as inner:
                pass
            take(4)
    near(outer.peak_growth_bytes, 8, "outer")
    near(first.peak_growth_bytes, 8, "first")
    near(second.peak_growth_bytes, 5, "second")
    assert inner.peak_growth_bytes < 64 * 1024, inner
    del kept
    a, b = pyhost.track(), pyhost.track()
    a.__enter__()
    take(3)
    b.__enter__()
    take(6)
    a.__exit__(None, None, None)
    take(8)
    b.__exit__(None, None, None)
    near(a.peak_growth_bytes, 6, "a")
    near(b.peak_growth_bytes, 8, "b")
    many = [pyhost.track() for _ in range(300)]
    for t in many:
        t.__enter__()
    take(2)
    for t in many[::2] + many[1::2]:
        t.__exit__(None, None, None)
        near(t.peak_growth_bytes, 2, "one of many")


def resets():
    with pyhost.track() as t:
        take(8)
        pyhost.reset_peak_memory_stats()
        low = pyhost.snapshot()
        take(2)
    near(t.peak_growth_bytes, 8, "a reset is not the block's")
    assert low.total_peak_bytes - low.total_live_bytes < MIB, low


def threads():
    begin, end = threading.Barrier(3), threading.Barrier(3)

    def work():
        begin.wait()
        data = [bytes(ONE) for _ in range(2)]
        end.wait()
        del data

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    with pyhost.track() as t:
        begin.wait()
        end.wait()
    for worker in workers:
        worker.join()
    near(t.peak_growth_bytes, 4, "threads")
    assert t.threads == 2 and t.other_allocations >= 4, (t.threads, t.other_allocations)
    assert "other threads" in str(t)
    with pyhost.track() as t:
        take(1)
    assert (t.threads, t.other_allocations) == (0, 0), t

    # Each thread's own block, all at once: the others' bytes are in it, never fewer than its own.
    def own(index):
        for _ in range(30):
            with pyhost.track() as t:
                take(1 + index)
            results[index].append(t.peak_growth_bytes)

    results = [[] for _ in range(4)]
    workers = [threading.Thread(target=own, args=(index,)) for index in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for index, peaks in enumerate(results):
        # Another's megabytes may have been live when it began, and be freed in it.
        assert len(peaks) == 30 and max(peaks) >= (1 + index) * MIB and max(peaks) <= 13 * MIB, peaks


@pyhost.track
def plain(mebibytes):
    """Its text."""
    take(mebibytes)
    return mebibytes


class Method:
    @pyhost.track(account="obj")
    def method(self, mebibytes):
        return plain(mebibytes)


@pyhost.track()
def generator():
    take(2)
    received = yield 1
    take(received)
    try:
        yield 2
    except KeyError:
        yield 3
    return 4


@pyhost.track()
async def coroutine(mebibytes):
    await asyncio.sleep(0)
    take(mebibytes)
    return mebibytes


@pyhost.track()
async def items():
    for number in range(2):
        try:
            received = yield number
        except KeyError:
            received = yield "caught"
        take(received or 1)


def decorators():
    assert plain.last_track is None
    assert plain(5) == 5 and plain.__name__ == "plain"
    near(plain.last_track.peak_growth_bytes, 5, "plain")
    earlier = plain.last_track
    assert Method().method(2) == 2 and Method.method.last_track.account == "obj"
    assert plain.last_track is not earlier
    partial = pyhost.track(functools.partial(plain, 3))
    assert partial() == 3
    near(partial.last_track.peak_growth_bytes, 3, "partial")

    def to_the_end():
        return (yield from generator())

    steps = to_the_end()
    assert next(steps) == 1 and generator.last_track is None
    assert steps.send(6) == 2 and steps.throw(KeyError) == 3
    try:
        next(steps)
    except StopIteration as end:
        assert end.value == 4
    near(generator.last_track.peak_growth_bytes, 6, "generator")
    steps, generator.last_track = generator(), None
    next(steps)
    steps.close()
    near(generator.last_track.peak_growth_bytes, 2, "a generator that is closed")
    asyncio.run(asynchronous())


async def asynchronous():
    assert await coroutine(4) == 4
    near(coroutine.last_track.peak_growth_bytes, 4, "coroutine")
    await asyncio.gather(*(coroutine(1) for _ in range(200)))
    assert [item async for item in items()] == [0, 1]
    near(items.last_track.peak_growth_bytes, 1, "asynchronous generator")
    steps = items()
    assert await steps.asend(None) == 0 and await steps.asend(5) == 1 and await steps.athrow(KeyError) == "caught"
    await steps.aclose()
    near(items.last_track.peak_growth_bytes, 5, "asynchronous generator")


def snapshots():
    before = pyhost.snapshot()
    data = [bytes(ONE) for _ in range(4)]
    after = pyhost.snapshot()
    diff = before.diff(after)
    near(diff.total.growth_bytes, 4, "diff")
    near(after.total_live_bytes - before.total_live_bytes, 4, "live")
    assert diff.total.allocations >= 4 and diff.seconds >= 0 and len(diff) == 7
    assert diff["obj"].growth_bytes == after.accounts["obj"].live_bytes - before.accounts["obj"].live_bytes
    assert diff["total"] is diff.total and [row.account for row in diff] == list(before.accounts)
    assert after.diff(before).total.growth_bytes == -diff.total.growth_bytes
    refuses(KeyError, diff.__getitem__, "heap")
    refuses(TypeError, before.diff, 3)
    refuses(AttributeError, setattr, before, "time", 0)
    refuses(AttributeError, setattr, diff.total, "account", 0)
    refuses(TypeError, before.accounts.__setitem__, "obj", 0)
    refuses(TypeError, before.accounts.clear)
    for value in before, diff, diff.total, before.accounts["obj"]:
        again = pickle.loads(pickle.dumps(value))
        assert again == value and hash(again) == hash(value) and again is not value
    assert before != after and before != 3
    plain_values = json.loads(json.dumps([before.to_dict(), diff.to_dict()]))
    assert plain_values[0]["accounts"]["obj"]["live_bytes"] == before.accounts["obj"].live_bytes
    assert plain_values[1]["total"]["growth_bytes"] == diff.total.growth_bytes
    assert before.resident_bytes > MIB and before.peak_resident_bytes >= before.resident_bytes
    for table in str(diff), str(before):
        lines = table.splitlines()
        assert len({len(line) for line in lines[1:7]}) == 1, table  # aligned
        assert lines[0].startswith("account") and lines[-1].startswith("resident"), table
    assert "+4." in str(diff), str(diff)
    data.clear()


for check in (figures_of_a_block, of_what_is_mapped, of_an_account, used_wrongly, nested_and_overlapping, resets, threads, decorators,
              snapshots):
    check()
print("tracked")
