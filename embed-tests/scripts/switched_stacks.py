"""Greenlets with deep and shallow C stacks, which are freed and made while others wait: each switch puts a stack in place and
frees its copy, and allocations run in between."""

import greenlet


def call_in_c(depth, own):
    # Each third call goes through C, which has a part of the C stack of its own.
    if depth:
        function = call_in_c
        if depth % 3 == 0:
            return max([depth], key=lambda _: function(depth - 1, own))
        return function(depth - 1, own)
    kept = 0
    for step in range(20):
        kept += len([step] * 50)
        kept += len(own.parent.switch(step) or ())
    return kept


def rounds():
    for depth in (0, 3, 40):
        some = [greenlet.greenlet(call_in_c) for _ in range(5)]
        for one in some:
            one.switch(depth, one)
        for step in range(20):
            for one in some:
                one.switch([step] * step)
        yield sum(one.dead for one in some)


print([sum(rounds()) for _ in range(4)])
