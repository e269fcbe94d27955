"""Sites that run at the same time: the ledger has only their sum, so the blocks' own sizes are the truth."""

import asyncio
import threading

BLOCKS = {}


def first_of_two_threads():
    for number in range(500):
        BLOCKS["first_of_two_threads"].append(bytes(500 + number % 5))


def second_of_two_threads():
    for _ in range(250):
        BLOCKS["second_of_two_threads"].append(bytes(2_500))


async def first_of_two_tasks():
    for _ in range(200):
        BLOCKS["first_of_two_tasks"].append(bytes(1_500))
        await asyncio.sleep(0)


async def second_of_two_tasks():
    for _ in range(400):
        BLOCKS["second_of_two_tasks"].append(bytes(350))
        await asyncio.sleep(0)


def first_of_two_generators():
    while True:
        yield BLOCKS["first_of_two_generators"].append(bytes(1_024))


def second_of_two_generators():
    while True:
        yield BLOCKS["second_of_two_generators"].append(bytes(96))


FUNCTIONS = (first_of_two_threads, second_of_two_threads, first_of_two_tasks, second_of_two_tasks,
             first_of_two_generators, second_of_two_generators)
# Each list has all its room at once, and none is left for a site to take.
ROOM = 1_000


class Kept:
    """Blocks in a list that never grows."""

    def __init__(self):
        self.blocks, self.used = [None] * ROOM, 0

    def append(self, block):
        self.blocks[self.used] = block
        self.used += 1

    def __iter__(self):
        return iter(self.blocks[:self.used])


def run():
    for function in FUNCTIONS:
        BLOCKS[function.__name__] = Kept()
    threads = [threading.Thread(target=function) for function in FUNCTIONS[:2]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def tasks():
        await asyncio.gather(first_of_two_tasks(), second_of_two_tasks())
    asyncio.run(tasks())
    for _ in zip(range(300), first_of_two_generators(), second_of_two_generators()):
        pass
