"""Workers write reports of their own: run it with `pyhost --stats=file=report-%p.json`.

Without `%p` only this process writes, and its report says how many forks it saw and the largest child's peak.
"""
import multiprocessing


def work(number):
    data = bytearray(number * 1_000_000)
    return len(data)


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(work, range(1, 9)))
