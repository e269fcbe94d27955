"""Grows by steps of one library's memory until refused, drops all, and goes on with other work.

argv: polars, worker (polars, in a thread that the main one waits for), rounds (polars, four times), threads (polars, in four, twice each), query (a sort by polars, in threads), system, jemalloc, mimalloc (pools of pyarrow), duckdb, statement (duckdb's, of 32
times as much), numpy, torch, mmap, or mixed, which takes turns of objects and of all those that are there; bytes of a step; a file.
After the first step the bytes of the process's files and stacks are written there, and before all is dropped the bytes that each
library has mapped.
"""

import concurrent.futures
import errno
import itertools
import json
import mmap
import sys
import time

KIND, STEP, TOLD = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def stepper(kind):
    """Returns a function that makes STEP bytes, each of them written to."""
    if kind == "mixed":
        steps = [lambda number: [str(number + n) for n in range(STEP // 64)]]
        for one in ("polars", "jemalloc", "duckdb", "numpy", "mmap"):
            try:
                steps.append(stepper(one))
            except ImportError:
                pass
        turns = itertools.cycle(steps)
        return lambda number: next(turns)(number)
    if kind in ("polars", "worker", "rounds", "threads"):
        import polars
        numbers = STEP // 8
        return lambda number: polars.select(polars.int_range(number, number + numbers, eager=False).alias("n"))
    if kind == "query":
        import polars
        numbers = polars.int_range(0, STEP // 24)
        table = polars.select((numbers % 97).alias("k"), (numbers * 1.5).alias("v")).lazy()
        return lambda _: table.with_columns((polars.col("v") * 2).alias("w")).sort("w").collect()
    if kind == "numpy":
        import numpy
        return lambda number: numpy.ones(STEP // 8)
    if kind == "torch":
        import torch
        return lambda number: torch.full((STEP // 8,), number)
    if kind in ("duckdb", "statement"):
        import duckdb
        rows = STEP // 8 if kind == "duckdb" else STEP * 4
        database = duckdb.connect(config={"memory_limit": "1TB", "temp_directory": ""})

        def table(number):
            # Of numbers that do not compress.
            database.execute("create table t%d as select hash(range) n from range(%d)" % (number, rows))
            return database
        return table
    if kind == "mmap":
        filling = b"x" * STEP

        def mapped(_):
            made = mmap.mmap(-1, STEP, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            made.write(filling)
            return made
        return mapped
    import pyarrow
    pool = getattr(pyarrow, kind + "_memory_pool")()
    assert pool.backend_name == kind
    return lambda number: pyarrow.repeat(number, STEP // 8, memory_pool=pool)


def work(number):
    """Makes many rows, which have nothing to do with the library."""
    rows = [{"id": i, "name": "row %d" % i} for i in range(number)]
    assert json.loads(json.dumps(rows)) == rows


def tell(**told):
    with open(TOLD, "w", encoding="ascii") as file:
        json.dump(told, file)


def beside():
    """Returns the bytes of files, with libraries' own variables, of stacks and of shared memory, which no cap counts."""
    resident, is_file, end = 0, False, None
    with open("/proc/self/smaps", encoding="utf-8", errors="replace") as file:
        for line in file:
            first, *rest = line.split()
            if not first.endswith(":"):
                start, last = first.split("-")
                named = len(rest) > 4
                # A map without a name right behind a file's has the library's variables that start as zero.
                is_file = rest[4].startswith(("/", "[stack")) if named else is_file and start == end
                end = last
            elif first == "Rss:" and is_file:
                resident += int(rest[0]) * 1024
    with open("/proc/self/status", encoding="ascii") as file:
        figures = dict(line.split(":", 1) for line in file)
    return resident + int(figures["Threads"]) * 65536


def is_refused(error):
    """Says whether an error is of memory that was refused: Python's mmap, duckdb and torch raise others than MemoryError."""
    return isinstance(error, MemoryError) or getattr(error, "errno", 0) == errno.ENOMEM or \
        type(error).__name__ == "OutOfMemoryException" or "DefaultCPUAllocator: can't allocate memory" in str(error)


def grow(step, kept):
    while True:
        kept.append(step(len(kept)))
        if len(kept) == 1:
            tell(steps=1, beside=beside())


def grow_again(step, kept, times):
    """Grows until refused, drops all, and grows again."""
    for _ in range(times):
        try:
            grow(step, kept)
        except MemoryError:
            kept.clear()


def main():
    import pyhost
    step, kept = stepper(KIND), []
    if KIND == "rounds":
        grow_again(step, kept, 3)
    if KIND == "threads":
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for thread in [pool.submit(grow_again, step, kept, 2) for _ in range(4)]:
                thread.result()
    try:
        if KIND == "worker":
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                pool.submit(grow, step, kept).result()
        else:
            grow(step, kept)
    except Exception as error:
        if not is_refused(error):
            raise
    steps = len(kept)
    tell(steps=steps, beside=beside(), mapped=pyhost.balance_sheet()["mapped"],
         live=pyhost.memory_stats()["accounts"]["mapped"]["live_bytes"])
    if KIND in ("duckdb", "statement", "mixed"):
        step = None  # closes the database
    kept.clear()
    work(2000)
    # polars gives back what was dropped seconds later, by a thread of its own. What is larger than what the limit
    # leaves may be refused until then, and not for ever.
    for _ in range(300 if KIND in ("polars", "worker", "rounds", "threads", "query", "mixed", "duckdb", "statement") else 1):
        try:
            work(20000)
            break
        except MemoryError:
            time.sleep(0.1)
    else:
        raise MemoryError("nothing was given back")
    print("caught after %d steps; finished" % steps, flush=True)


main()
