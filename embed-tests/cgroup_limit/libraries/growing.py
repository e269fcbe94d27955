"""Grows by steps of one library's memory until refused, drops all, and goes on with other work.

argv: polars, system, jemalloc, mimalloc (pools of pyarrow) or mmap; bytes of a step; the file that is told which
library had mapped how much before all was dropped.
"""

import json
import mmap
import sys

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
    rows = [{"id": i, "name": "row %d" % i} for i in range(20000)]
    assert json.loads(json.dumps(rows)) == rows
    print("caught after %d steps; finished" % steps, flush=True)


main()
