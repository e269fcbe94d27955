"""Arrays over buffers that C made, and arrays of a second data handler, by the ledger: argv[1] names the pattern, or is
`all`; argv[2] is how many rounds. Prints `nothing leaked`.

A buffer must be in `native` while its array lives, as one block, and in no other account. After the rounds bytes and
blocks of every account must be what they were before them. That is asserted to the byte: `gc.collect()` empties
CPython's free lists before each reading, and the rounds that go before the first fill the caches that it leaves.

Needs the extension modules `ownership` and `shifting_handler` of embed-tests/c.
"""

import array
import asyncio
import contextvars
import gc
import queue
import sys
import threading

import numpy as np
import ownership
import pyhost
import shifting_handler

try:
    from numpy._core.multiarray import get_handler_name
except ImportError:
    from numpy.core.multiarray import get_handler_name

ACCOUNTS = ("native", "numpy", "raw", "mem", "obj")
OURS, SHIFTING = "pyhost", shifting_handler.NAME
SHIFT = 64  # the bytes in front of a block of the shifting handler


def live(account):
    figures = pyhost.memory_stats()["accounts"][account]
    return figures["live_bytes"], figures["live_blocks"]


class Ledger:
    """Live bytes and blocks of all accounts at two moments. Reading them leaves nothing behind."""

    def __init__(self):
        self.readings = [array.array("q", [0] * (2 * len(ACCOUNTS))) for _ in range(2)]

    def read(self, which):
        reading = self.readings[which]
        gc.collect()
        accounts = pyhost.memory_stats()["accounts"]
        for index, account in enumerate(ACCOUNTS):
            reading[2 * index] = accounts[account]["live_bytes"]
            reading[2 * index + 1] = accounts[account]["live_blocks"]

    def check(self, what):
        grown = {
            account: tuple(self.readings[1][place] - self.readings[0][place] for place in (2 * index, 2 * index + 1))
            for index, account in enumerate(ACCOUNTS)
        }
        assert not any(map(any, grown.values())), f"{what}: (bytes, blocks) by account: {grown}"


def repeat(play, rounds):
    # Its own frame: a last number that is too large for CPython's small ones would be a block of `obj`.
    for number in range(rounds):
        play(number)


def check_rounds(what, play, rounds):
    """`play(number)` for every round leaves every account as it was."""
    ledger = Ledger()
    for _ in range(2):
        repeat(play, WARM_UP)
        ledger.read(0)
        ledger.read(1)
    ledger.read(0)
    repeat(play, rounds)
    ledger.read(1)
    ledger.check(what)


WARM_UP = 2000


def shape(number):
    """Buffers of 4 bytes to 60 KB, and every thousandth of 2 MB or 4 MB."""
    if number % 1000 == 999:
        return 800, 700, number % 2000 == 999
    return 1 + number % 97, 1 + number % 79, number % 3 == 0


def check_values(made):
    assert made[-1, -1] == made.size - 1 and made[0, 0] == 0
    if made.size < 1_000_000 and made.dtype == np.float64:
        assert made.sum() == made.size * (made.size - 1) / 2


def check_booked(make, rows, columns, single):
    """Makes an array, which must be booked to `native` and to nothing else; the array."""
    native, numpy = live("native"), live("numpy")
    made = make(rows, columns, single)
    with_it = live("native")
    assert with_it[1] - native[1] == 1, (make, native, with_it)
    assert made.nbytes <= with_it[0] - native[0] <= made.nbytes * 1.34 + 70_000, (make, native, with_it)
    assert live("numpy") == numpy
    return made


# The patterns of ownership.pyx.


def wrapped(rows, columns, single=False):
    return ownership.Buffer(rows, columns, single).array()


def check_pattern(make, rounds):
    def play(number):
        check_values(make(*shape(number)))

    check_rounds(make, play, rounds)
    for number in (0, 1, 5, 50, 700, 998, 999, 1999):
        before = live("native")
        made = check_booked(make, *shape(number))
        # The last reference to the memory, whatever it is a part of, is the one that counts.
        part = made[:, -1:] if number % 2 else made.ravel()[-1:]
        del made
        assert live("native")[1] == before[1] + 1, make
        assert part.flat[-1] == np.prod(shape(number)[:2]) - 1
        del part
        assert live("native") == before, make
    # Many at once, freed in another order.
    before = live("native")
    many = [make(20, 30) for _ in range(500)]
    grown = live("native")
    assert grown[1] - before[1] == 500 and grown[0] - before[0] >= 500 * 20 * 30 * 8, (make, before, grown)
    for made in many:
        check_values(made)
    many[::2] = many[1::2] = [None] * 250
    made = None
    assert live("native") == before, make
    check_other_threads(make, rounds // 10)


def check_other_threads(make, rounds):
    """Four threads free what this one made."""
    waiting, served = queue.SimpleQueue(), queue.SimpleQueue()

    def serve():
        while True:
            made = waiting.get()
            if made is None:
                return
            check_values(made)
            made = None
            served.put(None)

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        thread.start()

    def play(number):
        waiting.put(make(*shape(number)))
        served.get()

    try:
        # Between two rounds the threads hold still, so that the ledger holds still too.
        check_rounds((make, "freed by another thread"), play, rounds)
    finally:
        for _ in threads:
            waiting.put(None)
        for thread in threads:
            thread.join()


def owned(rounds):
    made = ownership.owned(3, 4)
    assert made.flags.owndata and made.base is None and get_handler_name(made) is None
    try:
        made.resize((5, 6), refcheck=False)
    except RuntimeError as error:
        assert "no memory handler" in str(error)  # NumPy may free such memory, but knows nobody to resize it
    else:
        raise AssertionError("was resized")
    check_values(made)
    del made
    check_pattern(ownership.owned, rounds)


def owned_through_a_view(rounds):
    made = ownership.owned_through_a_view(3, 4)
    assert made.flags.owndata and made.base is not None
    del made
    check_pattern(ownership.owned_through_a_view, rounds)


def kept_by_its_base(rounds):
    before = live("native")
    buffer = ownership.Buffer(100, 100)
    arrays = [buffer.array() for _ in range(10)]
    assert live("native")[1] == before[1] + 1 and all(made.base is buffer for made in arrays)
    del buffer
    arrays[0][0, 1] = 7
    assert arrays[9][0, 1] == 7
    arrays[9][0, 1] = 1
    del arrays[1:]
    assert live("native")[1] == before[1] + 1
    check_values(arrays[0])
    arrays.clear()
    assert live("native") == before
    check_pattern(wrapped, rounds)


def held_by_its_owner(rounds):
    before = live("native")
    holder = ownership.Holder(100, 100)
    check_values(holder.array)
    assert live("native")[1] == before[1] + 1
    dangling = holder.array
    assert not dangling.flags.owndata
    del holder
    # The mistake of this pattern: the memory is freed while the array lives. It must not be read.
    assert live("native") == before
    del dangling
    assert live("native") == before

    def play(number):
        # In a variable: `check_values(Holder(...).array)` would let go of the holder before the call.
        holder = ownership.Holder(*shape(number))
        check_values(holder.array)

    check_rounds("held by its owner", play, rounds)


def in_capsule(rounds):
    made = ownership.in_capsule(3, 4)
    assert type(made.base).__name__ == "PyCapsule" and not made.flags.owndata
    del made
    check_pattern(ownership.in_capsule, rounds)


def viewed(rounds):
    made = ownership.viewed(3, 4)
    assert isinstance(made.base, memoryview) and not made.flags.owndata
    del made
    check_pattern(ownership.viewed, rounds)
    table = ownership.static_table()
    table[...] = 123
    assert ownership.static_table().sum() == 123 * table.size
    assert np.shares_memory(table, ownership.static_table())
    del table
    check_rounds("static", lambda number: ownership.static_table(), rounds)


def copied(rounds):
    native, numpy = live("native"), live("numpy")
    made = ownership.copied(100, 100)
    assert live("native") == native and live("numpy")[1] == numpy[1] + 1 and get_handler_name(made) == OURS
    del made
    assert live("numpy") == numpy
    check_rounds("copied", lambda number: check_values(ownership.copied(*shape(number))), rounds)


def remembered(rounds):
    def play(number):
        made = ownership.remembered(*shape(number))
        check_values(made)
        del made
        ownership.release()

    check_rounds("remembered", play, rounds)
    made = check_booked(ownership.remembered, 20, 30, False)
    del made
    ownership.release()
    # The next buffer overwrites the only pointer: all but the last are lost.
    before = live("native")
    for _ in range(10):
        ownership.remembered(20, 30)
    ownership.release()
    lost = live("native")
    assert lost[1] - before[1] == 9 and lost[0] - before[0] >= 9 * 20 * 30 * 8, (before, lost)


# The second handler.


class Shifting:
    """The shifting handler is in force within `with`."""

    def __enter__(self):
        self.previous = shifting_handler.set()

    def __exit__(self, *_):
        shifting_handler.restore(self.previous)


def check_handler(made, name):
    assert get_handler_name(made) == name, (get_handler_name(made), name)


def check_in_force(name):
    """The handler of new arrays, by its name, by an array and by the account."""
    assert get_handler_name() == name, (get_handler_name(), name)
    native, numpy = live("native"), live("numpy")
    made = np.ones(3000)
    check_handler(made, name)
    if name == OURS:
        assert live("numpy")[1] == numpy[1] + 1 and live("numpy")[0] >= numpy[0] + made.nbytes
        assert live("native") == native
    else:
        assert live("numpy") == numpy
        assert live("native")[1] == native[1] + 1 and live("native")[0] >= native[0] + made.nbytes + SHIFT
    del made
    assert (live("native"), live("numpy")) == (native, numpy), (name, live("native"), live("numpy"), native, numpy)


def check_counters():
    counters = shifting_handler.counters()
    assert counters["bad_frees"] == counters["bad_reallocs"] == counters["wrong_sizes"] == 0, counters
    assert counters["allocations"] == counters["frees"] and counters["live_bytes"] == 0, counters


def second_handler(rounds):
    check_in_force(OURS)
    with Shifting():
        check_in_force(SHIFTING)
    check_in_force(OURS)
    check_birth(OURS, SHIFTING)
    check_birth(SHIFTING, OURS)
    check_reset()
    check_contexts()
    check_counters()

    def play(number):
        length = 1 + number % 3000
        with Shifting():
            theirs = np.arange(length, dtype="f8")
            theirs_zero = np.zeros(length)
        ours = theirs + 1
        ours_zero = np.zeros(length)
        with Shifting():
            ours.resize(length + number % 500, refcheck=False)
            sum_of_both = theirs + theirs_zero
            del ours_zero
        theirs.resize(length + number % 700, refcheck=False)
        for made in (theirs, theirs_zero, sum_of_both):
            check_handler(made, SHIFTING)
        check_handler(ours, OURS)
        assert ours[length - 1] == length and theirs[length - 1] == sum_of_both[-1] == length - 1
        assert theirs[length:].sum() == 0 and ours[length:].sum() == 0

    check_rounds("handlers side by side", play, rounds)
    check_counters()
    check_many_threads(rounds // 10)
    check_counters()
    assert get_handler_name() == OURS
    shifting_handler.free_badly()
    assert shifting_handler.counters()["bad_frees"] == 1  # so the zeros above say something


def switch_to(name):
    if get_handler_name() != name:
        shifting_handler.set() if name == SHIFTING else shifting_handler.restore(None)


def check_birth(first, second):
    """An array keeps the handler that it was born with, wherever it is resized and freed."""
    before = live("native"), live("numpy")
    account, other = ("numpy", "native") if first == OURS else ("native", "numpy")
    switch_to(first)
    made, doomed = np.arange(1000.0), np.zeros(0)
    switch_to(second)
    index = 1 if account == "numpy" else 0
    for length in (2000, 100_000, 500_000, 10, 0, 1, 3000):
        made.resize(length, refcheck=False)
        check_handler(made, first)
        assert live(account)[0] >= before[index][0] + made.nbytes
        assert live(account)[1] == before[index][1] + 2 and live(other) == before[1 - index]
        assert length == 0 or made[0] == 0
    check_handler(made.copy(), second)
    check_handler(made + made, second)
    view = made[::2]
    assert get_handler_name(view) is None  # it owns no data
    shape_changed = made.reshape(50, 60)
    del made, view, doomed
    check_handler(shape_changed.base, first)
    del shape_changed
    assert (live("native"), live("numpy")) == before, (first, live("native"), live("numpy"), before)
    switch_to(OURS)


def check_reset():
    """`PyDataMem_SetHandler(NULL)` gives back the host's handler."""
    shifting_handler.set()
    check_in_force(SHIFTING)
    before = shifting_handler.restore(None)
    check_in_force(OURS)
    shifting_handler.restore(before)
    check_in_force(SHIFTING)
    before = shifting_handler.restore(None)
    check_in_force(OURS)
    # The handler that was in force, as a capsule: the host's.
    ours = shifting_handler.set()
    check_in_force(SHIFTING)
    shifting_handler.restore(ours)
    check_in_force(OURS)


def check_contexts():
    """A handler is set in the current context: other threads, tasks and contexts do not see it."""
    with Shifting():
        on_a_thread(check_in_force, OURS)
        contextvars.copy_context().run(check_in_force, SHIFTING)
        contextvars.Context().run(check_in_force, OURS)
        on_a_thread(contextvars.copy_context().run, check_in_force, SHIFTING)
        crossing = np.ones(5000)

        def free_there():
            nonlocal crossing
            check_handler(crossing, SHIFTING)
            crossing = None

        on_a_thread(free_there)

    def on_its_own():
        shifting_handler.set()
        check_in_force(SHIFTING)

    on_a_thread(on_its_own)
    check_in_force(OURS)
    contextvars.copy_context().run(on_its_own)
    check_in_force(OURS)

    async def tasks():
        async def task(name):
            switch_to(name)
            for _ in range(20):
                check_in_force(name)
                await asyncio.sleep(0)

        await asyncio.gather(task(OURS), task(SHIFTING), task(OURS), task(SHIFTING))
        check_in_force(OURS)

    asyncio.run(tasks())
    check_in_force(OURS)


def on_a_thread(function, *arguments):
    raised = []

    def body():
        try:
            function(*arguments)
            raised.append(None)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if raised[0] is not None:
        raise raised[0]


def check_many_threads(rounds):
    """Threads of both handlers hand their arrays to one another, which resize and free them."""
    before = live("numpy")
    handed = queue.Queue(50)
    names = [OURS, SHIFTING] * 2
    failures = []

    def make(name):
        switch_to(name)
        for number in range(rounds):
            made = np.full(1 + number % 5000, number)
            check_handler(made, name)
            handed.put((name, made))

    def take(own):
        switch_to(own)
        for number in range(rounds):
            name, made = handed.get()
            check_handler(made, name)
            if number % 3 == 0:
                value, length = made[0], made.size
                made.resize(2 * length, refcheck=False)
                check_handler(made, name)
                assert made[length - 1] == value and made[length] == 0
            del made

    def noting(function, name):
        try:
            function(name)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=noting, args=(function, name)) for name in names for function in (make, take)]
    for thread in threads:
        thread.daemon = True  # one that failed must not keep the others waiting for ever
        thread.start()
    for thread in threads:
        while thread.is_alive() and not failures:
            thread.join(0.2)
    if failures:
        raise failures[0]
    del threads, thread
    assert live("numpy") == before, (live("numpy"), before)


PATTERNS = {
    function.__name__: function
    for function in (
        owned, owned_through_a_view, kept_by_its_base, held_by_its_owner, in_capsule, viewed, copied, remembered,
        second_handler,
    )
}

if __name__ == "__main__":
    wanted, rounds = sys.argv[1], int(sys.argv[2])
    for name, pattern in PATTERNS.items():
        if wanted in (name, "all"):
            pattern(rounds)
    print("nothing leaked")
