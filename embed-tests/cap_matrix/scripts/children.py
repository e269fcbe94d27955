"""Child processes have the cap, too: one that hogs ends with MemoryError, and its parent goes on."""

import collections
import sys

from growing import Plan, announce, finish, need, seed, work

[os, subprocess] = need("os", "subprocess")

UNCAUGHT = "data = []\nwhile True: data.append(bytes(%d))"
CAUGHT = "data = []\ntry:\n    while True: data.append(bytes(%d))\nexcept MemoryError:\n    data = None; print('caught')"


def command(size):
    answer = subprocess.run([sys.executable, "-c", UNCAUGHT % size], capture_output=True, text=True)
    last = (answer.stderr.strip().splitlines() or [""])[-1]
    assert answer.returncode == 1 and last.startswith("MemoryError"), (answer.returncode, answer.stderr[-2000:])
    return 1


def catching_command(size):
    answer = subprocess.run([sys.executable, "-c", CAUGHT % size], capture_output=True, text=True)
    assert (answer.returncode, answer.stdout) == (0, "caught\n"), (answer.returncode, answer.stderr[-2000:])
    return 1


def forked(size):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            data = []
            while True:
                data.append(bytes(size))
        except MemoryError:
            data, status = None, 7
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 7 << 8, status
    return 1


def forked_while_full(size):
    """Forks while the parent is at its cap: the child inherits what is booked."""
    data = collections.deque()
    try:
        while True:
            data.append(bytes(size))
    except MemoryError:
        while len(data) * size > 4_000_000:
            data.pop()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            while True:
                data.append(bytes(size))
        except MemoryError:
            status = 7
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 7 << 8, status
    return 1


plan = Plan("children", seed(), [command, catching_command, forked, forked_while_full], (48, 100_000))
announce(1, plan.episodes, "%s; size %d" % (plan.choice.__name__, plan.size))
if plan.works_before:
    work()
finish(sum(plan.choice(plan.size) for _ in range(plan.episodes)))
