"""Thousands of threads outside Python start, allocate, free each other's blocks and end; nothing may be lost.

argv[1] is the library. More threads at once than the ledger has slots, too.
"""
import ctypes
import sys

import pyhost

churn = ctypes.CDLL(sys.argv[1]).churn


def native():
    figures = pyhost.memory_stats()["accounts"]["native"]
    return figures["live_bytes"], figures["live_blocks"]


churn(2, 8)
churn(1, 200)
native()
before = native()
for rounds, threads in ((50, 8), (3, 200), (20, 30)):
    churn(rounds, threads)
    after = native()
    # libc keeps thread stacks' vectors (dtv) with cached stacks: a few blocks more or less.
    assert abs(after[1] - before[1]) <= 250, (before, after)
    assert abs(after[0] - before[0]) <= 250 * 400, (before, after)
figures = pyhost.memory_stats()["accounts"]["native"]
assert figures["total_blocks"] > 1_000_000
# A dead thread leaves no window behind: a fresh peak is above what lives by this thread's windows alone.
pyhost.reset_peak_memory_stats()
for account in ("native", "raw"):
    figures = pyhost.memory_stats()["accounts"][account]
    excess = figures["peak_bytes"] - figures["live_bytes"]
    assert excess <= max(64 * 1024, figures["live_bytes"] // 100), (account, excess)
print("exact")
