"""Allocates and frees lists, tuples, dicts, strings and floats; prints its seconds, as JSON.

    churn.py ROUNDS [REPEATS]

The seconds are the least of the repeats. With 0 rounds it is the cost of getting there alone.
"""

import sys
import time


def churn(n):
    keep = [None] * 1000
    for i in range(n):
        a = [i, i + 1, (i, str(i))]
        d = {"a": a, "b": float(i)}
        keep[i % 1000] = (d, object())
    return len(keep)


seconds = []
for _ in range(int((sys.argv[2:] or [1])[0])):
    began = time.perf_counter()
    churn(int(sys.argv[1]))
    seconds.append(time.perf_counter() - began)
print('{"churn": %r}' % min(seconds))
