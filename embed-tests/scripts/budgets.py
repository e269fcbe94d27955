"""Budgets of units: nested, in generators, tasks, threads, pools and a forked child, by middleware, and with lines sampled."""

import asyncio
import gc
import os
import sys
import threading

import pyhost

MIB = 1 << 20
unit = pyhost._current_budget


def is_refused(function, *arguments):
    try:
        function(*arguments)
    except MemoryError:
        return True
    return False


def nested():
    with pyhost.budget("64M", name="outer") as outer:
        with pyhost.budget("128M", name="inner") as inner:
            block = bytearray(30 * MIB)
            assert is_refused(bytearray, 40 * MIB)
            refusal = pyhost.last_refusal()
            assert refusal["scope"] == "budget" and refusal["cap_bytes"] == 64 * MIB, refusal
            assert (refusal["budget"]["name"], refusal["budget"]["bytes"]) == ("outer", 64 * MIB), refusal
            assert refusal["size_bytes"] >= 40 * MIB and refusal["how"] == "null" and "bytearray" not in refusal["traceback"]
            assert (inner.refused, outer.refused, outer.name, outer.size_bytes) == (0, 1, "outer", 64 * MIB)
        assert unit() is outer
        assert all(30 * MIB <= budget.live_bytes <= 32 * MIB for budget in (inner, outer)), (inner.live_bytes, outer.live_bytes)
    assert unit() is None
    del block
    assert inner.live_bytes < MIB and outer.live_bytes < MIB and 30 * MIB <= outer.peak_bytes <= 32 * MIB
    assert repr(outer) == "<pyhost.budget of 64.0 MiB outer>"


def small():
    """The main thread's error has a text; the handler has room."""
    with pyhost.budget("16M", name="small") as budget:
        kept, text = [], ""
        try:
            for number in range(1_000_000):
                kept.append([number] * 9)
        except MemoryError as error:
            text = str(error)
            handled = [str(number) for number in range(1000)]
        assert len(handled) == 1000 and budget.refused == 1
        assert text == "" or text.startswith("budget of 16.0 MiB small reached: "), text
        assert 15 * MIB < budget.live_bytes < 18 * MIB and budget.error_bytes < 2 * MIB, budget.live_bytes
        del kept, handled
        assert budget.live_bytes < MIB


@pyhost.budget("8M")
def items(count):
    kept = []
    for number in range(count):
        kept.append(bytes(50_000))
        if (yield unit().name) == "stop":
            raise KeyError
    return "end"


def generators():
    one, two = items(4), items(4)
    assert next(one) == next(two) == one.send(1) == "items" and unit() is None
    two.close()
    try:
        one.send("stop")
        raise AssertionError
    except KeyError:
        assert unit() is None
    assert is_refused(list, items(1000)) and len(list(items(100))) == 100
    abandoned = items(4)
    next(abandoned)
    del abandoned
    gc.collect()
    assert unit() is None


@pyhost.budget("8M")
async def later_items(count):
    kept = []
    for _ in range(count):
        kept.append(bytes(50_000))
        await asyncio.sleep(0)
        yield unit()


@pyhost.budget("8M")
async def work(size):
    block = bytearray(size)
    await asyncio.sleep(0)
    return unit().live_bytes - len(block)


async def tasks():
    async for item in later_items(9):
        assert item is not unit() is None
    try:
        async for item in later_items(1000):
            pass
        raise AssertionError
    except MemoryError:
        pass
    done = await asyncio.gather(*[work(9 * MIB if number in (3, 7) else MIB) for number in range(20)], return_exceptions=True)
    assert [number for number, error in enumerate(done) if isinstance(error, MemoryError)] == [3, 7], done
    with pyhost.budget("16M") as budget:
        assert await asyncio.get_running_loop().run_in_executor(None, unit) is budget
        late = asyncio.ensure_future(asyncio.sleep(0.01, None))
        late = asyncio.ensure_future(after(late))
        await asyncio.sleep(0)
    # It began in the block, which has ended.
    assert len(await late) == 40 * MIB and budget.live_bytes < MIB
    assert await asyncio.get_running_loop().run_in_executor(None, unit) is None


async def after(future):
    await future
    return bytearray(40 * MIB)


def threads():
    found = []

    class Own(threading.Thread):
        def run(self):
            found.append(unit())

    with pyhost.budget("16M") as budget:
        for thread in (Own(), threading.Thread(target=lambda: found.append(unit()))):
            thread.start()
            thread.join()
            assert "run" not in vars(thread)
    Own().start()
    while len(found) < 3:
        pass
    assert found == [budget, budget, None], found


def fork():
    with pyhost.budget("64M") as budget:
        block = bytearray(20 * MIB)
        child = os.fork()
        if child == 0:
            is_kept = is_refused(bytearray, 60 * MIB)
            del block
            os._exit(0 if is_kept and budget.live_bytes < MIB else 1)
        assert os.waitpid(child, 0)[1] == 0 and budget.live_bytes >= 20 * MIB


def middleware():
    def app(environ, start_response):
        block = bytearray(environ["size"])
        start_response("200 OK", [])
        return [b"%d" % len(block)]

    def ask(size, path):
        answer = []
        body = wsgi({"size": size, "PATH_INFO": path, "REQUEST_METHOD": "GET"}, lambda *started: answer.append(started[:2]))
        parts = b"".join(body)
        getattr(body, "close", int)()
        return answer[-1][0][:3], dict(answer[-1][1]).get("Retry-After"), parts

    wsgi = pyhost.wsgi.Budget(app, "8M")
    assert ask(MIB, "/a") == ("200", None, b"%d" % MIB)
    assert ask(9 * MIB, "/b")[:2] == ("503", "1")
    assert sorted(wsgi.peaks) == ["GET /a", "GET /b"] and wsgi.peaks["GET /a"] >= MIB, wsgi.peaks

    async def asgi_app(scope, receive, send):
        block = bytearray(scope["size"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"%d" % len(block)})

    async def ask_async(size):
        sent = []

        async def send(message):
            sent.append(message)

        await asgi({"type": "http", "method": "GET", "path": "/", "size": size}, None, send)
        return sent[0]["status"], dict(sent[0]["headers"]).get(b"retry-after")

    asgi = pyhost.asgi.Budget(asgi_app, size="8M")
    assert asyncio.run(ask_async(MIB)) == (200, None)
    assert asyncio.run(ask_async(9 * MIB)) == (503, b"1")


def while_another_thread_collects():
    """The collector waits in a finalizer of another thread: what is far beyond the budget is refused all the same."""
    waits, go_on = threading.Event(), threading.Event()

    class Waits:
        def __del__(self):
            waits.set()
            go_on.wait()

    def collect():
        cycle = Waits()
        cycle.own = cycle
        del cycle
        gc.collect()

    thread = threading.Thread(target=collect)
    thread.start()
    waits.wait()
    try:
        with pyhost.budget("8M"):
            assert is_refused(bytearray, 100 * MIB)
        with pyhost.budget("8M") as budget:
            assert is_refused(lambda: ["%d is a string" % number for number in range(1_000_000)])
            assert budget.peak_bytes < 24 * MIB, budget.peak_bytes
    finally:
        go_on.set()
        thread.join()


def misuse():
    budget = pyhost.budget(1 << 20)
    assert budget.name is None and budget.live_bytes == 0
    with budget:
        try:
            budget.__enter__()
            raise AssertionError
        except RuntimeError as error:
            assert "is running already" in str(error)
    with budget:
        pass
    for size, name in ((0, None), ("x", None), (None, None), ("1M", 3)):
        try:
            pyhost.budget(size, name=name)
            raise AssertionError(size)
        except (TypeError, ValueError) as error:
            assert str(error).startswith("budget: "), error


def lines():
    """Lines are sampled at their own interval."""
    if pyhost.lines() is None:
        return
    with pyhost.budget("64M") as budget:
        with pyhost.track() as track:
            kept = [bytes(1000) for _ in range(20_000)]
    here = [row for row in pyhost.lines()["live"] if row["stack"] and row["stack"][0]["function"].endswith(("lines", "<listcomp>"))]
    found, error = sum(row["bytes"] for row in here), sum(row["error_bytes"] for row in here)
    true = track.growth_bytes
    assert true > 1000 * len(kept)
    assert abs(found - true) < 2 * error + 400_000, (found, error)
    assert abs(budget.live_bytes - true) < 5 * budget.error_bytes + 400_000, budget.live_bytes


nested()
small()
generators()
asyncio.run(tasks())
threads()
fork()
middleware()
while_another_thread_collects()
misuse()
lines()
print("ran")
sys.exit(0)
