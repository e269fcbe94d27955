"""A service that answers requests until it is killed: service.py SEED [--no-leak].

Three functions leak: `audit`, `remember` and `subscribe`. All else has the noise of a service that is well: garbage of each
request, caches that are full after the warm-up, queues whose lengths go up and down at random, sessions that end after a
random time, a buffer that grows and is flushed, a batch job that comes again and again, a pool of threads.
"""
import collections
import concurrent.futures
import functools
import json
import random
import sys
import time

RANDOM = random.Random(int(sys.argv[1]))
LEAKS = "--no-leak" not in sys.argv
WARM = 4000
PAUSE = 0.002

journal, seen, callbacks = [], {}, []


def audit(number):
    journal.append("x" * RANDOM.randrange(1000, 5000) + str(number))


def remember(number):
    if RANDOM.random() < 0.2:
        seen[number] = bytes(RANDOM.randrange(4000, 20_000))


def subscribe(number):
    # Clients come in bursts.
    if number % 40 < 10 and RANDOM.random() < 0.4:
        data = bytearray(30_000)
        callbacks.append(lambda: data)


class Cache:
    """The latest `bound` answers, made by `make`."""

    def __init__(self, bound, make):
        self.bound, self.make = bound, make
        self.entries = collections.OrderedDict()

    def get(self, key):
        if key in self.entries:
            self.entries.move_to_end(key)
        else:
            self.entries[key] = self.make(key)
            if len(self.entries) > self.bound:
                self.entries.popitem(last=False)
        return self.entries[key]


def page(key):
    return bytes(RANDOM.randrange(2000, 6000))


def picture(key):
    return bytearray(RANDOM.randrange(20_000, 60_000))


def profile(key):
    return {name: str(key) * 5 for name in "abcdefgh"}


@functools.lru_cache(maxsize=500)
def rendered(key):
    return "<p>" * 1000 + str(key)


# As many functions as queues, so that each is a line of its own.
QUEUES = 8
for queue in range(QUEUES):
    exec(compile("\n" * queue + f"def message_{queue}(): return bytes(3000)", "queues.py", "exec"))
messages = [globals()[f"message_{queue}"] for queue in range(QUEUES)]
queues = [collections.deque(make() for _ in range(600)) for make in messages]


def drift():
    """Each queue gets a few messages or loses a few, whichever comes."""
    for queue, make in zip(queues, messages):
        if RANDOM.random() < 0.5:
            queue.extend(make() for _ in range(5))
        else:
            for _ in range(min(5, len(queue))):
                queue.popleft()


sessions = []


def session():
    return bytes(8000)


def log_in():
    sessions.append(session())
    while sessions and RANDOM.random() < len(sessions) / 600:
        sessions.pop(RANDOM.randrange(len(sessions)))


recent = collections.deque(maxlen=300)
buffered = []


def look_back(number):
    recent.append([number] * RANDOM.randrange(100, 800))


def buffer(number):
    buffered.append("y" * 5000)
    if len(buffered) > 150:
        buffered.clear()


def parse(number):
    text = json.dumps([{"number": number, "values": list(range(40))} for _ in range(RANDOM.randrange(5, 60))])
    return sum(len(row["values"]) for row in json.loads(text))


def batch():
    """Now and then: a lot at once, then nothing."""
    rows = [{"number": number, "text": "z" * 500} for number in range(3000)]
    rows.sort(key=lambda row: -row["number"])
    return len(rows)


def load():
    """Once, at the start."""
    return [bytes(1000) for _ in range(5000)]


def respond(number, caches):
    pages, pictures, profiles = caches
    # Few keys are asked for often.
    pages.get(int(RANDOM.paretovariate(0.5)) % 5000)
    pictures.get(RANDOM.randrange(300))
    profiles.get(RANDOM.randrange(3000))
    rendered(RANDOM.randrange(2000))
    drift()
    log_in()
    look_back(number)
    buffer(number)
    parse(number)


def main():
    settings = load()
    caches = Cache(400, page), Cache(60, picture), Cache(900, profile)
    for number in range(WARM):
        respond(number, caches)
    pool = concurrent.futures.ThreadPoolExecutor(2)
    print("ready", len(settings), flush=True)
    number = 0
    next_batch = 0
    while True:
        number += 1
        respond(number, caches)
        if LEAKS:
            audit(number)
            remember(number)
            subscribe(number)
        pool.submit(parse, number)
        if number > next_batch:
            next_batch = number + RANDOM.randrange(500, 900)
            pool.submit(batch).result()
        time.sleep(PAUSE)


main()
