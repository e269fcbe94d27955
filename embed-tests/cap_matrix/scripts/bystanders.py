"""Threads that work with locks, queues and conditions while another hogs: none is left waiting, no lock left held.

A bystander may be refused what it asks while the hog has all; it tries again. What it must not do is stop.
"""

from growing import Plan, announce, finish, need, seed, work

[threading, queue] = need("threading", "queue")

ROUNDS = 300
PATIENCE = 0.1


def patiently(function, *arguments):
    """Calls again what was refused; what a refusal cut short may so be done twice, or be lost and done again."""
    while True:
        try:
            return function(*arguments)
        except (MemoryError, queue.Empty, queue.Full):
            continue


class Bystanders:
    def __init__(self):
        self.condition = threading.Condition()
        self.items, self.turn, self.seen = queue.Queue(5), 0, bytearray(ROUNDS)

    def produce(self):
        while sum(self.seen) < ROUNDS:
            for number in range(ROUNDS):
                if not self.seen[number]:
                    patiently(self.items.put, number, True, PATIENCE)

    def consume(self):
        while sum(self.seen) < ROUNDS:
            self.seen[patiently(self.items.get, True, PATIENCE)] = 1

    def take_turns(self, mine):
        while self.turn < 2 * ROUNDS:
            patiently(self.take_turn, mine)

    def take_turn(self, mine):
        with self.condition:
            if self.turn % 2 != mine:
                self.condition.wait(PATIENCE)
            else:
                self.turn += 1
                self.condition.notify()


def hog_around(size, ended):
    data = []
    try:
        while True:
            data.append(bytes(size))
    except MemoryError:
        data = None
        ended.append(1)


def hog_inside(size, ended):
    data, i = {}, 0
    while True:
        try:
            data[i] = "x" * size
            i += 1
        except MemoryError:
            data = None
            ended.append(1)
            return


def hog_with_lock(size, ended, lock=threading.Lock()):
    """Holds a lock at each request; the lock must be free afterwards."""
    data = []
    try:
        while True:
            with lock:
                data.append(bytes(size))
    except MemoryError:
        data = None
        assert lock.acquire(timeout=5), "the lock is still held"
        lock.release()
        ended.append(1)


plan = Plan("bystanders", seed(), [(hog, where) for hog in (hog_around, hog_inside, hog_with_lock)
                                   for where in ("thread", "main thread")], (100, 20_000))
hog, where = plan.choice
announce(1, plan.episodes, "%s in a %s; size %d" % (hog.__name__, where, plan.size))
if plan.works_before:
    work()
caught = 0
for _ in range(plan.episodes):
    bystanders, ended = Bystanders(), []
    threads = [threading.Thread(target=target, args=arguments, daemon=True) for target, *arguments in (
        (bystanders.consume,), (bystanders.produce,), (bystanders.take_turns, 0), (bystanders.take_turns, 1))]
    if where == "thread":
        threads.append(threading.Thread(target=hog, args=(plan.size, ended), daemon=True))
    for thread in threads:
        thread.start()
    if where != "thread":
        hog(plan.size, ended)
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive(), "a bystander waits for ever"
    assert all(bystanders.seen) and bystanders.turn >= 2 * ROUNDS, "a bystander ended early"
    caught += sum(ended)
finish(caught)
