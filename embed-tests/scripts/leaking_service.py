"""A service that answers requests for ever. Three of its lines leak: in `audit`, `remember` and `subscribe`."""
import collections
import json
import random
import time

journal, sessions, callbacks = [], {}, []
cache = collections.OrderedDict()
recent = collections.deque(maxlen=300)
batch = []
settings = [bytes(1000) for _ in range(5000)]  # loaded once


def audit(number):
    journal.append("x" * 3000 + str(number))


def remember(number):
    if number % 5 == 0:
        sessions[number] = bytes(12_000)


def subscribe(number):
    if number % 11 == 0:
        data = bytearray(30_000)
        callbacks.append(lambda: data)


def cached(key):
    if key not in cache:
        cache[key] = bytes(4000)
        if len(cache) > 400:
            cache.popitem(last=False)
    return cache[key]


def look_back(number):
    recent.append([number] * 500)


def collect(number):
    batch.append("y" * 5000)
    if len(batch) > 150:
        batch.clear()


def parse(number):
    text = json.dumps([{"number": number, "values": list(range(50))} for _ in range(40)])
    return json.loads(text)


def main():
    for number in range(3000):  # warm
        cached(number % 1000)
        look_back(number)
    print("ready", flush=True)
    random.seed(1)
    number = 0
    while True:
        number += 1
        audit(number)
        remember(number)
        subscribe(number)
        cached(random.randrange(1000))
        look_back(number)
        collect(number)
        parse(number)
        time.sleep(0.002)


main()
