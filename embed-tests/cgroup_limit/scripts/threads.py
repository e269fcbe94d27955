"""Four threads that hog side by side; each catches its own error."""

import threading

from until_refused import finish

caught = []


def hog():
    data = []
    try:
        while True:
            data.append(bytes(b"x" * 20_000))
    except MemoryError:
        data = None
        caught.append(1)


threads = [threading.Thread(target=hog) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(caught) == 4, caught
finish()
