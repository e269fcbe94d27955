"""multiprocessing, through concurrent.futures: a worker that reaches its cap catches the MemoryError and goes on by halves.

    pyhost --cap 96M --stats='file=reports/%p.json' with_multiprocessing.py
"""

import concurrent.futures
import multiprocessing

from work import RANGES, finish, total_within_the_cap


def main():
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        finish(list(pool.map(total_within_the_cap, *zip(*RANGES))))


if __name__ == "__main__":
    main()
