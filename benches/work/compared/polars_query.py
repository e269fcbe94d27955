"""A query whose columns the threads of a library make."""

import polars

from measured import many, work

table = polars.LazyFrame({"n": polars.int_range(0, many(4_000_000), eager=True)})
with work(lambda: found.estimated_size()):
    found = table.select([(polars.col("n") * factor).alias(str(factor)) for factor in range(8)]).collect()  # the line
    for factor in range(8):
        groups = found.lazy().group_by(polars.col(str(factor)) % 1000).agg(polars.len()).collect()
