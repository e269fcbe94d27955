"""A program for memray to trace: threads, many small objects, one large block; says whether a host runs it."""
import json
import threading

import pyhost


def work():
    for _ in range(20):
        json.loads(json.dumps(list(range(1000))))


threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
large = bytearray(5_000_000)
print("hosted" if pyhost.memory_stats()["total"]["live_bytes"] > len(large) else "lost", 12345)
