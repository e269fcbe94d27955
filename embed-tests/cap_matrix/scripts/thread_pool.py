"""Hogs in a pool of threads; each catches its own MemoryError, or leaves it to its future."""

from growing import Plan, announce, finish, need, seed, work

[futures] = need("concurrent.futures")


def hog_bytes(size):
    data = []
    while True:
        data.append(bytes(size))


def hog_dict(size):
    data, i = {}, 0
    while True:
        data[i] = str(i) * (size // 50 + 1)
        i += 1


def hog_objects(size):
    data = []
    while True:
        data.append([object() for _ in range(size // 10 + 1)])


def hog_inside(size):
    data = []
    while True:
        try:
            data.append((size, str(size)))
        except MemoryError:
            return "caught"


def hog_comprehension(size):
    return [bytes(size) for _ in range(10 ** 9)]


def bounded(hog, size):
    """Runs a hog that may see all others end first: whoever asks next is refused, so all end."""
    try:
        return hog(size)
    except MemoryError:
        return "caught"


def modest(rounds):
    """Asks for little, and lets go: it may be refused while others hog, but must end."""
    done = 0
    for _ in range(rounds):
        try:
            done += len([str(i) for i in range(100)])
        except MemoryError:
            done += 100
    return done


HOGS = (hog_bytes, hog_dict, hog_objects, hog_inside, hog_comprehension)
plan = Plan("thread_pool", seed(), [(hog, by) for hog in HOGS for by in ("hog", "future")], (100, 20_000))
hog, by = plan.choice
threads = plan.random.choice((2, 3, 5))
announce(threads, plan.episodes, "%d threads of %s; caught by the %s; size %d" % (threads, hog.__name__, by, plan.size))
if plan.works_before:
    work()
caught = 0
for _ in range(plan.episodes):
    with futures.ThreadPoolExecutor(threads + 1) as pool:
        other = pool.submit(modest, 200)
        if by == "hog":
            waiting = [pool.submit(bounded, hog, plan.size) for _ in range(threads)]
        else:
            waiting = [pool.submit(hog, plan.size) for _ in range(threads)]
    assert other.result() == 20_000
    for future in waiting:
        try:
            caught += future.result() == "caught"
        except MemoryError:
            caught += 1
    other = waiting = future = None
finish(caught)
