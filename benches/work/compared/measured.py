"""What the programs of this folder share. A program does its work once, on data of a size, and writes JSON into a file:

    PROGRAM.py SCALE FILE [truth]      the processor's seconds of the work, and the kernel's peak of what is resident, in KiB

In each program one line, marked `# the line`, makes most of what is live at the peak. With `truth` the JSON has its bytes then, too: those
of the array or the table, or of each object by `sys.getsizeof`. They are counted after all else was measured.
"""

import contextlib
import json
import pathlib
import sys
import time

SCALE = float(sys.argv[1])


def many(number):
    """Returns a number of things by the size of the data."""
    return max(1, int(number * SCALE))


@contextlib.contextmanager
def work(bytes_of_the_line):
    """Measures its block; the function returns the bytes that the line has made."""
    began = time.process_time()
    yield
    facts = {"seconds": time.process_time() - began}
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    facts["peak"] = int(status.partition("VmHWM:")[2].split()[0])
    if sys.argv[3:] == ["truth"]:
        facts["truth"] = bytes_of_the_line()
    pathlib.Path(sys.argv[2]).write_text(json.dumps(facts), encoding="ascii")


def size_of(*roots):
    """Returns the bytes of objects, and of all that they hold, each once."""
    seen, ahead, found = set(), list(roots), 0
    while ahead:
        one = ahead.pop()
        if id(one) not in seen:
            seen.add(id(one))
            found += sys.getsizeof(one)
            if isinstance(one, dict):
                ahead += [*one, *one.values()]
            elif isinstance(one, (list, tuple)):
                ahead += one
    return found
