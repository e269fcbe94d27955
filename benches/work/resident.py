"""Builds about 130 MB of objects, drops most of them, and prints what the kernel says, as JSON in KiB.

    resident.py

Of 127 MB, 80 are dropped. What is resident is read at once, and again 2 s later: some allocators give memory back
only after a while, and only when they are next called.
"""

import gc
import json
import time

ROWS = 247_000
KEPT = ROWS * 47 // 127


def resident(name):
    with open("/proc/self/status", encoding="ascii") as file:
        [line] = [line for line in file if line.startswith(name + ":")]
    return int(line.split()[1])


def rows(first, last):
    return [{"id": i, "name": "name %d" % i, "more": [i * 1.5, (i, str(i))]} for i in range(first, last)]


kept = rows(0, KEPT)
dropped = rows(KEPT, ROWS)
facts = {"peak": resident("VmHWM"), "built": resident("VmRSS")}
del dropped
gc.collect()
facts["after freeing most"] = resident("VmRSS")
time.sleep(2)
rows(0, 100)
gc.collect()
facts["after freeing most, 2 s later"] = resident("VmRSS")
print(json.dumps(facts))
