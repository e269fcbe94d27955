"""Threads that make and drop Python objects, under the GIL; prints the seconds of 1, 2 and 4, as JSON.

    python_threads.py STEPS REPEATS

Every thread does STEPS, and hands a part of its objects to the others, which drop them. Of the repeats the least
counts.
"""

import json
import sys
import threading
import time


def work(steps, mailbox):
    keep = [None] * 500
    for i in range(steps):
        made = {"i": i, "list": [i, str(i)], "pair": (i, float(i))}
        if i % 8:
            keep[i % 500] = made
        else:
            mailbox[i % len(mailbox)] = made


def seconds(threads, steps):
    mailbox = [None] * 256
    started = [threading.Thread(target=work, args=(steps, mailbox)) for _ in range(threads)]
    began = time.perf_counter()
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return time.perf_counter() - began


steps, repeats = map(int, sys.argv[1:])
print(json.dumps({str(threads): min(seconds(threads, steps) for _ in range(repeats)) for threads in (1, 2, 4)}))
