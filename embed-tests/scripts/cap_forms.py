"""Grows in many forms, each below the cap by its own `try`: prints where each error was caught.

A line a form: its name and `inside`, or what else became of it. `inside` means that the innermost
`try` around the growing statement got the error.
"""

import itertools
import threading


class Node:
    def __init__(self, number):
        self.number = number
        self.parts = [number]


def subscript_stores():
    data = {}
    i = 0
    while True:
        try:
            data[i] = [0] * 10
            i += 1
        except MemoryError:
            return "inside"


def appends():
    data = []
    while True:
        try:
            data.append(b"x" * 100)
        except MemoryError:
            return "inside"


def comprehensions():
    data = []
    for _ in itertools.repeat(None):
        try:
            data.append([[j] for j in range(100)])
        except MemoryError:
            return "inside"


def plain_objects():
    data = []
    while True:
        try:
            data += [Node(1)]
        except MemoryError:
            return "inside"


def nested_tuples():
    data = None
    while True:
        try:
            data = (data, 1.5)
        except MemoryError:
            while data:
                data = data[0]
            return "inside"


def finally_blocks():
    data, closed = [], [True]
    try:
        while True:
            closed[0] = False
            try:
                data.append([1, 2, 3])
            finally:
                closed[0] = True
    except MemoryError:
        return "inside" if closed[0] else "finally was left out"


def try_around_the_loop():
    data = []
    try:
        while True:
            data.append({"a": 1})
    except MemoryError:
        return "inside"


def try_of_a_callee():
    def grow(count):
        return [i * 1.5 for i in range(count)]

    data = []
    try:
        while True:
            data.append(grow(50))
    except MemoryError:
        return "inside"


def loops_in_c():
    try:
        sorted(str(i) for i in itertools.count())
    except MemoryError:
        pass
    try:
        list(map(float, itertools.count()))
    except MemoryError:
        return "inside"


def large_requests():
    data = []
    while True:
        try:
            data.append(bytearray(1 << 20))
        except MemoryError:
            return "inside"


def held_locks():
    lock, data = threading.Lock(), []
    while True:
        try:
            with lock:
                data.append([1, 2])
        except MemoryError:
            return "inside" if lock.acquire(False) else "the lock is held"


def other_threads():
    result = []

    def run():
        data = []
        while True:
            try:
                data.append({"a": len(data)})
            except MemoryError:
                data.clear()
                result.append("inside")
                return

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return "inside" if result == ["inside"] * 3 else str(result)


def recursion():
    def down(depth):
        return [depth, down(depth + 1)] if depth < 900 else list(range(10_000_000))

    try:
        down(0)
    except MemoryError:
        return "inside"


for form in [
    subscript_stores, appends, comprehensions, plain_objects, nested_tuples, finally_blocks,
    try_around_the_loop, try_of_a_callee, loops_in_c, large_requests, held_locks, other_threads,
    recursion,
]:
    try:
        outcome = form()
    except MemoryError as error:
        outcome = "escaped: %r" % error
    print(form.__name__, outcome, flush=True)
print("finished", sum(len(str(i)) for i in range(10_000)))
