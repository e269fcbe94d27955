"""Makes the files of --live in the folder argv[1] shorter, and goes on: allocates, in threads too, forks, is refused by a cap."""
import glob
import os
import pyhost
import signal
import sys
import threading
import time

kept = [bytes(3000) for _ in range(2000)]  # 6 MB
time.sleep(0.2)
more = [bytes(3000) for _ in range(200)]  # as it comes the host copies its counters
live = pyhost.memory_stats()["total"]["live_bytes"]
for path in glob.glob(sys.argv[1] + "/*.live") + glob.glob(sys.argv[1] + "/*.lines"):
    os.truncate(path, 0)
    if "again" in sys.argv:
        os.truncate(path, 1 << 20)


def churn():
    for _ in range(50):
        more = [bytes(3000) for _ in range(200)]


threads = [threading.Thread(target=churn) for _ in range(4)]
for thread in threads:
    thread.start()
churn()
for thread in threads:
    thread.join()
if os.fork() == 0:
    churn()
    os._exit(3)
print("child", os.wait()[1] >> 8)
now = pyhost.memory_stats()["total"]["live_bytes"]
print("near" if abs(now - live) < 2 << 20 else (live, now))
try:
    bytes(200 << 20)
    print("not refused")
except MemoryError:
    print("refused")
if "handler" in sys.argv:
    signal.signal(signal.SIGBUS, lambda number, frame: print("handled", number))
    print(signal.getsignal(signal.SIGBUS) is not signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGBUS)
if "fault" in sys.argv:
    import faulthandler
    import mmap
    import tempfile
    faulthandler.enable()
    with tempfile.TemporaryFile() as file:
        file.truncate(mmap.PAGESIZE)
        view = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        file.truncate(0)
        sys.stdout.flush()
        print(view[0])
