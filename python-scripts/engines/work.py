"""The work that the jobs beside this file hand to an engine: sums of ranges of numbers."""

import os

STEP = 2_000_000
# From 2 to 6 million numbers each: up to 210 MiB as a list.
RANGES = [(first * STEP, (first + 1 + first % 3) * STEP) for first in range(8)]


def total(first, last):
    """Returns the sum of a range, with all its numbers in a list at once, and the process that made it."""
    return sum(list(range(first, last))), os.getpid()


def total_within_the_cap(first, last):
    """Returns the sum, the process, and in how many pieces: by halves where the list does not fit below the cap."""
    try:
        return (*total(first, last), 1)
    except MemoryError:
        middle = (first + last) // 2
    # Behind the handler, where the list is free again.
    parts = [total_within_the_cap(first, middle), total_within_the_cap(middle, last)]
    return sum(part[0] for part in parts), os.getpid(), sum(part[2] for part in parts)


def finish(results):
    """Checks the sums of all pieces and says who made them."""
    assert sum(result for result, _, _ in results) == sum(sum(range(*numbers)) for numbers in RANGES)
    workers = {worker for _, worker, _ in results}
    print(f"{len(RANGES)} ranges in {sum(count for _, _, count in results)} pieces by {len(workers)} workers")
