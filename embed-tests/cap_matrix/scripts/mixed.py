"""Many kinds of growth in turns, chosen at random, so that any of them may be the one that is refused."""

import collections
import gc
import io

from growing import Plan, announce, finish, need, seed, work

[json, decimal, datetime, re, struct] = need("json", "decimal", "datetime", "re", "struct")


class Node:
    def __init__(self, value, below):
        self.value, self.below = value, below


def by_statements(random, size, data):
    """No calls of the script's own between the requests."""
    i = 0
    try:
        while True:
            kind = random.randrange(6)
            if kind == 0:
                data.append(bytes(size))
            elif kind == 1:
                data.append({i: str(i), str(i): i})
            elif kind == 2:
                data.append([i * 1.5, (i, i)])
            elif kind == 3:
                data.append("%d, %s" % (i, "x" * size))
            elif kind == 4:
                data.append({j * 2.5 for j in range(size // 50)})
            else:
                data += [Node(i, None), lambda: i]
            i += 1
    except MemoryError:
        return 1


KINDS = (
    lambda i, size: json.loads(json.dumps({"rows": list(range(size // 20)), "name": str(i)})),
    lambda i, size: decimal.Decimal(i) ** 3 / 7,
    lambda i, size: datetime.date.fromordinal(1 + i % 3_000_000),
    lambda i, size: re.findall(r"\w+", "some words to be found " * (size // 20 + 1)),
    lambda i, size: struct.pack("<%dd" % (size // 8 + 1), *([1.5] * (size // 8 + 1))),
    lambda i, size: io.StringIO("text" * size),
    lambda i, size: collections.deque(range(size // 10)),
    lambda i, size: Node(bytearray(size), Node(i, None)),
    lambda i, size: sorted((str(j) for j in range(size // 20)), reverse=True),
    lambda i, size: type("Made", (Node,), {"i": i}),
    lambda i, size: (j for j in bytes(size)),
    lambda i, size: f"{i:>{size}}".encode(),
    lambda i, size: memoryview(bytearray(size)),
    lambda i, size: ValueError(i, "x" * size),
)


def by_calls(random, size, data):
    i = 0
    while True:
        try:
            data.append(random.choice(KINDS)(i, size))
            i += 1
        except MemoryError:
            return 1


def by_calls_around(random, size, data):
    try:
        for i in range(10 ** 9):
            data.append(random.choice(KINDS)(i, size))
    except MemoryError:
        return 1


def uncaught(random, size, data):
    while True:
        data.append(random.choice(KINDS)(len(data), size))


def up_and_down(random, size, data):
    """Reaches the cap five times without ever dropping all."""
    caught = 0
    while caught < 5:
        try:
            data.append(random.choice(KINDS)(len(data), size))
        except MemoryError:
            caught += 1
            half = len(data) // 2
            while len(data) > half:
                data.popleft()
    return caught


CASES = [(by_statements, 1), (by_calls, 1), (by_calls_around, 1), (uncaught, None), (up_and_down, 5)]
plan = Plan("mixed", seed(), CASES, (100, 10_000))
function, expected = plan.choice
episodes = plan.episodes if expected == 1 else 1
announce(expected, episodes, "%s; size %d" % (function.__name__, plan.size))
if plan.works_before:
    work()
# A list needs memory to become shorter, a deque does not.
caught = 0
for _ in range(episodes):
    caught += function(plan.random, plan.size, collections.deque())
    # The classes among the data are cycles.
    gc.collect()
finish(caught)
