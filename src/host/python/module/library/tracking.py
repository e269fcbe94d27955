"""The parts of pyhost.track that measure nothing: its accounts, its text, and functions that it decorates.

Run in every interpreter that asks for them, and not before. The measuring itself is in C, so that nothing of Python is
allocated between the figures of the begin and the block, or between the block and the figures of its end.
"""

import functools

import pyhost
from pyhost import _Frozen, _text, track

# Lines of each view in a track's text.
_LINES = 5
# Of inspect, which is large.
_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200


class TrackedAccount(_Frozen):
    """One account during a tracked block. Bytes are those that the blocks really take."""

    __slots__ = ("peak_bytes", "peak_growth_bytes", "growth_bytes", "growth_blocks", "allocations")


def _accounts(figures):
    """Makes the dictionary of a track's accounts."""
    return {name: TrackedAccount(*numbers) for name, *numbers in figures}


def _head(tracked):
    """The figures of a track's own account."""
    return (f"{tracked.account}: peak {_text(tracked.peak_bytes)}, {_text(tracked.peak_growth_bytes)} above the begin; "
            f"growth {pyhost._signed(tracked.growth_bytes)}; resident peak {_text(tracked.resident_peak_bytes)}, "
            f"{_text(tracked.resident_peak_growth_bytes)} above; {tracked.seconds:.3f} s")


def _rows(tracked):
    """The titles, and a row an account that moved, as texts."""
    rows = [("account", "peak", "above begin", "growth", "blocks", "allocations")]
    for name, account in tracked.accounts.items():
        if account.allocations or account.growth_bytes or account.growth_blocks:
            rows.append((name, _text(account.peak_bytes), _text(account.peak_growth_bytes),
                         pyhost._signed(account.growth_bytes), f"{account.growth_blocks:+d}", str(account.allocations)))
    return rows


def _show(tracked):
    """The text of a track: its figures as a whole, then a row an account that moved, and the lines."""
    rows = _rows(tracked)
    lines = [_head(tracked)]
    if len(rows) > 1:
        lines.append(pyhost._table(rows))
    if tracked.threads:
        others = "1 other thread" if tracked.threads == 1 else f"{tracked.threads} other threads"
        lines.append(f"counted too: {tracked.other_allocations} allocations of {others}")
    by_line = tracked.lines
    if by_line is not None:
        lines += by_line._lines(("at_peak", "grown"), _LINES)
    return "\n".join(lines)


def _code(function):
    """The code that runs when a function is called; None for what has none."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(getattr(function, "__func__", function), "__code__", None)


def _wrap(function, account, precise):
    """Decorates a function: each call is a block of its own, the latest to end is in last_track.

    A coroutine is tracked from its first step to its end, with what other tasks allocate meanwhile; so is a generator,
    with what its consumer does between two items.
    """
    wrapper = _decorated(function, lambda: _Call(wrapper, account, precise), False)
    wrapper.last_track = None
    return wrapper


class _Nothing:
    """No block."""

    __enter__ = __exit__ = lambda self, *_: None


def _decorated(function, begin, by_step):
    """A function of which each call runs in what begin() makes, or if it is a generator and `by_step` each step."""
    flags = getattr(_code(function), "co_flags", 0)
    is_parted = by_step and flags & (_GENERATOR | _ASYNC_GENERATOR)
    call, step = (_Nothing, begin) if is_parted else (begin, _Nothing)
    if flags & _COROUTINE:
        async def wrapper(*args, **kwargs):
            with call():
                return await function(*args, **kwargs)
    elif flags & _ASYNC_GENERATOR:
        async def wrapper(*args, **kwargs):
            with call():
                inner, items = step(), function(*args, **kwargs)
                take, given, held = items.asend, None, []
                while True:
                    with inner:
                        try:
                            held.append(await take(given))
                        except StopAsyncIteration:
                            return
                    given = None  # nothing is kept alive between two items
                    try:
                        take, given = items.asend, (yield held.pop())
                    except GeneratorExit:
                        with inner:
                            await items.aclose()
                        raise
                    except BaseException as error:
                        take, given = items.athrow, error
    elif flags & _GENERATOR:
        def wrapper(*args, **kwargs):
            with call():
                inner, items = step(), function(*args, **kwargs)
                take, given, held = items.send, None, []
                while True:
                    with inner:
                        try:
                            held.append(take(given))
                        except StopIteration as end:
                            return end.value
                    given = None  # nothing is kept alive between two items
                    try:
                        take, given = items.send, (yield held.pop())
                    except GeneratorExit:
                        with inner:
                            items.close()
                        raise
                    except BaseException as error:
                        take, given = items.throw, error
    else:
        def wrapper(*args, **kwargs):
            with call():
                return function(*args, **kwargs)
    return functools.update_wrapper(wrapper, function)


class _Call:
    """One call of a decorated function."""

    __slots__ = ("wrapper", "tracked")

    def __init__(self, wrapper, account, precise):
        self.wrapper = wrapper
        self.tracked = track(account=account, precise=precise)

    def __enter__(self):
        self.tracked.__enter__()

    def __exit__(self, *exception):
        self.tracked.__exit__(*exception)
        self.wrapper.last_track = self.tracked
