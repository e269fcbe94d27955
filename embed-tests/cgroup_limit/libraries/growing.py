"""Grows by steps of one library's memory until refused, drops all, and goes on with other work.

argv: polars, system, jemalloc, mimalloc (pools of pyarrow) or mmap; bytes of a step; the file that is told which
library had mapped how much before all was dropped.
"""

import json
import mmap
import sys
import time

KIND, STEP, TOLD = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def stepper():
    """Returns a function that makes STEP bytes, each of them written to."""
    if KIND == "polars":
        import polars
        numbers = STEP // 8
        return lambda number: polars.select(polars.int_range(number, number + numbers, eager=False).alias("n"))
    if KIND == "mmap":
        filling = b"x" * STEP

        def mapped(_):
            made = mmap.mmap(-1, STEP, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            made.write(filling)
            return made
        return mapped
    import pyarrow
    pool = getattr(pyarrow, KIND + "_memory_pool")()
    assert pool.backend_name == KIND
    return lambda number: pyarrow.repeat(number, STEP // 8, memory_pool=pool)


def work(number):
    """Makes many rows, which have nothing to do with the library."""
    rows = [{"id": i, "name": "row %d" % i} for i in range(number)]
    assert json.loads(json.dumps(rows)) == rows


def main():
    import pyhost
    step, kept, steps = stepper(), [], 0
    try:
        while True:
            kept.append(step(steps))
            steps += 1
    except MemoryError:
        pass
    with open(TOLD, "w", encoding="ascii") as file:
        json.dump({"steps": steps, "mapped": pyhost.balance_sheet()["mapped"],
                   "live": pyhost.memory_stats()["accounts"]["mapped"]["live_bytes"]}, file)
    kept.clear()
    work(2000)
    # polars gives back what was dropped seconds later, by a thread of its own. What is larger than what the limit
    # leaves may be refused until then, and not for ever.
    for _ in range(300 if KIND == "polars" else 1):
        try:
            work(20000)
            break
        except MemoryError:
            time.sleep(0.1)
    else:
        raise MemoryError("nothing was given back")
    print("caught after %d steps; finished" % steps, flush=True)


main()
