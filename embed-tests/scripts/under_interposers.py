"""Allocates in all sizes, in threads and a child, and prints what does not depend on the allocator."""

import os
import threading
import time


def work():
    kept = [bytearray(1 << power) for power in range(22)]
    for size in range(1, 2000, 31):
        kept.append(bytes(size) + b"x")
    kept[21].extend(bytes(1 << 21))
    return sum(len(block) for block in kept)


results = []
threads = [threading.Thread(target=lambda: results.append(work())) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(results, time.time() > 0, work(), flush=True)
child = os.fork()
if child == 0:
    print("child", work(), flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1])
