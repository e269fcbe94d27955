"""The parts of pyhost.budget that are Python: functions that it decorates, and threads that begin in a unit.

Run when the first budget is entered, and not before.
"""

import functools
import threading
from concurrent.futures.thread import ThreadPoolExecutor

from pyhost import _current_budget, _decorated, _switch_budget, budget


def _budgeted(function, size, name):
    """Decorates a function: each call is a unit of its own. A generator's unit runs while it does, not between two items."""
    if name is None:
        name = getattr(function, "__qualname__", None)
    return _decorated(function, lambda: budget(size, name=name), True)


def _in_unit(unit, function, *args, **kwargs):
    """Calls a function in a unit."""
    before = _switch_budget(unit)
    try:
        return function(*args, **kwargs)
    finally:
        _switch_budget(before)


def _carry():
    """Has threads that start in a unit, and work that is given to a pool there, run in it. A pool's threads themselves are in none."""
    submit, start = ThreadPoolExecutor.submit, threading.Thread.start

    @functools.wraps(submit)
    def submit_in_unit(self, *args, **kwargs):
        unit = _current_budget()
        if unit is None or not args:
            return submit(self, *args, **kwargs)
        return _in_unit(None, submit, self, _in_unit, unit, *args, **kwargs)

    @functools.wraps(start)
    def start_in_unit(self):
        unit = _current_budget()
        if unit is None:
            return start(self)
        own, run = self.__dict__.get("run"), self.run

        def run_in_unit():
            restore()
            _in_unit(unit, run)

        def restore():
            if own is None:
                del self.run
            else:
                self.run = own

        self.run = run_in_unit
        try:
            start(self)
        except BaseException:
            restore()
            raise

    ThreadPoolExecutor.submit, threading.Thread.start = submit_in_unit, start_in_unit
