"""Below a cap the unit that has most gets the error, though others ask for more while it is full: tasks and threads, each with a budget."""

import asyncio
import sys
import threading
import time

import pyhost

INNOCENT, STEPS = 30, 250
MIB = 1 << 20
found = []


def fill(kept, unit):
    while unit.live_bytes < 70 * MIB:
        kept.append(["%d of the greedy" % number for number in range(400)])


def add(kept, count):
    kept.append(["%d of them" % number for number in range(count)])


def note(who, error):
    found.append((who, pyhost.last_refusal()["scope"], str(error)))


async def innocent():
    for _ in range(STEPS):
        try:
            with pyhost.budget("32M", name="innocent"):
                kept = []
                for _ in range(3):
                    add(kept, 900)
                    await asyncio.sleep(0)
        except MemoryError as error:
            note("innocent", error)


async def greedy():
    for _ in range(3):
        kept = []
        try:
            with pyhost.budget("128M", name="greedy") as unit:
                fill(kept, unit)
                while True:
                    add(kept, 700)
                    await asyncio.sleep(0)
        except MemoryError as error:
            note("greedy", error)


def everybody():
    return [greedy(), *(innocent() for _ in range(INNOCENT))]


async def tasks():
    await asyncio.gather(*everybody())


def step_by_step(work):
    """Runs it in a thread, without an event loop: asyncio.sleep(0) needs none."""
    try:
        while True:
            work.send(None)
            time.sleep(0)
    except StopIteration:
        pass


def threads():
    started = [threading.Thread(target=step_by_step, args=(work,)) for work in everybody()]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


asyncio.run(tasks()) if sys.argv[1] == "tasks" else threads()
guilty = [row for row in found if row[0] == "greedy"]
print(len(guilty), len(found) - len(guilty))
for row in guilty:
    print(*row)
