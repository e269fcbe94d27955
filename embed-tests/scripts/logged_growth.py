"""Takes and frees blocks at random, and logs its own counters after each step, until it is killed.

Prints, a line each time: the live bytes of the total, its peak, and how many requests there were.
"""

import os
import random
import sys

import pyhost

STEP = 256 * 1024

random.seed(int(sys.argv[1]))
blocks = []
while True:
    if len(blocks) > 200 or blocks and random.random() < 0.4:
        del blocks[random.randrange(len(blocks))]
    else:
        blocks.append(bytearray(random.randrange(STEP)))
    stats = pyhost.memory_stats()
    requests = sum(account["total_blocks"] for account in stats["accounts"].values())
    line = f"{stats['total']['live_bytes']} {stats['total']['peak_bytes']} {requests}\n"
    del stats
    os.write(1, line.encode())
