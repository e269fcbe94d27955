"""Loops in C, where CPython has no safe point between two requests.

Not `tuple(iterator)`: where that cannot grow, CPython loses what it holds (docs/limit/caps.md).
"""

import collections
import functools

from growing import run

run("c_loops", [], whole=[
    "data = sorted(itertools.count())",
    "data = sorted((str(i) for i in itertools.count()), key=len)",
    "data = list(itertools.count())",
    "data = list(map(str, itertools.count()))",
    "data = list(map(float, itertools.count()))",
    "data = list(zip(itertools.count(), itertools.count()))",
    "data = list(enumerate(itertools.repeat(None)))",
    "data = set(map(str, itertools.count()))",
    "data = dict(enumerate(itertools.repeat(n)))",
    "data = dict.fromkeys(itertools.count())",
    "data = collections.deque(map(complex, itertools.count()))",
    "data = collections.Counter(itertools.count())",
    "data = ''.join(map(str, itertools.count()))",
    "data = bytearray().join(map(bytes, itertools.repeat(n)))",
    "data = list(range(10 ** 9))",
    "data = list(itertools.permutations(range(12)))",
    "data = list(itertools.product(range(100), repeat=5))",
    "data = functools.reduce(lambda tree, i: (tree, i), itertools.count())",
    "data = [list(map(float, range(n))) for i in itertools.repeat(0)]",
], names={"collections": collections, "functools": functools}, sizes=(48, 2000))
