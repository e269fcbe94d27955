"""Sites in threads: short ones, ones that take turns with others, and blocks that another thread frees or resizes."""

import concurrent.futures.thread
import queue
import threading

from sites import site


def in_threads(work, number):
    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@site
def of_one_thread():
    kept = []

    def work():
        kept.extend(bytes(777) for _ in range(500))
    in_threads(work, 1)
    return kept


@site
def of_eight_threads():
    kept = []

    def work():
        for _ in range(120):
            kept.append(bytes(600))
    in_threads(work, 8)
    return kept


@site
def of_many_short_threads():
    kept = []

    def work():
        kept.append(bytes(5_000))
    for _ in range(40):
        in_threads(work, 1)
    return kept


@site
def large_blocks_of_threads():
    kept = []

    def work():
        kept.append(bytes(150_000))
    in_threads(work, 4)
    return kept


@site
def of_a_pool():
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        return list(pool.map(lambda number: bytes(3_000 + number), range(100)))


@site
def freed_by_another_thread():
    kept, passed = [], queue.SimpleQueue()

    def make():
        for _ in range(600):
            passed.put(bytes(900))
        passed.put(None)

    def free():
        number = 0
        while (block := passed.get()) is not None:
            number += 1
            if number % 3 == 0:
                kept.append(block)
    maker, freer = threading.Thread(target=make), threading.Thread(target=free)
    maker.start()
    freer.start()
    maker.join()
    freer.join()
    return kept


@site
def lists_that_another_thread_grows():
    kept = [[] for _ in range(100)]

    def work():
        for one in kept:
            one.extend([None] * 300)
    in_threads(work, 1)
    return kept


@site
def in_a_local_of_threads():
    local, kept = threading.local(), []

    def work():
        local.kept = [bytes(1_000) for _ in range(60)]
        kept.append(local.kept)
    in_threads(work, 3)
    return kept
