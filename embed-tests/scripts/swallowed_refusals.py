"""CPython clears the error where the table of interned strings cannot grow, and goes on without.

Three loops under a cap: the script is given a MemoryError that it catches, and then goes on.
"""

import sys


def interned():
    kept, number = [], 0
    while True:
        kept.append(sys.intern("key%d" % number))
        number += 1


class Plain:
    pass


def new_names_of_one():
    one, number = Plain(), 0
    while True:
        setattr(one, "name%d" % number, number)
        number += 1


def new_names_of_many():
    kept, number = [], 0
    while True:
        one = Plain()
        setattr(one, "other%d" % number, number)
        kept.append(one)
        number += 1


def swallowed(count):
    """A full table of interned strings, and room to spare: no call of these may fail."""
    kept = [sys.intern("kept%d" % number) for number in range(count)]
    for number in range(120_000):
        sys.intern("gone%d" % number)
    return len(kept)


if sys.argv[1] == "swallowed":
    print(swallowed(int(sys.argv[2])))
else:
    try:
        globals()[sys.argv[1]]()
    except MemoryError:
        pass
print("finished")
