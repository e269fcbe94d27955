"""Forks while threads outside Python call NumPy's data handler; each child makes arrays, too.

argv: the library made from array_storm.c, the number of forks. A child that does not end within 60 seconds is a hang.
Prints `done`.
"""
import ctypes
import os
import sys
import threading
import time
import warnings

import numpy as np
import pyhost
from data_handler import handler

storm = ctypes.CDLL(sys.argv[1])
warnings.simplefilter("ignore", DeprecationWarning)


def child():
    for size in (3, 100, 1000, 10_000, 1_000_000):
        arrays = [np.full(size, number, "i4") for number in range(3)]
        thread = threading.Thread(target=lambda: arrays.append(np.zeros(size)))
        thread.start()
        thread.join()
        if [int(array[0]) for array in arrays] != [0, 1, 2, 0]:
            os._exit(1)
    pyhost.memory_stats()
    os._exit(0)


storm.storm_start(ctypes.c_void_p(handler()), ctypes.c_size_t(16), 3, 1, 7, 1)
try:
    for _ in range(int(sys.argv[2])):
        pid = os.fork()
        if pid == 0:
            child()
        end = time.monotonic() + 60
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            if time.monotonic() > end:
                os.kill(pid, 9)
                sys.exit("a child hangs")
            time.sleep(0.001)
        assert status == 0, status
finally:
    assert storm.storm_join() == 0
storm.storm_release()
print("done")
