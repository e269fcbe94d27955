"""Shows that stock Python crashes at the same place: program.py under `python`, with _testcapi.set_nomemory.

set_nomemory counts the requests of the three domains as the host does, but a few more or fewer of them may come
first: starts near the host's number are tried until one ends in the same way with the same Python stack. Both are run
by gdb, too, and the innermost C functions are compared; where a crash comes later than its cause, both under CPython's
debug hooks, which bring it nearer, and by Valgrind.
"""

import itertools
import re

import outcomes

# Threads take turns as time has it, and NumPy takes array data elsewhere: a request may come earlier or later.
WINDOW = 60
# Requests within which imports come as far.
FAR = 8000
# The debug hooks are fewer or more requests away: pymalloc's own do not pass them.
DEBUG_WINDOW = 12
# The bytes that the debug hooks add to a request of CPython's domains: its size, the domain's letter and guard bytes.
DEBUG_BYTES = {"raw": 24, "mem": 24, "obj": 24}
# Valgrind is slow.
DAMAGE_WINDOW = 2
# A run takes a second; what is not done after this many waits for ever.
HANG_SECONDS = 20
# So many hangs that are not at the same place are enough.
HANGS = 4
# Functions that only pass a request on, or end the process.
_PLUMBING = re.compile(
    r"^(raise|abort|__GI_\w+|__pthread_kill\w*|kill|gsignal|malloc|calloc|realloc|free|memcpy|memset|__mem\w+"
    r"|_?Py(Mem|Object)_(Raw)?(Malloc|Calloc|Realloc|Free)|_PyObject_(Malloc|Free)\w*|_PyMem_\w+|hook_f\w+"
    r"|pymalloc_\w+|pyhost\w*::.*|core::.*|std::.*|arena_\w+|.*<[0-9].*|fatal_error\w*|Py_TYPE|_Py_FatalError\w*|Py_FatalError"
    r"|pop<.*|push<.*|heap::.*|allocate\w*|free_slow|\?\?)$")
_C_FRAME = re.compile(r"^(?:#\d+\s+(?:0x[0-9a-f]+ in )?|==\d+==    (?:at|by) 0x[0-9A-F]+: )(.+?) \(")

# A line of the failures' log without its process: number, account, size, Python calls.
_REQUEST = re.compile(r"\d+ (\w+) (\d+) (.*)")
_STACK_LINE = re.compile(r"==    (at|by) ")


def neighbours(number, window):
    """Returns `number` and those around it, nearest first, from 1 on."""
    near = [number + sign * distance for distance in range(window + 1) for sign in ((1, -1) if distance else (1,))]
    return [start for start in near if start > 0]


def same_python_place(left, right):
    """Says whether two stacks are at one place: the same files, lines and functions, as far as both are program.py's
    callees. Above program.py the two interpreters go different ways."""
    return callees(left) == callees(right)


def callees(stack):
    """Returns the frames up to the phase's own, which is the first of program.py that is seen from inside."""
    inner = []
    for frame in stack:
        inner.append(frame)
        if frame[0] == "program.py":
            break
    return inner


def c_functions(backtrace, depth=4):
    """Returns the innermost functions of a gdb backtrace of the thread that crashed, without those that only pass
    requests on."""
    found = []
    for line in backtrace.splitlines():
        frame = _C_FRAME.match(line)
        if frame and not _PLUMBING.match(frame[1]):
            found.append(frame[1])
    return found[:depth]


def search(runner, place, record):
    """Runs stock Python around the place of a run that ended badly; what was found, as a record.

    `status`: `same place` where it ended in the same way with the same Python stack and the same innermost C function;
    `same C function` where only the Python stack differs, or `same way` where only the outcome is the same; `same
    damage` where the memory that the crash is a consequence of was damaged by the same C functions; `not found`.
    """
    if place[1] == "numpy":
        return {"status": "not searched: nothing fails array data under stock Python"}
    best = search_near(runner, place, record)
    if best["status"] == "not found" and record["outcome"] != outcomes.HANG and record.get("progress"):
        phase, accounts, number = place
        best = search_near(runner, place, record, aligned(runner, (phase, accounts), number, record["progress"]))
    if best["status"] in ("same place", "same C function") or record["outcome"] == outcomes.HANG:
        return best
    damage = same_under_debug_hooks(runner, place, record) or same_damage(runner, place)
    if damage and (damage["status"] != "not found" or best["status"] == "not found"):
        return damage
    return best


def aligned(runner, pair, number, progress):
    """Returns the request of stock Python at which its imports have come as far as the host's: an import makes some thousand requests more or
    fewer, as hashes and folders have it."""
    low, high = max(1, number - FAR), number + FAR
    while low < high:
        middle = (low + high) // 2
        seen = next((run["progress"] for near in range(8) if (run := runner.run("stock", (*pair, middle + near)))["progress"]), [])
        is_before = outcomes.is_before(seen, progress)
        if is_before is None:
            return middle
        low, high = (middle + 1, high) if is_before else (low, middle)
    return low


def search_near(runner, place, record, middle=None):
    """Runs stock Python around the place, or around another number; the best that was found, as `search` returns it."""
    phase, accounts, number = place
    host = record["outcome"]
    hangs = host == outcomes.HANG
    host_c = [] if hangs else crash_functions(runner, "pyhost", place)
    best = {"status": "not found", "host_c": host_c}
    others = 0
    for start in neighbours(middle or number, WINDOW):
        stock_place = (phase, accounts, start)
        run = runner.run("stock", stock_place, HANG_SECONDS if hangs else None)
        if run["outcome"] != host:
            continue
        same = same_python_place(run["stack"], record["stack"])
        if host == outcomes.FATAL:
            same = same and run["fatal"] == record["fatal"]
        stock_c = [] if hangs else crash_functions(runner, "stock", stock_place)
        same_c = hangs or (host_c != [] and host_c[:1] == stock_c[:1])
        found = {"start": start, "stock_c": stock_c, "stock_stack": run["stack"][:3], "host_c": host_c}
        if same and same_c:
            return {"status": "same place", **found}
        if same_c and not hangs and best["status"] != "same C function":
            best = {"status": "same C function", **found}
        if best["status"] == "not found":
            best = {"status": "same way", **found}
        others += 1
        if hangs and others == HANGS:
            break
    return best | {"host_stack": record["stack"]} if hangs else best


def same_under_debug_hooks(runner, place, record):
    """Searches again under the debug hooks, which fill new and freed memory: a block that is used uninitialised or after
    its end crashes at once, whatever the heap left in it. Returns None if the host does not crash there when the same
    request fails, or if stock Python does not crash at the same place.

    The request is compared, not the crash: at once is at other lines than later.
    """
    checked = runner.with_debug_hooks()
    phase, accounts, number = place
    for near in neighbours(number, DEBUG_WINDOW):
        near_record = checked.run("pyhost", (phase, accounts, near))
        if outcomes.is_crash(near_record["outcome"]) and same_request(near_record, record):
            found = search_near(checked, (phase, accounts, near), near_record)
            return found | {"status": "same damage"} if found["status"] == "same place" else None
    return None


def same_request(hooked, plain):
    """Says whether the same request failed in a run under the debug hooks and in one without: of the same account, from
    the same Python calls, and larger by what the hooks add."""
    requests = [_REQUEST.match(record.get("injected", "")) for record in (hooked, plain)]
    if None in requests:
        return False
    (account, size, calls), (plain_account, plain_size, plain_calls) = (found.groups() for found in requests)
    return (account, int(size), calls) == (plain_account, int(plain_size) + DEBUG_BYTES.get(account, 0), plain_calls)


def crash_functions(runner, side, place, tries=3):
    """Returns the innermost C functions of a crash; under gdb threads may need another try to meet it."""
    for _ in range(tries):
        found = c_functions(runner.backtrace(side, place))
        if found:
            return found
    return []


def same_damage(runner, place):
    """Compares by Valgrind what first touches memory that is not its own; None where that is not the same.

    A block that is freed twice ends in a crash somewhere later, or in none, as the allocator happens to be; the first
    wrong access does not depend on it.
    """
    phase, accounts, number = place
    host = c_functions(runner.valgrind("pyhost", place), 3)
    if not host:
        return None
    found = {"status": "not found", "host_c": host}
    for start in neighbours(number, DAMAGE_WINDOW):
        stock = c_functions(runner.valgrind("stock", (phase, accounts, start)), 3)
        if stock == host:
            return {"status": "same damage", "start": start, "host_c": host, "stock_c": stock}
    return found


def first_wrong_access(report):
    """Returns the C stack of the first invalid read or write of one of Valgrind's reports, line by line; an empty string
    without one. The loader's own are left out: its strncmp reads a word past a name's end under every program."""
    for error in report.split("== Invalid ")[1:]:
        stack = "\n".join(itertools.takewhile(_STACK_LINE.search, error.splitlines()[1:]))
        if " _dl_" not in stack:
            return stack
    return ""


def kin(found, others):
    """Returns the place at which stock Python was shown to do what it could not be shown to do here: another one of the
    same version whose crash is in the same C functions, or whose hang waits on the same Python lines; None without."""
    for other in others:
        if other["status"] not in ("same place", "same C function", "same damage"):
            continue
        if found.get("host_c") and found["host_c"][:3] == other["host_c"][:3]:
            return other["place"]
        if found.get("host_stack") and same_python_place(found["host_stack"], other.get("host_stack") or []):
            return other["place"]
    return None
