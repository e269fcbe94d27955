"""A table is made, sorted into groups and summed up."""

import numpy
import pandas

from measured import many, work

rows = many(3_000_000)
with work(lambda: frame.memory_usage().sum().item()):
    frame = pandas.DataFrame(numpy.random.default_rng(1).random((rows, 6)), columns=list("abcdef"), copy=False)  # the line
    for column in "abc":
        key = (frame[column] * 1000).astype("int32")
        found = frame.groupby(key)["d"].agg(["mean", "sum", "max"])
