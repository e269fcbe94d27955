"""Counts the checks of a command, and says how they went."""

counts = {True: 0, False: 0}


def check(name, good, seen=None, remark=""):
    """Prints how a check went, with a remark, and what was seen if it failed."""
    counts[bool(good)] += 1
    print(f"{'passed' if good else 'FAILED'}{remark}: {name}", flush=True)
    if not good and seen is not None:
        print(f"  {seen}", flush=True)


def closing():
    """Prints the last line. Returns the exit status."""
    print(f"{counts[True]} passed, {counts[False]} failed")
    return 1 if counts[False] else 0
