"""asyncio tasks hold what grows; the error is caught inside a task, by whoever awaits it, or around the loop."""

import gc

from growing import Plan, announce, finish, need, seed, work

[asyncio] = need("asyncio")


async def holds(size, event):
    data = bytes(size)
    await event.wait()
    return data


async def grows(size):
    data = []
    while True:
        data.append(bytes(size))
        if len(data) % 100 == 0:
            await asyncio.sleep(0)


async def grows_inside(size):
    data = []
    while True:
        try:
            data.append(bytes(size))
            await asyncio.sleep(0)
        except MemoryError:
            return 1


async def by_task(size):
    return await asyncio.create_task(grows_inside(max(size, 2000)))


async def by_awaiting(size):
    task = asyncio.create_task(grows(size))
    try:
        await task
    except MemoryError:
        return 1


async def by_gathering(size):
    results = await asyncio.gather(*(grows(size) for _ in range(4)), return_exceptions=True)
    return all(isinstance(result, MemoryError) for result in results) + 0


async def by_many(size):
    event, tasks = asyncio.Event(), []
    try:
        while True:
            # Large enough that waking all of them needs little beside what they hold.
            tasks.append(asyncio.ensure_future(holds(size + 500_000, event)))
            if len(tasks) % 20 == 0:
                await asyncio.sleep(0)
                # Each task keeps its own error: unless it looks, whoever makes them never stops.
                if any(task.done() for task in tasks[-20:]):
                    break
    except MemoryError:
        pass
    # Those that were refused their data have ended with an error of their own.
    event.set()
    while tasks:
        try:
            await tasks.pop()
        except MemoryError:
            pass
    return 1


async def by_queue(size):
    queue = asyncio.Queue()
    try:
        while True:
            queue.put_nowait([size] * size)
    except MemoryError:
        return 1


CASES = [(function, catches) for function in (by_task, by_awaiting, by_gathering, by_many, by_queue)
         for catches in (True,)] + [(grows, True), (grows, False)]
plan = Plan("async_tasks", seed(), CASES, (1000, 100_000))
function, catches = plan.choice
announce(1 if catches else None, 1, "%s; size %d" % (function.__name__, plan.size))
if plan.works_before:
    work()
caught = 0
if not catches:
    asyncio.run(function(plan.size))
try:
    caught += asyncio.run(function(plan.size))
except MemoryError:
    assert function is grows, "left %s" % function.__name__
    caught += 1
# A task, its error and the frames of its traceback are a cycle.
gc.collect()
finish(caught)
