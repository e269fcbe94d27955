"""Units of work with a budget of 4 MiB each: tasks, threads, generators, jobs of a pool, greenlets. Ten of them take more.

    pyhost units.py KIND SEED

The others take up to 600 KB each, in small and in large blocks, and wait for each other while all is live. Prints a line of JSON: the
units that took too much, those that got MemoryError, what else they ended with; the sum of the units' live bytes, its standard
error, and what the process grew by meanwhile.
"""

import asyncio
import json
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pyhost

BUDGET, GREEDY = "4M", 10


class Run:
    """What all units of a run share."""

    def __init__(self, count, seed):
        self.random = random.Random(seed)
        self.greedy = set(self.random.sample(range(count), GREEDY))
        self.plans = [self._plan(number in self.greedy) for number in range(count)]
        self.failed, self.others, self.units, self.lock = [], [], [], threading.Lock()
        self.kept = [None] * count
        self.ready = 0
        self.before = None

    def _plan(self, is_greedy):
        # Kinds: small objects, large blocks, one huge block, a long call of C that makes small objects.
        kind = self.random.choice(("small", "large", "huge", "call") if is_greedy else ("small", "large", "both"))
        return kind, self.random.randrange(7_000_000, 12_000_000) if is_greedy else self.random.randrange(20_000, 600_000)

    def steps(self, number):
        """Allocates what the plan says; a step at a time."""
        kind, left = self.plans[number]
        mine = self.kept[number] = []
        if kind == "huge":
            mine.append(bytearray(left))
            left = 0
        if kind == "call":
            mine.append(json.loads("[" + "[1.5,2.5]," * (left // 150) + "0]"))
            left = 0
        while left > 0:
            yield
            if kind == "large" or kind == "both" and left % 2:
                size = min(left, self.random.randrange(10_000, 200_000))
                mine.append(bytes(size))
                left -= size
            else:
                block = ["%d %s" % (index, "x" * 80) for index in range(100)]
                mine.append(block)
                left -= sum(map(sys.getsizeof, block)) + sys.getsizeof(block)

    def ended(self, number, error):
        self.kept[number] = None if error else self.kept[number]
        with self.lock:
            if isinstance(error, MemoryError):
                self.failed.append(number)
            elif error is not None:
                self.others.append(f"{number}: {error!r}")

    def begin(self):
        self.before = pyhost.memory_stats()["total"]["live_bytes"]

    def look(self):
        """All is live: the figures."""
        live = pyhost.memory_stats()["total"]["live_bytes"] - self.before
        total = sum(unit.live_bytes for unit in self.units)
        error = sum(unit.error_bytes ** 2 for unit in self.units) ** 0.5
        print(json.dumps({"greedy": sorted(self.greedy), "failed": sorted(self.failed), "others": self.others, "sum": total,
                          "error": error, "growth": live}), flush=True)


def of_tasks(run, work=None):
    """Tasks that do the work themselves, or await what `work` returns for a task's number."""
    async def steps(number):
        for _ in run.steps(number):
            await asyncio.sleep(0)

    async def unit(number, begin, end):
        with pyhost.budget(BUDGET, name=f"task {number}") as budget:
            run.units.append(budget)
            await begin.wait()
            try:
                await (work or steps)(number)
            except BaseException as error:
                run.ended(number, error)
            else:
                run.ended(number, None)
            run.ready += 1
            await end.wait()

    async def main():
        begin, end = asyncio.Event(), asyncio.Event()
        tasks = [asyncio.ensure_future(unit(number, begin, end)) for number in range(len(run.plans))]
        await asyncio.sleep(0.05)
        run.begin()
        begin.set()
        while run.ready < len(tasks):
            await asyncio.sleep(0.01)
        run.look()
        end.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())


def of_pool(run):
    """Tasks whose work is done by the threads of a pool."""
    def all_steps(number):
        for _ in run.steps(number):
            pass

    with ThreadPoolExecutor(8) as pool:
        of_tasks(run, lambda number: asyncio.get_running_loop().run_in_executor(pool, all_steps, number))


def of_threads(run):
    """Threads, each with a thread of its own that does half of them."""
    count = len(run.plans)
    begin, ready, end = threading.Barrier(count + 1), threading.Barrier(count + 1), threading.Barrier(count + 1)

    def work(number):
        try:
            for _ in run.steps(number):
                pass
        except BaseException as error:
            run.ended(number, error)
        else:
            run.ended(number, None)

    def unit(number):
        with pyhost.budget(BUDGET, name=f"thread {number}") as budget:
            run.units.append(budget)
            begin.wait()
            if number % 2:
                inner = threading.Thread(target=work, args=(number,))
                inner.start()
                inner.join()
            else:
                work(number)
            ready.wait()
            end.wait()

    threads = [threading.Thread(target=unit, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    run.begin()
    begin.wait()
    ready.wait()
    run.look()
    end.wait()
    for thread in threads:
        thread.join()


def of_generators(run):
    """Generators that take turns in one thread, each a unit by the decorator."""
    @pyhost.budget(BUDGET)
    def unit(number):
        run.units.append(pyhost._current_budget())
        for _ in run.steps(number):
            yield

    generators = [unit(number) for number in range(len(run.plans))]
    run.begin()
    left = dict(enumerate(generators))
    while left:
        for number in list(left):
            try:
                next(left[number])
            except StopIteration:
                run.ended(number, left.pop(number) and None)
            except BaseException as error:
                run.ended(number, error)
                del left[number]
    run.look()


def of_greenlets(run):
    import gevent
    from gevent.event import Event

    begin, end = Event(), Event()

    def unit(number):
        with pyhost.budget(BUDGET, name=f"greenlet {number}") as budget:
            run.units.append(budget)
            begin.wait()
            try:
                for _ in run.steps(number):
                    gevent.sleep(0)
            except BaseException as error:
                run.ended(number, error)
            else:
                run.ended(number, None)
            run.ready += 1
            end.wait()

    greenlets = [gevent.spawn(unit, number) for number in range(len(run.plans))]
    gevent.sleep(0.05)
    run.begin()
    begin.set()
    while run.ready < len(greenlets):
        gevent.sleep(0.01)
    run.look()
    end.set()
    gevent.joinall(greenlets)


KINDS = {"tasks": (of_tasks, 1000), "threads": (of_threads, 50), "generators": (of_generators, 200), "pool": (of_pool, 200),
         "greenlets": (of_greenlets, 500)}

if __name__ == "__main__":
    function, units = KINDS[sys.argv[1]]
    function(Run(units, int(sys.argv[2])))
