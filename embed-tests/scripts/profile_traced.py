"""A trace function of the script's own sees what it sees without pyhost.profile, and stays where it was. Prints its events."""

import sys

import pyhost

events = []


def trace(frame, event, _):
    if frame.f_code.co_filename == __file__:
        events.append((frame.f_code.co_name, event, frame.f_lineno))
    return trace


def child(value):
    inner = value + 1
    return inner


def work(depth):
    total = 0
    for number in range(2):
        total += child(number)
    try:
        if depth:
            work(depth - 1)
        raise KeyError
    except KeyError:
        total += 1
    return total


def steps():
    yield child(1)
    yield 2


def sets_another():
    before = sys.gettrace()
    sys.settrace(None)
    child(1)
    sys.settrace(before)
    return child(2)


if pyhost.active and "--profiled" in sys.argv:
    for name in ("work", "steps", "sets_another"):
        pyhost.profile(globals()[name])
work(1)
sys.settrace(trace)
work(1)
list(steps())
sets_another()
assert sys.gettrace() is trace
sys.settrace(None)
work(1)
for event in events:
    print(*event)
