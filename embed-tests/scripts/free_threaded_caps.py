"""Four threads grow until each has had a MemoryError, again and again: each in another way. Prints how many errors they had."""
import sys
import threading

ROUNDS = int(sys.argv[1])
errors = [0] * 4
start = threading.Barrier(4)


def lists(keep):
    while True:
        keep.append([1, 2, 3])


def dicts(keep):
    while True:
        keep.append({len(keep): "a"})


def texts(keep):
    while True:
        keep.append(str(len(keep)) * 50)


def blocks(keep):
    while True:
        keep.append(bytes(100_000))


def work(number, grow):
    start.wait()
    for _ in range(ROUNDS):
        keep = []
        try:
            grow(keep)
        except MemoryError:
            errors[number] += 1
        keep.clear()


threads = [threading.Thread(target=work, args=pair) for pair in enumerate((lists, dicts, texts, blocks))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*errors)
