"""A large array stays, smaller ones come and go."""

import numpy

from measured import many, work

with work(lambda: kept.nbytes):
    kept = numpy.ones(many(25_000_000))  # the line
    found = 0.0
    for turn in range(100):
        part = kept[turn * 1000:len(kept) // 40 + turn * 1000]
        found += float((part * 2 + turn).sum())
    for turn in range(many(20_000)):
        found += float((kept[:50] + turn)[0])
