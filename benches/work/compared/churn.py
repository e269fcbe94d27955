"""A loop that only allocates: lists, tuples, dicts, strings, floats and bytes, of which the last stay."""

from measured import many, size_of, work

kept = [None] * many(100_000)
with work(lambda: size_of(*kept)):
    for i in range(many(200_000)):
        kept[i % len(kept)] = ([i, i + 1, (i, str(i))], {"b": float(i)}, bytes(600))  # the line
