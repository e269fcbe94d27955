"""Four threads that allocate, and keep a part of it."""

import threading

from measured import many, size_of, work


def run(kept):
    for turn in range(many(20_000)):
        words = [str(turn + i) for i in range(8)]
        if turn % 2 == 0:
            kept.append([(word, float(turn)) for word in words] + [bytes(2000)])  # the line


lists = [[] for _ in range(4)]
with work(lambda: size_of(*(one for kept in lists for one in kept))):
    threads = [threading.Thread(target=run, args=(kept,)) for kept in lists]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
