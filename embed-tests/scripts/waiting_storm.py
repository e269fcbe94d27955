"""Threads of Python call through functions with names of their own while a library's threads allocate.

    waiting_storm.py LIBRARY SECONDS

Each stack that a sample of those threads was given must be one that a single thread can have: its own functions, each called by the
line that calls it. Prints how many stacks there were, and how many bytes they have.
"""

import ctypes
import re
import sys
import threading
import time

import pyhost

THREADS = 4
# The calls of a thread, by the line of each. Naps are calls of C that give up the GIL, or hold it.
SOURCE = """
def tN_leaf(turn):
    if turn % 3 == 0: gives_up.nap(200 + turn % 100)
    if turn % 3 == 1: holds.nap(50 + turn % 100)
    return sum([turn, len(str(turn))])

def tN_down(depth, turn):
    if depth == 0:
        return tN_leaf(turn)
    return tN_down(depth - 1, turn)

def tN_main():
    turn = N
    while time.monotonic() < end:
        turn += 1
        tN_down(turn % 7, turn)
"""
CALLERS = {"leaf": (3, 4, 5), "down": (9, 10), "main": (16,)}


def main(library, seconds):
    names = {
        "gives_up": ctypes.CDLL(library),
        "holds": ctypes.PyDLL(library),
        "time": time,
        "end": time.monotonic() + seconds,
    }
    for number in range(THREADS):
        exec(compile(SOURCE.replace("N", str(number)), f"<thread {number}>", "exec"), names)
    threads = [threading.Thread(target=names[f"t{number}_main"]) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    names["gives_up"].start_churn(THREADS)
    for thread in threads:
        thread.join()
    rows = [row for row in pyhost.lines()["allocated"] if row["account"] == "native" and row["stack"]]
    rows = [row for row in rows if re.fullmatch("waiting(: [2-8] candidates)?", row["stack"][0]["function"])]
    for row in rows:
        check([call for call in row["stack"][1:] if call["file"].startswith("<thread ")], row)
    print(len(rows), sum(row["bytes"] for row in rows))


def check(calls, row):
    assert calls, row
    numbers = {call["file"][8:-1] for call in calls}
    number, kinds = numbers.pop(), []
    assert not numbers, row
    for call in calls:
        assert call["function"].startswith(f"t{number}_"), row
        kinds.append(call["function"][3:])
        assert call["line"] in CALLERS[kinds[-1]], row
    # Innermost first: a leaf if the call had come so far, at most seven calls of itself, main.
    assert re.fullmatch("(leaf )?(down ){0,7}main", " ".join(kinds)), row


main(sys.argv[1], float(sys.argv[2]))
