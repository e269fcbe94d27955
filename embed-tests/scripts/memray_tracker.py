"""Starts memray in a process with many live blocks of every kind, and frees them under it and after it.

Prints the share of the bytes asked for that memray saw, and the figures of a child.
"""

import gc
import os
import subprocess
import sys
import tempfile
import threading

BLOCKS = 1000
SIZE = 5000

kept = [bytearray(number % 3000) for number in range(20_000)]
kept += [{key: str(key) for key in range(20)} for _ in range(1000)]
growing = [bytearray(100) for _ in range(500)]


def work():
    for _ in range(100):
        [bytearray(900) for _ in range(100)]
        for block in growing:
            block.extend(b"abc")


threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()

import memray  # noqa: E402: while the threads run

path = os.path.join(tempfile.mkdtemp(), "records")
with memray.Tracker(path):
    seen = [bytearray(SIZE) for _ in range(BLOCKS)]
    small = [[number] for number in range(100_000)]
    for thread in threads:
        thread.join()
del kept, seen, small
for block in growing:
    block.extend(b"z" * SIZE)
assert all(len(block) == 100 + 2 * 100 * 3 + SIZE for block in growing)
del growing
gc.collect()
sizes = [record.size for record in memray.FileReader(path).get_allocation_records()]
print("large", sum(SIZE <= size < 2 * SIZE for size in sizes) >= BLOCKS)
print("small", sum(sizes) >= BLOCKS * SIZE + 100_000 * 60)
child = os.fork()
if child == 0:
    [bytearray(size) for size in range(5000)]
    os._exit(7)
print("forked", os.WEXITSTATUS(os.waitpid(child, 0)[1]))
print("started", subprocess.run([sys.executable, "-c", "print(7)"], stdout=subprocess.PIPE).stdout.decode().strip())
