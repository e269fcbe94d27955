"""Forks while threads of Python and of a library start, end and allocate; each child allocates, too, and checks itself.

argv[1] is the library, argv[2] the number of forks. A child that does not end within 60 seconds is a hang: its
stacks are dumped and the script fails.
"""
import ctypes
import faulthandler
import os
import subprocess
import sys
import threading
import time
import warnings

import pyhost

warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forks beside threads: they are the point
library = ctypes.CDLL(sys.argv[1])
running = True


def allocate():
    while running:
        keep = [bytearray(size) for size in range(1, 3000, 7)]
        threading.Thread(target=lambda: [object() for _ in range(1000)]).start()
        del keep


def child():
    faulthandler.dump_traceback_later(50, exit=True)
    keep = [bytearray(size) for size in range(1, 100000, 5003)]
    thread = threading.Thread(target=lambda: keep.append([object() for _ in range(1000)]))
    thread.start()
    thread.join()
    library.fresh_threads()  # takes each lock of the heaps that a thread of the parent may have held
    figures = pyhost.memory_stats()["accounts"]["obj"]
    ok = figures["live_bytes"] > sum(map(len, keep[:-1])) and len(keep[-1]) == 1000
    os._exit(0 if ok else 1)


library.start_background()
threads = [threading.Thread(target=allocate) for _ in range(2)]
for thread in threads:
    thread.start()
try:
    for number in range(int(sys.argv[2])):
        pid = os.fork()
        if pid == 0:
            child()
        end = time.monotonic() + 60
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            if time.monotonic() > end:
                subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all backtrace"])
                os._exit(3)
            time.sleep(0.0005)
        assert status == 0, (number, status)
finally:
    running = False  # else a failed check would leave the threads running for ever
for thread in threads:
    thread.join()
library.stop_background()
print("done")
