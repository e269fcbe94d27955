"""Interpreters with a GIL of their own (PEP 684) allocate at once; the ledger must still equal a walk of the heaps.

argv[1] is the seed. Needs CPython 3.12 or later.
"""
import sys
import threading

import pyhost
from ledger_walk import check

if sys.version_info >= (3, 13):
    import _interpreters as interpreters
    create = lambda: interpreters.create("isolated")
else:
    import _xxsubinterpreters as interpreters
    create = lambda: interpreters.create(isolated=True)

WORK = """
import random
generator = random.Random(%d)
keep = {}
for step in range(60000):
    keep[generator.randrange(500)] = [step, str(step), {step: bytes(generator.randrange(300))}]
"""


def run(number):
    interpreter = create()
    interpreters.run_string(interpreter, WORK % number)
    interpreters.destroy(interpreter)


check("at the start")
seed = int(sys.argv[1])
threads = [threading.Thread(target=run, args=(seed * 10 + number,)) for number in range(4)]
for thread in threads:
    thread.start()
exec(WORK % seed)
for thread in threads:
    thread.join()
check("at the end")
figures = pyhost.memory_stats()["accounts"]["obj"]
assert figures["peak_bytes"] >= figures["live_bytes"]
print("exact")
