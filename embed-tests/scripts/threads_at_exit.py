"""Daemon threads that Python ends, or leaves, while it is finalised: some wait in C, some run Python code, and some allocate
in C without the GIL. A child that a thread has forked has none of them, and ends with its only thread."""

import ctypes
import os
import sys
import threading
import time


def wait():
    while True:
        time.sleep(0.001)


def run():
    while True:
        [str(number) for number in range(100)]


def fork():
    child = os.fork()
    if child:
        statuses.append(os.waitpid(child, 0)[1])


statuses = []
for function in (wait, run, ctypes.CDLL(sys.argv[1]).allocate_for_ever, wait, run):
    threading.Thread(target=function, daemon=True).start()
forks = threading.Thread(target=fork)
forks.start()
forks.join()
time.sleep(0.02)
print("done", statuses)
