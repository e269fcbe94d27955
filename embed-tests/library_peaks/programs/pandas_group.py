import numpy
import pandas

frame = pandas.DataFrame({"key": numpy.arange(6_000_000) % 5000, "value": numpy.arange(6_000_000) * 0.5})
frame["text"] = frame["key"].astype(str)
sums = frame.sort_values("value", ascending=False).groupby("text")["value"].sum()
assert len(sums) == 5000
